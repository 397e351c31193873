//! A bare JSON-RPC client over pipes, which accepts nothing but JSON-RPC.

use super::WITHIN;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

/// A client and the server process it started. Dropping it kills the process.
pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next_id: u64,
    /// Sent along with every request, as stateless servers want it.
    meta: Option<Value>,
}

impl Client {
    pub(crate) fn start(mut command: Command) -> Client {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("a server that starts");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("a pipe");
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Client { child, stdin, lines, next_id: 1, meta: None }
    }

    /// Opens as stateful clients do; the server's answer.
    #[track_caller]
    pub(crate) fn initialize(&mut self, version: &str) -> Value {
        let answer = self.request(
            "initialize",
            json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "bare", "version": "1" } }),
        );
        self.notify("notifications/initialized", &json!({}));
        answer["result"].clone()
    }

    /// Adds what stateless clients send along with every request from here on.
    pub(crate) fn stateless(&mut self) {
        self.meta = Some(modern_meta());
    }

    /// Adds what stateless clients send along that can do this.
    pub(crate) fn stateless_with(&mut self, capabilities: &Value) {
        let mut meta = modern_meta();
        meta["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
        self.meta = Some(meta);
    }

    /// Adds what stateless clients send along that can put a form to a person.
    pub(crate) fn with_forms(&mut self) {
        self.stateless_with(&json!({ "elicitation": {} }));
    }

    /// Sends a request and waits for its answer.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// Sends a request; its id.
    pub(crate) fn send(&mut self, method: &str, mut params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        self.line(
            &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string(),
        );
        id
    }

    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        self.line(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    /// Sends one line, whatever it is.
    pub(crate) fn line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("an open input");
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .and_then(|()| stdin.flush())
            .expect("a server that reads");
    }

    /// Waits for the answer to a request.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// The answer to a request, if it has arrived already.
    pub(crate) fn answered(&mut self, id: u64) -> Option<Value> {
        while let Ok(line) = self.lines.try_recv() {
            let message = parsed(&line);
            if message["id"] == id && message.get("method").is_none() {
                return Some(message);
            }
        }
        None
    }

    /// The next message of the server, which must be JSON-RPC.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Value {
        parsed(&self.lines.recv_timeout(WITHIN).expect("a message in time"))
    }

    /// Calls a tool; its result.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert!(answer.get("result").is_some(), "{tool}: {answer:#}");
        answer["result"].clone()
    }

    /// Calls a tool that answers with text.
    #[track_caller]
    pub(crate) fn text(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{result:#}");
        result["content"][0]["text"].as_str().expect("text").to_owned()
    }

    /// Calls a tool with arguments it must refuse; what it says.
    #[track_caller]
    pub(crate) fn refusal(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result:#}");
        result["content"][0]["text"].as_str().expect("text").to_owned()
    }

    /// `execute`; its envelope, which structured content and text hold alike.
    #[track_caller]
    pub(crate) fn envelope(&mut self, arguments: &Value) -> Value {
        let result = self.call("execute", arguments);
        let envelope = result["structuredContent"].clone();
        let text = result["content"][0]["text"].as_str().expect("text");
        assert!(!text.contains('\n'), "one line: {text}");
        assert_eq!(serde_json::from_str::<Value>(text).expect("an envelope as text"), envelope);
        envelope
    }

    /// Runs code through `execute`.
    #[track_caller]
    pub(crate) fn execute(&mut self, code: &str) -> Value {
        self.envelope(&json!({ "code": code }))
    }

    /// The server's process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Closes the server's input and waits for its end; its exit status.
    #[track_caller]
    pub(crate) fn close(mut self) -> i32 {
        drop(self.stdin.take());
        let deadline = Instant::now() + WITHIN;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                // Whatever came last is looked at as well.
                while let Ok(line) = self.lines.recv_timeout(WITHIN) {
                    parsed(&line);
                }
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < deadline, "the server does not end with its input");
            std::thread::sleep(super::LOOK_EVERY);
        }
    }

    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server, as a machine that loses power would.
    pub(crate) fn kill(mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("a server that can be killed");
    }
}

impl Client {
    /// Kills every worker of the server, in which the model's code runs.
    pub(crate) fn kill_workers(&self) {
        let parent = self.child.id().to_string();
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Ok(number) = process.file_name().to_string_lossy().parse::<i32>() else { continue };
            let read =
                |name| std::fs::read_to_string(process.path().join(name)).unwrap_or_default();
            let is_child = read("status").lines().any(|line| line == format!("PPid:\t{parent}"));
            let own = std::fs::read_link(process.path().join("exe"));
            if is_child
                && own.is_ok_and(|own| Some(own) == super::capabilities().canonicalize().ok())
            {
                let _ = kill_process(Pid::from_raw(number).expect("a process"), Signal::KILL);
            }
        }
    }

    /// Sends the server process a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let number = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(number.expect("a process"), signal).expect("a server that can be signalled");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A message of the server, which must be JSON-RPC.
#[track_caller]
fn parsed(line: &str) -> Value {
    let message: Value =
        serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON on stdout: {line}"));
    assert_eq!(message["jsonrpc"], "2.0", "not JSON-RPC on stdout: {line}");
    message
}

/// What stateless clients send along with a request.
pub(crate) fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "bare", "version": "1" },
    })
}
