//! The awkward server over HTTP, written by hand so that it can break at every byte.

use super::{Quirk, Server, lock};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of a request that are read.
const REQUEST_BYTES_MAX: usize = 64 << 20;
/// How long a connection that only waits goes without a look whether the server is over.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How the server answers over HTTP.
#[derive(Debug, Clone, Default)]
pub struct Manner {
    /// What kind of answer it gives.
    pub kind: Kind,
    /// Does it want the id of a session with each message?
    pub sessions: bool,
    /// Does it say things by itself, on a stream of its own?
    pub own_stream: bool,
    /// Where an older server wants its messages; a place of its own, if it does not say.
    pub endpoint: Option<String>,
    /// What goes wrong with the next requests: a method, or `*`, and what.
    pub faults: VecDeque<(&'static str, Fault)>,
}

/// A kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// One JSON value.
    #[default]
    Json,
    /// A stream of events per request.
    Events,
    /// One stream for everything, as before 2025; anything else is refused with this status.
    Older(u16),
}

/// What goes wrong with one request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// A status, with headers and a body.
    Status(u16, Vec<(&'static str, String)>, String),
    /// Nothing is ever answered.
    StallHead,
    /// The head of an answer comes, and nothing else.
    StallBody,
    /// The connection ends instead of an answer.
    HangUp,
    /// The answer ends in its middle.
    Half,
    /// Bytes that are not HTTP.
    Garbage,
    /// A page instead of a message.
    Page,
    /// The request is done, and its answer lost with this status.
    DoneAndLost(u16),
    /// Every session is forgotten, and the request answered with this status.
    Forget(u16),
    /// The stream ends before the answer is in it; it can be taken up again.
    Interrupted,
}

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its HTTP method and path.
    pub line: String,
    /// Its headers, by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The message in it.
    pub message: Value,
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Running {
    inner: Arc<Inner>,
    address: SocketAddr,
}

#[derive(Debug)]
struct Inner {
    server: Server,
    manner: Mutex<Manner>,
    seen: Mutex<Vec<Seen>>,
    sessions: Mutex<Vec<String>>,
    session_count: AtomicU64,
    /// What every stream that is open gets to hear, oldest first.
    said: Mutex<Vec<String>>,
    saying: Condvar,
    /// Answers that were interrupted, by the id of the last event.
    interrupted: Mutex<BTreeMap<String, Vec<String>>>,
    /// How often all streams were ended.
    ended: AtomicU64,
    over: AtomicBool,
}

pub(crate) struct HttpRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Running {
    /// Starts it on a free port of the loopback address.
    ///
    /// # Errors
    /// There is no free port.
    pub fn start(server: Server, manner: Manner) -> std::io::Result<Running> {
        Running::start_at(server, manner, "127.0.0.1:0")
    }

    /// Starts it at an address.
    ///
    /// # Errors
    /// The address is taken or not there.
    pub fn start_at(server: Server, manner: Manner, at: &str) -> std::io::Result<Running> {
        let listener = TcpListener::bind(at)?;
        let address = listener.local_addr()?;
        let inner = Arc::new(Inner {
            server,
            manner: Mutex::new(manner),
            seen: Mutex::default(),
            sessions: Mutex::default(),
            session_count: AtomicU64::new(0),
            said: Mutex::default(),
            saying: Condvar::new(),
            interrupted: Mutex::default(),
            ended: AtomicU64::new(0),
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
                    // A client that hangs up is no concern of ours.
                    let _ = serving.converse(&connection);
                });
            }
        });
        Ok(Running { inner, address })
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Changes how it answers.
    pub fn change(&self, change: impl FnOnce(&mut Manner)) {
        change(&mut self.inner.manner());
    }

    /// What goes wrong with the next request of `method`.
    pub fn fault(&self, method: &'static str, fault: Fault) {
        self.inner.manner().faults.push_back((method, fault));
    }

    /// Every request so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.inner.seen).clone()
    }

    /// Names of the tools that were called, once for each request that arrived.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        let seen = self.seen();
        let calls = seen.iter().filter(|seen| seen.message["method"] == "tools/call");
        calls.map(|seen| seen.message["params"]["name"].as_str().unwrap_or("").to_owned()).collect()
    }

    /// Ends every stream of the server's own.
    pub fn end_streams(&self) {
        self.inner.ended.fetch_add(1, Ordering::SeqCst);
        self.inner.saying.notify_all();
    }

    /// Serves for ever.
    pub(super) fn wait(&self) {
        while !self.inner.over.load(Ordering::SeqCst) {
            std::thread::park();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.inner.over.store(true, Ordering::SeqCst);
        self.inner.saying.notify_all();
        let _ = TcpStream::connect(self.address);
    }
}

impl Inner {
    fn manner(&self) -> MutexGuard<'_, Manner> {
        lock(&self.manner)
    }

    /// Serves one connection until either side ends it.
    fn converse(self: &Arc<Inner>, connection: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(connection.try_clone()?);
        while let Some(request) = read_request(&mut reader)? {
            if !self.answer(&request, connection)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Answers one request; may the connection be used on?
    fn answer(self: &Arc<Inner>, request: &HttpRequest, to: &TcpStream) -> std::io::Result<bool> {
        let message: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        lock(&self.seen).push(Seen {
            line: format!("{} {}", request.method, request.path),
            headers: request.headers.clone(),
            message: message.clone(),
        });
        let method = message["method"].as_str().unwrap_or_default();
        let fault = {
            let mut manner = self.manner();
            let at = manner.faults.iter().position(|(of, _)| {
                *of == "*" || *of == method || (*of == "GET" && request.method == "GET")
            });
            at.and_then(|at| manner.faults.remove(at)).map(|(_, fault)| fault)
        };
        let manner = self.manner().clone();
        if let Some(fault) = fault {
            return self.go_wrong(&fault, &message, to);
        }
        match request.method.as_str() {
            "GET" => return self.stream(request, &manner, to),
            "DELETE" => {
                let session = request.headers.get("mcp-session-id").cloned();
                lock(&self.sessions).retain(|known| Some(known) != session.as_ref());
                return respond(to, 200, &[], b"");
            }
            "POST" => {}
            _ => return respond(to, 405, &[], b""),
        }
        if let Kind::Older(status) = manner.kind {
            if !request.path.starts_with("/messages") {
                return respond(to, status, &[], b"");
            }
            let this = Arc::clone(self);
            respond(to, 202, &[], b"Accepted")?;
            // Its answer comes over the stream, whenever it is there.
            std::thread::spawn(move || {
                let say = |text: String| this.say(text);
                this.server.take(&message, &say);
            });
            return Ok(true);
        }
        let mut headers = Vec::new();
        if manner.sessions {
            if method == "initialize" {
                let count = self.session_count.fetch_add(1, Ordering::SeqCst) + 1;
                let session = format!("session-{count}");
                lock(&self.sessions).push(session.clone());
                headers.push(("mcp-session-id", session));
            } else {
                let given = request.headers.get("mcp-session-id").cloned().unwrap_or_default();
                if !lock(&self.sessions).contains(&given) {
                    return respond(to, 404, &[], b"");
                }
            }
        }
        if message.get("id").is_none() || message.get("method").is_none() {
            self.server.take(&message, &|_| {});
            return respond(to, 202, &[], b"");
        }
        if self.server.has(Quirk::Stateless) && !repeats_its_name(request, &message) {
            let error = rpc_error(-32020, "the header `mcp-name` says something else");
            return respond(to, 400, &[], error.as_bytes());
        }
        if manner.kind == Kind::Events {
            return self.answer_in_events(&message, &headers, to);
        }
        let said = Mutex::new(Vec::new());
        self.server.take(&message, &|text| lock(&said).push(text));
        let said = said.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Not parsed: some answers are no JSON that a strict parser takes.
        let is_answer = |text: &&String| text.contains(&format!("\"id\":{}", message["id"]));
        for text in said.iter().filter(|text| text.contains("list_changed")) {
            self.say(text.clone());
        }
        match said.iter().find(is_answer) {
            Some(text) => {
                headers.push(("content-type", "application/json".to_owned()));
                respond(to, 200, &headers, text.as_bytes())
            }
            None => self.wait_for_ever(to),
        }
    }

    fn answer_in_events(
        self: &Arc<Inner>,
        message: &Value,
        headers: &[(&str, String)],
        to: &TcpStream,
    ) -> std::io::Result<bool> {
        open_stream(to, headers)?;
        let writing = Mutex::new(to.try_clone()?);
        self.server.take(message, &|text| {
            let event = format!("event: message\ndata: {text}\n\n");
            let _ = lock(&writing).write_all(event.as_bytes());
        });
        if message["params"]["name"] == "hang" {
            return self.wait_for_ever(to);
        }
        Ok(false)
    }

    fn stream(
        self: &Arc<Inner>,
        request: &HttpRequest,
        manner: &Manner,
        to: &TcpStream,
    ) -> std::io::Result<bool> {
        if let Some(last) = request.headers.get("last-event-id") {
            let left = lock(&self.interrupted).remove(last).unwrap_or_default();
            open_stream(to, &[])?;
            let mut to = to.try_clone()?;
            for text in left {
                to.write_all(format!("data: {text}\n\n").as_bytes())?;
            }
            return Ok(false);
        }
        let older = matches!(manner.kind, Kind::Older(_));
        if !older && !manner.own_stream {
            return respond(to, 405, &[], b"");
        }
        // From here on: what was said before was for others.
        let mut at = lock(&self.said).len();
        open_stream(to, &[])?;
        let mut to = to.try_clone()?;
        if older {
            let endpoint = manner.endpoint.as_deref().unwrap_or("/messages?session=7");
            let event = format!(": welcome\n\nevent: endpoint\ndata: {endpoint}\n\n");
            to.write_all(event.as_bytes())?;
        }
        let ended = self.ended.load(Ordering::SeqCst);
        while !self.over.load(Ordering::SeqCst) && ended == self.ended.load(Ordering::SeqCst) {
            let said = lock(&self.said);
            let waited = self.saying.wait_timeout(said, LOOK_EVERY);
            let (said, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let fresh: Vec<String> = said.iter().skip(at).cloned().collect();
            at = said.len();
            drop(said);
            for text in fresh {
                to.write_all(format!("event: message\ndata: {text}\n\n").as_bytes())?;
            }
        }
        Ok(false)
    }

    fn say(&self, text: String) {
        lock(&self.said).push(text);
        self.saying.notify_all();
    }

    fn go_wrong(
        self: &Arc<Inner>,
        fault: &Fault,
        message: &Value,
        to: &TcpStream,
    ) -> std::io::Result<bool> {
        let mut raw = to.try_clone()?;
        match fault {
            Fault::Status(status, headers, body) => {
                let headers: Vec<(&str, String)> =
                    headers.iter().map(|(name, value)| (*name, value.clone())).collect();
                respond(to, *status, &headers, body.as_bytes())
            }
            Fault::StallHead => self.wait_for_ever(to),
            Fault::StallBody => {
                raw.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n")?;
                self.wait_for_ever(to)
            }
            Fault::HangUp => Ok(false),
            Fault::Half => {
                raw.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"jsonrpc\":")?;
                Ok(false)
            }
            Fault::Garbage => {
                raw.write_all(b"\x15\x03\x01\x00\x02\x02\x16")?;
                Ok(false)
            }
            Fault::Page => respond(
                to,
                200,
                &[("content-type", "text/html; charset=utf-8".to_owned())],
                b"<html><body>Sign in</body></html>",
            ),
            Fault::DoneAndLost(status) => {
                self.server.take(message, &|_| {});
                respond(to, *status, &[], b"")
            }
            Fault::Forget(status) => {
                lock(&self.sessions).clear();
                let said = rpc_error(-32000, "Bad Request: No valid session ID provided");
                let body = if *status == 400 { said } else { String::new() };
                respond(to, *status, &[], body.as_bytes())
            }
            Fault::Interrupted => {
                let said = Mutex::new(Vec::new());
                self.server.take(message, &|text| lock(&said).push(text));
                lock(&self.interrupted).insert(
                    "e1".to_owned(),
                    said.into_inner().unwrap_or_else(PoisonError::into_inner),
                );
                open_stream(to, &[])?;
                raw.write_all(b"retry: 5\nid: e1\ndata:\n\n")?;
                Ok(false)
            }
        }
    }

    /// Keeps the connection open until the client or the server ends.
    fn wait_for_ever(&self, to: &TcpStream) -> std::io::Result<bool> {
        to.set_read_timeout(Some(LOOK_EVERY))?;
        let mut reader = to.try_clone()?;
        while !self.over.load(Ordering::SeqCst) {
            match reader.read(&mut [0; 64]) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) => {}
                Err(_) => break,
            }
        }
        Ok(false)
    }
}

/// Does the header say what the message is about? Only plain characters travel in one as they are.
fn repeats_its_name(request: &HttpRequest, message: &Value) -> bool {
    let Some(name) = message["params"]["name"].as_str() else { return true };
    let given = request.headers.get("mcp-name").map_or("", String::as_str);
    if name.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        given == name
    } else {
        given.is_ascii() && given.starts_with("=?base64?") && given.ends_with("?=")
    }
}

fn open_stream(to: &TcpStream, headers: &[(&str, String)]) -> std::io::Result<()> {
    let mut head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n".to_owned();
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    to.try_clone()?.write_all(format!("{head}\r\n").as_bytes())
}

pub(crate) fn respond(
    to: &TcpStream,
    status: u16,
    headers: &[(&str, String)],
    body: &[u8],
) -> std::io::Result<bool> {
    let mut head = format!("HTTP/1.1 {status} Status\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut whole = format!("{head}\r\n").into_bytes();
    whole.extend_from_slice(body);
    to.try_clone()?.write_all(&whole)?;
    Ok(true)
}

pub(crate) fn read_request(
    reader: &mut BufReader<TcpStream>,
) -> std::io::Result<Option<HttpRequest>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (method, path) =
        (words.next().unwrap_or("").to_owned(), words.next().unwrap_or("").to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    let length: usize =
        headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length.min(REQUEST_BYTES_MAX)];
    reader.read_exact(&mut body)?;
    Ok(Some(HttpRequest { method, path, headers, body }))
}

/// A message of the protocol, as tests write one.
#[must_use]
pub fn rpc_error(code: i64, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } })
        .to_string()
}
