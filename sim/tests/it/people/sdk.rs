//! Real clients, made with the SDKs for TypeScript and Python, complete a run that has a question.

use super::{decided, made};
use crate::support::{TestHub, WITHIN, capabilities};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

const POSTS: &str = "return await notes.addNote({ text: 'milk' })";

fn servers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/servers")
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/clients").join(name)
}

/// A running client, and what it says.
struct Sdk {
    child: Child,
    lines: Receiver<String>,
}

impl Sdk {
    /// Starts a client over a hub's own command.
    fn start(hub: &TestHub, mut program: Command, mode: &str, forms: bool) -> Sdk {
        program.args([mode, if forms { "forms" } else { "no-forms" }, POSTS]);
        program.arg(capabilities()).args(["hub", "serve", "--stdio"]);
        for (name, value) in hub.command([""; 0]).get_envs() {
            match value {
                Some(value) => program.env(name, value),
                None => program.env_remove(name),
            };
        }
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = program.spawn().expect("a client that starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        Sdk { child, lines }
    }

    #[track_caller]
    fn next(&self, key: &str) -> Value {
        let line = self.lines.recv_timeout(WITHIN).expect("a line in time");
        let line: Value = serde_json::from_str(&line).expect("JSON");
        assert!(line.get(key).is_some(), "{line:#} instead of {key}");
        line[key].clone()
    }
}

impl Drop for Sdk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run with a question, asked by the client itself or decided at a terminal.
fn completes(name: &str, program: impl Fn() -> Command) {
    for (mode, forms) in
        [("legacy", false), ("legacy", true), ("modern", false), ("modern", true), ("auto", true)]
    {
        let hub = TestHub::with_notes();
        let mut client = Sdk::start(&hub, program(), mode, forms);
        assert_eq!(client.next("tools"), json!(["search", "describe", "execute"]), "{name} {mode}");
        let asks = forms && mode != "legacy";
        if asks {
            let message = client.next("asked");
            let text = message.as_str().expect("text");
            assert!(
                text.contains("wants to call notes.addNote") && text.contains("milk"),
                "{text}"
            );
        } else {
            let run = client.next("waits");
            let run = run.as_str().expect("a run").to_owned();
            assert_eq!(hub.at_terminal("o", ["approve", &run]).status, 0);
            let stdin = client.child.stdin.as_mut().expect("a pipe");
            stdin.write_all(b"decided\n").and_then(|()| stdin.flush()).expect("told");
        }
        let ended = client.next("ended");
        assert_eq!(ended["status"], "completed", "{name} {mode} {forms}: {ended:#}");
        assert_eq!(ended["result"], "added: milk");
        assert_eq!(made(&hub, "add_note").len(), 1, "{name} {mode} {forms}");
        let run = ended["runId"].as_str().expect("a run");
        let by = if asks { "once by client" } else { "once by terminal" };
        assert_eq!(decided(&hub, run), [by], "{name} {mode} {forms}");
    }
}

#[test]
fn a_client_of_the_typescript_sdk_completes_a_run_with_a_question() {
    if !servers().join("installed").exists() {
        eprintln!("skipped: the TypeScript SDK is not installed; run scripts/servers");
        return;
    }
    completes("typescript", || {
        let mut node = Command::new("node");
        let modules = servers().canonicalize().expect("a folder");
        node.arg(fixture("client.mjs")).arg(modules);
        node
    });
}

#[test]
fn a_client_of_the_python_sdk_completes_a_run_with_a_question() {
    if !servers().join("installed-python").exists() {
        eprintln!("skipped: the Python SDK is not installed; run scripts/servers");
        return;
    }
    completes("python", || {
        let mut python = Command::new("python3");
        let packages = servers().join("python").canonicalize().expect("a folder");
        python.env("PYTHONPATH", packages).arg(fixture("client.py"));
        python
    });
}
