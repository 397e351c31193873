//! The endpoint over HTTP, through the real binary: who is let in, what is refused and how, sessions, and
//! the end.

use crate::support::{TestHub, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// A hub that serves over HTTP until it is dropped.
pub(crate) struct Serving {
    child: Child,
    said: PathBuf,
    pub(crate) port: u16,
    pub(crate) token: String,
}

impl Serving {
    pub(crate) fn start(hub: &TestHub) -> Serving {
        let said = hub.file("serve-http.log");
        let log = std::fs::File::create(&said).unwrap();
        let mut command = hub.command(["serve", "--http", "--port", "0"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let port = until("the endpoint", || {
            let text = std::fs::read_to_string(&said).unwrap();
            let rest = text.split("http://127.0.0.1:").nth(1)?;
            rest.split("/mcp").next()?.parse().ok()
        });
        let token = std::fs::read_to_string(hub.store().join("http-token")).unwrap();
        Serving { child, said, port, token: token.trim().to_owned() }
    }

    /// Everything it has said.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap()
    }

    /// Asks it to end; its exit status.
    pub(crate) fn end(&mut self) -> i32 {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    /// Sends a request as it is; status, headers and body.
    fn raw(&self, head: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let text =
            format!("{head}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        // A refusal may come before all of it was sent.
        let _ = stream.write_all(text.as_bytes());
        let mut read = Vec::new();
        let _ = stream.read_to_end(&mut read);
        Answer::read(&String::from_utf8_lossy(&read))
    }

    /// Posts a message with the usual headers and some more.
    fn post(&self, more: &str, message: &Value) -> Answer {
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{}\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\n{more}",
            self.port
        );
        self.raw(&head, &message.to_string())
    }

    fn bearer(&self) -> String {
        format!("authorization: Bearer {}\r\n", self.token)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn read(text: &str) -> Answer {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines();
        let found =
            lines.filter_map(|line| line.split_once(": ")).find(|(known, _)| *known == name);
        found.map(|(_, value)| value.to_owned())
    }

    /// The message in it, also out of an event.
    fn message(&self) -> Value {
        let line = self.body.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        line.filter(|line| line.starts_with('{'))
            .find_map(|line| serde_json::from_str(line).ok())
            .unwrap_or_default()
    }
}

fn initialize() -> Value {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
}

/// A call of a client that keeps no session.
fn stateless(tool: &str, arguments: &Value) -> (String, Value) {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
    });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    let head = format!(
        "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n"
    );
    (head, json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params }))
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn whoever_has_no_token_or_the_wrong_name_is_refused_in_words() {
    let hub = TestHub::with_notes();
    let serving = Serving::start(&hub);
    let (port, bearer) = (serving.port, serving.bearer());
    let as_usual =
        "accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n";
    let own = format!("host: 127.0.0.1:{port}\r\n");
    let long = "x".repeat(64 * 1024);
    for (line, headers, status, words) in [
        ("POST /mcp", own.clone(), 401, "http-token"),
        ("POST /mcp", format!("{own}authorization: Bearer cap_wrong\r\n"), 401, "http-token"),
        (
            "POST /mcp",
            format!("{own}authorization: Basic {}\r\n", serving.token),
            401,
            "http-token",
        ),
        ("POST /mcp", format!("{own}{bearer}{bearer}"), 401, "http-token"),
        (&format!("POST /mcp?token={}", serving.token), own.clone(), 401, "http-token"),
        ("POST /mcp", format!("host: evil.com:{port}\r\n{bearer}"), 403, "127.0.0.1"),
        ("POST /mcp", format!("host: 127.0.0.1:1\r\n{bearer}"), 403, "127.0.0.1"),
        ("POST /mcp", format!("{own}{bearer}origin: http://evil.com\r\n"), 403, "other origins"),
        ("POST /mcp", format!("{own}{bearer}origin: null\r\n"), 403, "other origins"),
        ("POST /", format!("{own}{bearer}"), 404, "`/mcp`"),
        ("PUT /mcp", format!("{own}{bearer}"), 405, ""),
        ("POST /mcp", format!("{own}{bearer}x-long: {long}\r\n"), 431, ""),
    ] {
        let head = format!("{line} HTTP/1.1\r\n{headers}{as_usual}");
        let answer = serving.raw(&head, &initialize().to_string());
        assert_eq!(answer.status, status, "{line} {headers} {answer:?}");
        assert!(answer.body.contains(words), "{answer:?}");
        assert!(!answer.body.contains(&serving.token), "{answer:?}");
        assert_eq!(status == 401, answer.head.contains("www-authenticate: bearer"), "{answer:?}");
    }
    let large = json!({ "x": "x".repeat(5 << 20) });
    assert_eq!(serving.post(&bearer, &large).status, 413);
    let fine = serving.post(&format!("{bearer}origin: http://localhost:6274\r\n"), &initialize());
    assert_eq!(fine.status, 200, "{fine:?}");
    assert!(!serving.said().contains(&serving.token), "{}", serving.said());
}

#[test]
fn a_client_with_a_session_and_one_without_run_code_and_a_session_is_its_owners() {
    let hub = TestHub::with_notes();
    std::fs::write(
        hub.store().join("http-token"),
        "laptop 0123456789abcdef-a\nci 0123456789abcdef-b\n",
    )
    .unwrap();
    mode(&hub.store().join("http-token"), 0o600);
    let serving = Serving::start(&hub);
    let token = |letter: &str| format!("authorization: Bearer 0123456789abcdef-{letter}\r\n");
    let opened = serving.post(&token("a"), &initialize());
    let session = opened.header("mcp-session-id").expect("a session");
    let with = |letter: &str| {
        format!(
            "{}mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n",
            token(letter)
        )
    };
    let code = json!({ "code": "return (await notes.listNotes()).notes.length" });
    let begun = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(serving.post(&with("a"), &begun).status, 202);
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "execute", "arguments": code } });
    let answer = serving.post(&with("a"), &call);
    assert_eq!(
        answer.message()["result"]["structuredContent"]["status"],
        "completed",
        "{answer:?}"
    );
    assert_eq!(serving.post(&with("b"), &call).status, 404, "it is somebody else's");
    let (head, message) = stateless("execute", &code);
    let answer = serving.post(&format!("{}{head}", token("b")), &message);
    assert_eq!(
        answer.message()["result"]["structuredContent"]["status"],
        "completed",
        "{answer:?}"
    );
    // A token that is taken out is refused at once, whatever it has open.
    std::fs::write(hub.store().join("http-token"), "ci 0123456789abcdef-b\n").unwrap();
    assert_eq!(serving.post(&with("a"), &call).status, 401);
}

#[test]
fn a_taken_port_is_refused_with_its_holder_and_no_other_is_used() {
    let hub = TestHub::with_notes();
    let serving = Serving::start(&hub);
    let port = serving.port.to_string();
    let second = hub.run(["serve", "--http", "--port", &port]);
    assert_eq!(second.status, 1, "{second:#?}");
    let holder = format!("port {port} is taken by `capabilities` (process {})", serving.child.id());
    assert!(second.stderr.contains(&holder), "{second:#?}");
    assert!(second.stderr.contains("--port"), "{second:#?}");
    let open = TestHub::with_notes();
    std::fs::write(open.store().join("http-token"), "0123456789abcdef\n").unwrap();
    mode(&open.store().join("http-token"), 0o644);
    let refused = open.run(["serve", "--http", "--port", "0"]);
    assert!(refused.status == 1 && refused.stderr.contains("chmod 600"), "{refused:#?}");
    for arguments in
        [vec!["serve"], vec!["serve", "--stdio", "--http"], vec!["serve", "--stdio", "--port", "1"]]
    {
        assert_eq!(hub.run(&arguments).status, 2, "{arguments:?}");
    }
}

#[test]
fn told_to_end_it_lets_a_write_settle_and_answers_for_it() {
    let hub = TestHub::new();
    hub.add("notes", &[]);
    hub.ok(["review", "--accept"]);
    let mut serving = Serving::start(&hub);
    let run = hub.waiting("return await notes.addNote({ text: 'x' })");
    let (head, message) = stateless("execute", &json!({ "resume": run }));
    let answer = serving.post(&format!("{}{head}", serving.bearer()), &message);
    assert_eq!(answer.message()["result"]["structuredContent"]["status"], "awaiting_approval");
    assert_eq!(serving.end(), 0, "{}", serving.said());
    assert!(TcpStream::connect(("127.0.0.1", serving.port)).is_err());
    assert_eq!(hub.resume(&run)["status"], "awaiting_approval");
}
