//! An MCP server that does what servers in the wild were seen doing: one small case per report.
//!
//! `tools` is what it lists, `answers` what its calls do, `stdio` and `http` are two ways to it. Each
//! quirk is switched on by name; without any the server is merely odd.

mod answers;
pub mod http;
mod stdio;
mod tools;

use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Protocol versions it speaks, newest first.
const VERSIONS: &[&str] = &["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// An integer that a JavaScript number would round.
pub const LARGE_INTEGER: i64 = 1_915_883_588_174_806_058;

/// Something the server does beside being odd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Quirk {
    /// Log lines on standard output, before and between messages.
    Banner,
    /// Megabytes of log lines on standard error before the first answer.
    Noise,
    /// Ends with status 3 and a last word before it answers anything.
    DiesFirst,
    /// The cursor of its tool list never advances.
    StuckCursor,
    /// Some tools have schemas that are none, or no name at all.
    BadTools,
    /// Leaves a process of its own behind.
    Grandchild,
    /// Knows the stateless protocol only.
    Stateless,
    /// Reads nothing any more once `hang` was called.
    Deaf,
}

/// The server's command line.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Awkward {
    /// What else it does; repeatable
    #[arg(long = "quirk", value_enum)]
    pub quirks: Vec<Quirk>,
    /// Append every call to this file, one JSON object a line
    #[arg(long)]
    pub log: Option<PathBuf>,
    /// Answer nothing before this file exists
    #[arg(long, value_name = "PATH")]
    pub start_when: Option<PathBuf>,
    /// Fail every `tools/list` once this file exists
    #[arg(long, value_name = "PATH")]
    pub fail_list_if: Option<PathBuf>,
    /// Serve over HTTP on a free port of this machine, whose address is printed
    #[arg(long)]
    pub http: bool,
}

/// Serves until its input ends, or for ever over HTTP.
///
/// # Errors
/// A stream broke, or the log cannot be written.
pub fn serve(arguments: &Awkward) -> anyhow::Result<ExitCode> {
    let server = Server::new(arguments.clone());
    if arguments.http {
        let running = http::Running::start(server, http::Manner::default())?;
        let mut out = std::io::stdout();
        std::io::Write::write_all(&mut out, format!("{}\n", running.url()).as_bytes())?;
        running.wait();
        return Ok(ExitCode::SUCCESS);
    }
    stdio::serve(&std::sync::Arc::new(server))
}

/// One server, whatever the way to it.
#[derive(Debug)]
pub struct Server {
    arguments: Awkward,
    log: Mutex<()>,
    /// Have its tools changed?
    changed: AtomicBool,
    /// What `set` kept for `get`.
    kept: Mutex<Value>,
    /// Calls that a client took back.
    cancelled: Mutex<Vec<Value>>,
    asked: AtomicU64,
    /// Answers of the client to what the server asked, by id.
    answers: Mutex<Vec<Value>>,
}

impl Server {
    /// A server that does what `arguments` say.
    #[must_use]
    pub fn new(arguments: Awkward) -> Server {
        Server {
            arguments,
            log: Mutex::new(()),
            changed: AtomicBool::new(false),
            kept: Mutex::new(Value::Null),
            cancelled: Mutex::default(),
            asked: AtomicU64::new(0),
            answers: Mutex::default(),
        }
    }

    fn has(&self, quirk: Quirk) -> bool {
        self.arguments.quirks.contains(&quirk)
    }

    /// Handles one message; whatever it says goes through `say`, one JSON text at a time.
    fn take(&self, message: &Value, say: &(dyn Fn(String) + Sync)) {
        let params = message.get("params").unwrap_or(&Value::Null);
        let id = message.get("id");
        let Some(method) = message["method"].as_str() else {
            if id.is_some() {
                lock(&self.answers).push(message.clone());
            }
            return;
        };
        if method == "notifications/cancelled" {
            lock(&self.cancelled).push(params["requestId"].clone());
        }
        let Some(id) = id else { return };
        let result = match method {
            "initialize" if !self.has(Quirk::Stateless) => initialize(params),
            "server/discover" if self.has(Quirk::Stateless) => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
                "ttlMs": 0, "cacheScope": "private",
                "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "awkward", "version": "1" } },
            }),
            "ping" => json!({}),
            "tools/list" if self.fails_to_list() => {
                return say(error(id, -32603, "the list is on fire"));
            }
            "tools/list" => self.page(params["cursor"].as_str()),
            "tools/call" => {
                self.note(params);
                return self.call(id, params, say);
            }
            _ => return say(error(id, -32601, "method not found")),
        };
        say(json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string());
    }

    fn fails_to_list(&self) -> bool {
        self.arguments.fail_list_if.as_ref().is_some_and(|path| path.exists())
    }

    fn note(&self, params: &Value) {
        use std::io::Write as _;
        let Some(path) = &self.arguments.log else { return };
        let _one = lock(&self.log);
        let call = json!({ "name": params["name"], "arguments": params["arguments"] });
        let mut log =
            std::fs::OpenOptions::new().create(true).append(true).open(path).expect("a log");
        log.write_all(format!("{call}\n").as_bytes()).expect("written");
        log.sync_data().expect("synced");
    }
}

fn initialize(params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let version = VERSIONS.iter().find(|known| **known == asked).unwrap_or(&VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": { "listChanged": true } },
        "serverInfo": { "name": "awkward", "version": "1" },
    })
}

fn error(id: &Value, code: i64, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }).to_string()
}

/// What a mutex holds, even if a thread died with it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
