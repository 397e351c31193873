//! What the hub costs, measured on this machine: the same calls with and without it, in one run.

use crate::catalog;
use anyhow::{Context as _, anyhow};
use hub::adapters::postings::MemoryIndex;
use hub::core::index::{Catalog, Index, Request, search};
use hub::model::facts::{Facts, SourceFacts, SourcePolicy};
use hub::model::policy::Policy;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Repetitions of what is short.
const TIMES: usize = 200;
/// Calls of the longer program.
const CALLS: u32 = 100;

/// A process spoken to in JSON-RPC lines.
struct Peer {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    id: u64,
}

impl Peer {
    fn start(command: &mut Command) -> anyhow::Result<Peer> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.ok_or_else(|| anyhow!("no pipes"))?;
        let mut peer = Peer { child, stdin, stdout: BufReader::new(stdout), id: 0 };
        peer.ask("initialize", &json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "figures", "version": "1" }
        }))?;
        peer.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(peer)
    }

    fn say(&mut self, message: &Value) -> anyhow::Result<()> {
        writeln!(self.stdin, "{message}")?;
        Ok(self.stdin.flush()?)
    }

    fn ask(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.id += 1;
        let id = self.id;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let mut line = String::new();
            if self.stdout.read_line(&mut line)? == 0 {
                return Err(anyhow!("the process ended"));
            }
            let mut message: Value = serde_json::from_str(&line)?;
            if message["id"] == id {
                return Ok(message["result"].take());
            }
        }
    }

    fn tool(&mut self, name: &str, arguments: &Value) -> anyhow::Result<Value> {
        self.ask("tools/call", &json!({ "name": name, "arguments": arguments }))
    }

    fn execute(&mut self, code: &str) -> anyhow::Result<()> {
        let answer = self.tool("execute", &json!({ "code": code }))?;
        let status = &answer["structuredContent"]["status"];
        if status == "completed" { Ok(()) } else { Err(anyhow!("{answer}")) }
    }

    /// Resident and private memory, in MiB.
    fn memory(&self) -> anyhow::Result<(f64, f64)> {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id()))?;
        let sum = |keys: &[&str]| {
            let lines = text.lines().filter(|line| keys.iter().any(|key| line.starts_with(key)));
            lines
                .filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok())
                .sum::<f64>()
                / 1024.0
        };
        Ok((sum(&["Rss:"]), sum(&["Private_Clean:", "Private_Dirty:"])))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Median and 95th percentile of some repetitions.
fn measured(
    times: usize,
    mut work: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<(Duration, Duration)> {
    let mut taken = Vec::with_capacity(times);
    for _ in 0..times {
        let began = Instant::now();
        work()?;
        taken.push(began.elapsed());
    }
    taken.sort();
    Ok((taken[times / 2], taken[times * 95 / 100]))
}

fn shown((median, high): (Duration, Duration)) -> String {
    format!("p50 {:.2} ms, p95 {:.2} ms", median.as_secs_f64() * 1e3, high.as_secs_f64() * 1e3)
}

/// Measures the binary `capabilities` against the scripted server of `sim`, and prints.
///
/// # Errors
/// A process does not start or does not answer.
pub fn print(capabilities: &Path, sim: &Path, out: &mut impl std::io::Write) -> anyhow::Result<()> {
    let home = tempfile_folder()?;
    let log = home.join("calls.log");
    let hub = |arguments: &[&str]| {
        let mut command = Command::new(capabilities);
        command
            .arg("hub")
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("CAPABILITIES_HOME", &home);
        command
    };
    let server: Vec<String> = [
        sim.to_string_lossy().as_ref(),
        "server",
        "--log",
        &log.to_string_lossy(),
        "--script",
        "notes",
    ]
    .map(str::to_owned)
    .to_vec();
    let quiet = |mut command: Command| -> anyhow::Result<()> {
        let done = command.stdin(Stdio::null()).output()?;
        if done.status.success() {
            Ok(())
        } else {
            Err(anyhow!("{}", String::from_utf8_lossy(&done.stderr)))
        }
    };
    quiet(hub(&["init"]))?;
    let mut add = hub(&["add", "--accept", "--namespace", "notes"]);
    add.args(&server);
    quiet(add)?;

    let start = measured(20, || Peer::start(&mut hub(&["serve", "--stdio"])).map(|_| ()))?;
    writeln!(out, "start → initialize answered   {}", shown(start))?;
    let mut peer = Peer::start(&mut hub(&["serve", "--stdio"]))?;
    peer.execute("return 1").context("the first run")?;
    let empty = measured(TIMES, || peer.execute("return 1"))?;
    writeln!(out, "empty execute                 {}", shown(empty))?;
    peer.execute("return await notes.listNotes()")?;
    let one = measured(TIMES, || peer.execute("return await notes.listNotes()"))?;
    let mut direct = Peer::start(Command::new(&server[0]).args(&server[1..]))?;
    let plain = measured(TIMES, || direct.tool("list_notes", &json!({})).map(|_| ()))?;
    writeln!(out, "execute with one call         {}", shown(one))?;
    writeln!(out, "the same call made directly   {}", shown(plain))?;
    let many = format!("for (let i = 0; i < {}; i += 1) await notes.listNotes();", CALLS + 1);
    let many = measured(20, || peer.execute(&many))?;
    let further = many.0.saturating_sub(one.0) / CALLS;
    writeln!(out, "each further call             {:.3} ms", further.as_secs_f64() * 1e3)?;
    let (resident, private) = peer.memory()?;
    writeln!(
        out,
        "memory of the server, idle    {resident:.1} MiB resident, {private:.1} MiB private"
    )?;

    let built = Instant::now();
    let catalog = Catalog::new(Arc::new(thousand_tools()?));
    let postings = MemoryIndex::build(&catalog.documents());
    let index = Index::new(catalog, postings);
    let built = built.elapsed();
    let request = Request::read(&json!({ "query": "update the label of an item" }))?;
    let found = measured(TIMES, || search(&index, &request).map(|_| ()).map_err(Into::into))?;
    writeln!(
        out,
        "search at 1,000 tools         {} (index built in {:.1} ms)",
        shown(found),
        built.as_secs_f64() * 1e3
    )?;
    let large = home.join("large");
    std::fs::create_dir_all(large.join("hub"))?;
    let hub = |arguments: &[&str]| {
        let mut command = hub(arguments);
        command.env("CAPABILITIES_HOME", &large);
        command
    };
    print_many(&hub, &large.join("hub"), out)?;
    std::fs::remove_dir_all(&home)?;
    Ok(())
}

fn tempfile_folder() -> anyhow::Result<std::path::PathBuf> {
    let folder = std::env::temp_dir().join(format!("capabilities-figures-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    Ok(folder.canonicalize()?)
}

fn thousand_tools() -> anyhow::Result<Facts> {
    let mut facts = Facts::default();
    for number in 0..10 {
        let service = format!("service{number}");
        let record = catalog::record(&service, number)?;
        let mut source = SourceFacts::new(record, None, SourcePolicy::Usable(Policy::default()));
        for tool in catalog::tools(&service, 100)? {
            source.tools.insert(tool.raw.clone(), tool);
        }
        facts.sources.insert(source.record.id.clone(), source);
    }
    Ok(facts)
}

/// Sources and tools of the largest hub that is measured.
const MANY: (u8, usize) = (200, 50);

/// The same hub as a process with very many tools.
fn print_many(
    hub: &dyn Fn(&[&str]) -> Command,
    folder: &Path,
    out: &mut impl std::io::Write,
) -> anyhow::Result<()> {
    let (sources, each) = MANY;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(catalog::fill(folder, sources, each))?;
    writeln!(out, "with {} tools in {sources} sources:", usize::from(sources) * each)?;
    let start = measured(20, || Peer::start(&mut hub(&["serve", "--stdio"])).map(|_| ()))?;
    writeln!(out, "  start → initialize answered {}", shown(start))?;
    let query = json!({ "query": "update the label of an item" });
    let began = Instant::now();
    Peer::start(&mut hub(&["serve", "--stdio"]))?.tool("search", &query)?;
    let built = began.elapsed();
    writeln!(out, "  start, build, first search  {:.1} ms", built.as_secs_f64() * 1e3)?;
    let first = measured(10, || {
        Peer::start(&mut hub(&["serve", "--stdio"]))?.tool("search", &query).map(|_| ())
    })?;
    writeln!(out, "  start, open, first search   {}", shown(first))?;
    let mut peer = Peer::start(&mut hub(&["serve", "--stdio"]))?;
    for (name, arguments) in [
        ("search", query),
        ("search", json!({ "query": "", "namespace": "service77" })),
        ("describe", json!({ "targets": ["service77.updateLabel"] })),
        ("describe", json!({ "targets": ["service77"] })),
    ] {
        peer.tool(name, &arguments)?;
        let taken = measured(TIMES, || peer.tool(name, &arguments).map(|_| ()))?;
        writeln!(out, "  {name} {arguments}  {}", shown(taken))?;
    }
    peer.execute("return 1")?;
    let empty = measured(50, || peer.execute("return 1"))?;
    writeln!(out, "  empty execute               {}", shown(empty))?;
    let review = measured(5, || {
        let done = hub(&["list"]).stdin(Stdio::null()).output()?;
        if done.status.success() { Ok(()) } else { Err(anyhow!("list failed")) }
    })?;
    writeln!(out, "  list                        {}", shown(review))?;
    let (resident, private) = peer.memory()?;
    writeln!(
        out,
        "  memory of the server        {resident:.1} MiB resident, {private:.1} MiB private"
    )?;
    Ok(())
}
