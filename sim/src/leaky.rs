//! An MCP server that gives its own credential away, in every way an answer has: over standard streams, and
//! over HTTP, where it also wants to be given one.

use crate::awkward::http::{HttpRequest, read_request, respond};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of one line of error output that the hub reads.
const LINE_BYTES: usize = 64 * 1024;

/// Serves standard input; the credential is a variable.
#[derive(Debug, clap::Args)]
pub struct Leaky {
    /// The variable that holds the credential
    #[arg(long, default_value = "TOKEN")]
    pub variable: String,
}

/// Every way in which a text is shown here, by name.
#[must_use]
pub fn encodings(text: &str) -> Vec<(&'static str, String)> {
    let hex = |format: fn(u8) -> String| text.bytes().map(format).collect::<String>();
    let percent = |upper: bool| {
        text.bytes().fold(String::new(), |mut out, byte| {
            let _ = match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => write!(out, "{}", char::from(byte)),
                _ if upper => write!(out, "%{byte:02X}"),
                _ => write!(out, "%{byte:02x}"),
            };
            out
        })
    };
    let entities = text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let escapes = text.encode_utf16().fold(String::new(), |mut out, unit| {
        let _ = write!(out, "\\u{unit:04x}");
        out
    });
    vec![
        ("plain", text.to_owned()),
        ("base64", STANDARD.encode(text)),
        ("base64 after one", STANDARD.encode(format!("x{text}"))),
        ("base64 after two", STANDARD.encode(format!("xy{text}z"))),
        ("base64url", URL_SAFE_NO_PAD.encode(format!("Bearer {text}"))),
        ("percent", percent(true)),
        ("percent, small", percent(false)),
        ("hex", hex(|byte| format!("{byte:02x}"))),
        ("hex, large", hex(|byte| format!("{byte:02X}"))),
        ("json", json!({ "token": text }).to_string()),
        ("json in json", json!(json!({ "token": text }).to_string()).to_string()),
        ("html", entities.replace('\'', "&#39;")),
        ("json, escaped", format!("{{\"token\":\"{escapes}\"}}")),
    ]
}

/// Serves standard input until it ends.
///
/// # Errors
/// A stream broke.
pub fn serve(leaky: &Leaky) -> anyhow::Result<ExitCode> {
    let credential = std::env::var(&leaky.variable).unwrap_or_default();
    let mut complain = std::io::stderr();
    let shown = encodings(&credential);
    for (how, text) in &shown {
        writeln!(complain, "error: {how} {text}")?;
        // Across the end of what is read of a line, and of what is kept of it.
        for before in [2040, LINE_BYTES - 8] {
            writeln!(complain, "error: {}{text}", "-".repeat(before))?;
        }
    }
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let name = message["params"]["name"].as_str().unwrap_or_default();
        if name == "dies" {
            writeln!(complain, "error: the credential {credential} was refused")?;
            return Ok(ExitCode::from(3));
        }
        if let Some(token) = message["params"]["_meta"].get("progressToken") {
            let said = json!({ "progressToken": token, "progress": 1, "message": credential });
            let said =
                json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": said });
            writeln!(out, "{said}")?;
            let log = json!({ "level": "error", "data": credential });
            let log = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": log });
            writeln!(out, "{log}")?;
        }
        if let Some(answer) = answer(&message, &credential) {
            writeln!(out, "{answer}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What it answers to a message, if that wants an answer.
fn answer(message: &Value, credential: &str) -> Option<Value> {
    let id = message.get("id").filter(|_| message.get("method").is_some())?;
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": format!("{}{credential}", "-".repeat(190)), "version": credential },
            "instructions": credential,
        }),
        Some("ping") => json!({}),
        Some("tools/list") => json!({ "tools": tools(credential) }),
        Some("tools/call") => match called(message["params"]["name"].as_str()?, credential) {
            Ok(result) => result,
            Err(said) => {
                let error =
                    json!({ "code": -32000, "message": said, "data": { "token": credential } });
                return Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
        },
        _ => {
            let error = json!({ "code": -32601, "message": credential });
            return Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
    };
    Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

fn tools(credential: &str) -> Vec<Value> {
    let tool = |name: &str, description: &str| {
        json!({
            "name": name, "description": description,
            "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true },
        })
    };
    let names =
        ["text", "structured", "failed", "refused", "link", "media", "status", "chunks", "dies"];
    let mut all: Vec<Value> =
        names.iter().map(|name| tool(name, "Gives the credential away.")).collect();
    all.push(tool("boasts", &format!("Knows {credential} by heart.")));
    all.push(tool(credential, "Is called like it."));
    // Dropped for another reason, which names it.
    all.push(tool(&format!("{}{credential}", "n".repeat(1200)), ""));
    all.push(tool(&format!("{}{credential}", "t".repeat(40)), ""));
    all.push(tool(&format!("{}{credential}", "t".repeat(40)), ""));
    all
}

/// The result of a tool, or what it is refused with.
fn called(name: &str, credential: &str) -> Result<Value, String> {
    let shown = encodings(credential);
    let texts = || shown.iter().map(|(_, text)| text.clone());
    let blocks = |kind: fn(String) -> Value| texts().map(kind).collect::<Vec<Value>>();
    let all = texts().collect::<Vec<_>>().join(" ");
    match name {
        "structured" => {
            let mut deep = json!(texts().collect::<Vec<_>>());
            for text in texts() {
                let mut members = serde_json::Map::new();
                members.insert(text, deep);
                deep = Value::Object(members);
            }
            Ok(json!({ "content": [], "structuredContent": deep }))
        }
        "failed" => Ok(json!({
            "isError": true, "content": [{ "type": "text", "text": all }],
            "structuredContent": { credential: all },
        })),
        // Across the place at which an error's words are cut.
        "refused" => Err(format!("{}{all}", "-".repeat(4090))),
        "link" => Ok(json!({ "content": blocks(|text| json!({
            "type": "resource_link", "uri": format!("https://example.com/{text}"), "name": text, "title": text,
        })) })),
        "media" => Ok(json!({ "content": blocks(|text| json!({
            "type": "image", "data": STANDARD.encode(&text), "mimeType": format!("image/{text}"),
        })) })),
        _ => Ok(json!({ "content": blocks(|text| json!({ "type": "text", "text": text })) })),
    }
}

/// The same server over HTTP, until it is dropped.
#[derive(Debug)]
pub struct OverHttp {
    inner: Arc<Inner>,
    address: SocketAddr,
}

#[derive(Debug)]
struct Inner {
    /// A header, or `?` and a parameter, and what it must be.
    wants: (String, String),
    credential: String,
    refused: Mutex<Vec<String>>,
    over: AtomicBool,
}

impl OverHttp {
    /// Starts it. `wants` is a header, or `?` and a parameter, and the exact value it must have.
    ///
    /// # Errors
    /// There is no free port.
    pub fn start(wants: (&str, &str), credential: &str) -> std::io::Result<OverHttp> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let inner = Arc::new(Inner {
            wants: (wants.0.to_owned(), wants.1.to_owned()),
            credential: credential.to_owned(),
            refused: Mutex::default(),
            over: AtomicBool::new(false),
        });
        let serving = Arc::clone(&inner);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if serving.over.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(connection), serving) = (connection, Arc::clone(&serving)) else { return };
                std::thread::spawn(move || {
                    let _ = serving.converse(&connection);
                });
            }
        });
        Ok(OverHttp { inner, address })
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// What requests gave instead of what it wants.
    #[must_use]
    pub fn refused(&self) -> Vec<String> {
        self.inner.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for OverHttp {
    fn drop(&mut self) {
        self.inner.over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl Inner {
    fn converse(&self, connection: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(connection.try_clone()?);
        while let Some(request) = read_request(&mut reader)? {
            if !self.answer(&request, connection)? {
                break;
            }
        }
        Ok(())
    }

    /// What a request gives where the credential belongs.
    fn given(&self, request: &HttpRequest) -> String {
        match self.wants.0.strip_prefix('?') {
            None => request.headers.get(&self.wants.0).cloned().unwrap_or_default(),
            Some(parameter) => {
                let query = request.path.split_once('?').map_or("", |(_, query)| query);
                let mut pairs = url::form_urlencoded::parse(query.as_bytes());
                let found = pairs.find(|(name, _)| name == parameter);
                found.map(|(_, value)| value.into_owned()).unwrap_or_default()
            }
        }
    }

    fn answer(&self, request: &HttpRequest, to: &TcpStream) -> std::io::Result<bool> {
        let given = self.given(request);
        if given != self.wants.1 {
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).push(given.clone());
            let body = json!({ "error": { "message": format!("not {given}") } }).to_string();
            return respond(
                to,
                401,
                &[("content-type", "application/json".to_owned())],
                body.as_bytes(),
            );
        }
        if request.method != "POST" {
            return respond(to, 405, &[], b"");
        }
        let message: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        let Some(answer) = answer(&message, &self.credential) else {
            return respond(to, 202, &[], b"");
        };
        let credential = &self.credential;
        match message["params"]["name"].as_str() {
            Some("status") => {
                let mut headers = vec![("content-type", "text/plain".to_owned())];
                for name in ["retry-after", "etag", "link", "x-ratelimit-limit", "set-cookie"] {
                    headers.push((name, format!("{}{credential}", "-".repeat(490))));
                }
                // Across what is shown of it, and across what is read of it.
                let body = format!(
                    "{credential}{}{credential}{}{credential}",
                    "-".repeat(290),
                    " ".repeat(16 * 1024 - 400)
                );
                respond(to, 422, &headers, body.as_bytes())
            }
            Some("chunks") => chunks(to, &answer.to_string(), credential),
            _ => {
                let headers = [("content-type", "application/json".to_owned())];
                respond(to, 200, &headers, answer.to_string().as_bytes())
            }
        }
    }
}

/// An answer as a stream of events, in chunks that end in the middle of the credential.
fn chunks(to: &TcpStream, answer: &str, credential: &str) -> std::io::Result<bool> {
    let mut to = to.try_clone()?;
    to.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    let text = format!("event: message\ndata: {answer}\n\n");
    let size = credential.len() / 2 + 1;
    for piece in text.as_bytes().chunks(size) {
        to.write_all(format!("{:x}\r\n", piece.len()).as_bytes())?;
        to.write_all(piece)?;
        to.write_all(b"\r\n")?;
    }
    to.write_all(b"0\r\n\r\n")?;
    Ok(true)
}
