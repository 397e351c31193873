//! The transport between the protocol library and a server over HTTP: each request is an exchange of its
//! own, and whatever messages come of any of them arrive in one queue.
#![expect(
    clippy::disallowed_methods,
    reason = "exchanges run beside each other and wait between tries"
)]

use super::events::{Event, Events};
use super::exchange::{Answer, Failure, Server};
use super::parameters::{self, Parameter};
use crate::adapters::sources::child::Scrub;
use crate::adapters::sources::raw::RawResults;
use crate::model::http::HttpUrl;
use crate::model::json::parse_from_server;
use crate::model::time::WallMs;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Messages that may wait to be read.
const QUEUE: usize = 256;
/// How long a notification or the end of a session may take.
const ASIDE_WITHIN: Duration = Duration::from_secs(5);
/// How often a stream that broke before its answer is taken up again.
const RESUMES_MAX: u32 = 5;
/// Wait before that, where the server names none, and the longest that it may name.
const RESUME_AFTER: Duration = Duration::from_secs(1);
const RESUME_AFTER_MAX: Duration = Duration::from_secs(10);
/// Waits between tries to hear a server's own messages: doubled each time.
const LISTEN_AFTER: Duration = Duration::from_secs(1);
const LISTEN_AFTER_MAX: Duration = Duration::from_secs(60);

/// Tools whose arguments may travel in headers.
const TOOLS_WITH_PARAMETERS_MAX: usize = 2_000;
/// Answers to a server that may be on their way; one that asks faster gets no others.
const ANSWERS_MAX: usize = 16;

/// Wall time, for dates in headers.
pub(in crate::adapters::sources) type WallNow = Arc<dyn Fn() -> WallMs + Send + Sync>;

/// The transport.
pub(in crate::adapters::sources) struct Wire {
    shared: Arc<Shared>,
    arriving: mpsc::Receiver<Value>,
}

/// What is known of a connection beside its messages. Clones share it.
#[derive(Clone)]
pub(in crate::adapters::sources) struct Link(Arc<Shared>);

struct Shared {
    server: Server,
    now: WallNow,
    raw: RawResults,
    arrived: mpsc::Sender<Value>,
    answers: Semaphore,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    session: Option<HeaderValue>,
    version: Option<String>,
    /// Where messages go on a server of the older kind, which named it in its stream.
    post_to: Option<HttpUrl>,
    /// Requests that are out, by id.
    out: BTreeMap<String, Out>,
    /// Why a request has no answer, by id: never taken from what a server writes.
    failures: BTreeMap<String, Failure>,
    /// Tools whose arguments travel in headers too.
    parameters: BTreeMap<String, Vec<Parameter>>,
    /// The stream of the server's own messages.
    listening: Option<AbortHandle>,
    /// The session is gone, or the one stream of an older server.
    lost: bool,
}

/// A request that is out.
struct Out {
    method: String,
    task: AbortHandle,
}

impl Link {
    /// Why the request with this id has no answer, if that is the hub's own finding.
    pub(in crate::adapters::sources) fn take_failure(&self, id: &str) -> Option<Failure> {
        self.0.state().failures.remove(id)
    }

    /// Why any request has no answer.
    pub(in crate::adapters::sources) fn take_any_failure(&self) -> Option<Failure> {
        self.0.state().failures.pop_first().map(|(_, failure)| failure)
    }

    /// Takes secrets out of what the server says.
    pub(in crate::adapters::sources) fn scrub(&self) -> Scrub {
        self.0.server.scrub.clone()
    }

    /// Is the session gone? What is out may still be answered.
    pub(in crate::adapters::sources) fn is_lost(&self) -> bool {
        self.0.state().lost
    }

    /// Ends the session, if the server has such a thing.
    pub(in crate::adapters::sources) async fn end(&self) {
        let (session, headers) = {
            let mut state = self.0.state();
            for (_, out) in std::mem::take(&mut state.out) {
                out.task.abort();
            }
            if let Some(listening) = state.listening.take() {
                listening.abort();
            }
            (state.session.take(), state.headers())
        };
        if let Some(session) = session {
            let mut headers = headers;
            headers.insert(SESSION, session);
            let url = self.0.server.url.clone();
            let ending =
                self.0.server.exchange(Method::DELETE, &url, &headers, None, (self.0.now)());
            let _ = tokio::time::timeout(ASIDE_WITHIN, ending).await;
        }
    }
}

impl Wire {
    /// A wire to a streamable server; nothing is sent before the first message.
    pub(in crate::adapters::sources) fn streamable(server: Server, now: WallNow) -> (Wire, Link) {
        let (arrived, arriving) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared {
            raw: RawResults::new(server.scrub.clone()),
            server,
            now,
            arrived,
            answers: Semaphore::new(ANSWERS_MAX),
            state: Mutex::default(),
        });
        (Wire { shared: Arc::clone(&shared), arriving }, Link(shared))
    }

    /// A wire to a server of the older kind: its one stream is opened, and names where messages go.
    pub(in crate::adapters::sources) async fn older(
        server: Server,
        now: WallNow,
    ) -> Result<(Wire, Link), Failure> {
        let url = server.url.clone();
        let (wire, link) = Wire::streamable(server, now);
        let shared = Arc::clone(&wire.shared);
        let (_, answer) = shared
            .server
            .exchange(Method::GET, &url, &HeaderMap::new(), None, (shared.now)())
            .await?;
        let Answer::Events(mut body) = answer else {
            return Err(Failure::Lost("the server offers no stream of events".to_owned()));
        };
        let mut events = Events::default();
        // Nothing was asked yet, so what comes before the address answers nothing.
        let (endpoint, first) = loop {
            let arrived = next_events(&mut body, &mut events).await.ok_or_else(|| {
                Failure::Lost("the server's stream ended before it named an address".to_owned())
            })?;
            let mut arrived = arrived.into_iter().skip_while(|event| event.name != "endpoint");
            if let Some(endpoint) = arrived.next() {
                break (endpoint.data, arrived.collect());
            }
        };
        let post_to = url.join(endpoint.trim()).ok().filter(|to| to.origin() == url.origin());
        let Some(post_to) = post_to else {
            let why = "the server wants messages at another origin than its own";
            return Err(Failure::Lost(why.to_owned()));
        };
        let reading = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                shared.deliver_all(first, None).await;
                while let Some(arrived) = next_events(&mut body, &mut events).await {
                    shared.deliver_all(arrived, None).await;
                }
                shared.stream_ended().await;
            }
        });
        let mut state = shared.state();
        state.post_to = Some(post_to);
        state.listening = Some(reading.abort_handle());
        drop(state);
        Ok((wire, link))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        for (_, out) in std::mem::take(&mut state.out) {
            out.task.abort();
        }
        if let Some(listening) = state.listening.take() {
            listening.abort();
        }
    }
}

impl Transport<RoleClient> for Wire {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        async move {
            let message = serde_json::to_value(&item).map_err(std::io::Error::other)?;
            let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
            match (method, message.get("id").map(Value::to_string)) {
                (Some(method), Some(id)) => {
                    shared.raw.note(&message);
                    shared.begin(id, method, message);
                }
                // Whoever takes a call back does not wait until the server has heard of it.
                (Some(method), None) if method == "notifications/cancelled" => {
                    shared.raw.note(&message);
                    tokio::spawn(async move { shared.aside(Some(&method), message).await });
                }
                (Some(method), None) => shared.aside(Some(&method), message).await,
                (None, _) => {
                    if let Ok(_one) = shared.answers.try_acquire() {
                        shared.aside(None, message).await;
                    }
                }
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let value = self.arriving.recv().await?;
            if let Some(message) = self.shared.raw.message(value) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.arriving.close();
        Ok(())
    }
}

impl State {
    /// What every request of this connection carries.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(session) = &self.session {
            headers.insert(SESSION, session.clone());
        }
        if let Some(Ok(version)) = self.version.as_deref().map(HeaderValue::from_str) {
            headers.insert(VERSION, version);
        }
        headers
    }

    /// What this message carries: a stateless one says its version and repeats what it is about.
    fn headers_of(&self, message: &Value) -> HeaderMap {
        let mut headers = self.headers();
        let params = message.get("params").unwrap_or(&Value::Null);
        let version = params
            .get("_meta")
            .and_then(|meta| meta.get("io.modelcontextprotocol/protocolVersion"))
            .and_then(Value::as_str);
        let Some(Ok(version)) = version.map(HeaderValue::from_str) else { return headers };
        headers.insert(VERSION, version);
        let mut text = |name, value: Option<&str>| {
            if let Some(value) = value.and_then(parameters::encoded) {
                headers.insert(name, value);
            }
        };
        text(METHOD, message.get("method").and_then(Value::as_str));
        let name = params.get("name").and_then(Value::as_str);
        text(NAME, name);
        if let Some(wanted) = name.and_then(|name| self.parameters.get(name)) {
            let arguments = params.get("arguments").unwrap_or(&Value::Null);
            headers.extend(parameters::headers(wanted, arguments));
        }
        headers
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts an exchange for a request; its answer arrives in the queue.
    fn begin(self: &Arc<Shared>, id: String, method: String, message: Value) {
        // Held until the task is noted: it ends by taking its own note away.
        let mut state = self.state();
        let shared = Arc::clone(self);
        let key = id.clone();
        // Where an older server's one stream ended, nobody would hear the answer.
        let deaf = state.lost && state.post_to.is_some();
        let task = tokio::spawn(async move {
            if deaf {
                let why = "the server's stream has ended".to_owned();
                shared.state().out.remove(&key);
                shared.fail(&key, &message, Failure::NotSent(why)).await;
            } else {
                shared.request(key, message).await;
            }
        });
        state.out.insert(id, Out { method, task: task.abort_handle() });
    }

    async fn request(self: Arc<Shared>, id: String, message: Value) {
        let outcome = self.answered(&id, &message).await;
        let failure = match outcome {
            Ok(true) => None,
            // The answer comes over the one stream of an older server.
            Ok(false) if self.state().post_to.is_some() => return,
            Ok(false) => Some(Failure::Lost(
                "the server ended its answer before the result was in it".to_owned(),
            )),
            Err(failure) => Some(failure),
        };
        // It may have been answered on the way: over a stream of the server's own, or of an older one.
        let out = self.state().out.remove(&id);
        if let (Some(failure), Some(_)) = (failure, out) {
            self.fail(&id, &message, failure).await;
        }
    }

    /// Sends a request and hands on everything that comes of it; did its answer come?
    async fn answered(self: &Arc<Shared>, id: &str, message: &Value) -> Result<bool, Failure> {
        let (headers, to) = {
            let state = self.state();
            let to = state.post_to.clone().unwrap_or_else(|| self.server.url.clone());
            (state.headers_of(message), to)
        };
        let body = Some(message.to_string());
        let exchanged = self.server.exchange(Method::POST, &to, &headers, body, (self.now)()).await;
        let (head, answer) = exchanged.map_err(|failure| self.unless_lost(failure, &headers))?;
        if message.get("method").and_then(Value::as_str) == Some("initialize") {
            self.state().session = head.get(SESSION).cloned();
        }
        match answer {
            Answer::Accepted => Ok(false),
            Answer::Json(Value::Array(batch)) => {
                let mut came = false;
                for value in batch {
                    came |= self.deliver(value, Some(id)).await;
                }
                Ok(came)
            }
            Answer::Json(value) => Ok(self.deliver(value, Some(id)).await),
            Answer::Events(body) => self.follow(body, id).await,
        }
    }

    /// Reads a stream until the answer is in it; takes it up again where the server lets it be.
    async fn follow(self: &Arc<Shared>, mut body: Incoming, id: &str) -> Result<bool, Failure> {
        let mut events = Events::default();
        for _ in 0..=RESUMES_MAX {
            while let Some(arrived) = next_events(&mut body, &mut events).await {
                if self.deliver_all(arrived, Some(id)).await {
                    return Ok(true);
                }
            }
            let Some(last) = events.last_id().and_then(|id| HeaderValue::from_str(id).ok()) else {
                return Ok(false);
            };
            let wait = events.retry_ms.map_or(RESUME_AFTER, Duration::from_millis);
            tokio::time::sleep(wait.min(RESUME_AFTER_MAX)).await;
            let mut headers = self.state().headers();
            headers.insert(LAST_EVENT, last);
            let url = self.server.url.clone();
            let resumed =
                self.server.exchange(Method::GET, &url, &headers, None, (self.now)()).await;
            match resumed {
                Ok((_, Answer::Events(next))) => body = next,
                Ok((_, Answer::Accepted | Answer::Json(_))) | Err(_) => return Ok(false),
            }
        }
        Ok(false)
    }

    /// A refusal that says the session is gone, as that.
    fn unless_lost(&self, failure: Failure, sent: &HeaderMap) -> Failure {
        let Failure::Status { refusal, .. } = &failure else { return failure };
        if !sent.contains_key(SESSION) {
            return failure;
        }
        let gone = match refusal.status {
            404 => true,
            // Not what the protocol says, and what many servers do that were restarted.
            400 => refusal.message.to_lowercase().contains("session"),
            _ => false,
        };
        // With 503 some say it too; whoever calls learns that status all the same.
        if gone || refusal.status == 503 {
            self.state().lost = true;
        }
        if gone { Failure::SessionLost } else { failure }
    }

    /// Answers a request by what went wrong with it.
    async fn fail(&self, id: &str, message: &Value, failure: Failure) {
        let id_value = message.get("id").cloned().unwrap_or(Value::Null);
        let answer = match &failure {
            Failure::Status { refusal, rpc: Some(rpc) }
                if !matches!(refusal.status, 401 | 403 | 429) && refusal.status < 500 =>
            {
                // The protocol's own error, only in another envelope.
                let error = rpc.get("error").cloned().unwrap_or_default();
                json!({ "jsonrpc": "2.0", "id": id_value, "error": error })
            }
            Failure::NotSent(_)
            | Failure::Credential(_)
            | Failure::Status { .. }
            | Failure::SessionLost
            | Failure::Lost(_) => {
                self.state().failures.insert(id.to_owned(), failure);
                json!({ "jsonrpc": "2.0", "id": id_value, "error": { "code": -32000, "message": "no answer" } })
            }
        };
        let _ = self.arrived.send(answer).await;
    }

    /// Sends what needs no answer: a notification, or an answer to the server.
    async fn aside(self: &Arc<Shared>, method: Option<&str>, message: Value) {
        let mut to_stateless = false;
        if method == Some("notifications/cancelled") {
            let id = message.pointer("/params/requestId").map(Value::to_string);
            let mut state = self.state();
            if let Some(out) = id.and_then(|id| state.out.remove(&id)) {
                out.task.abort();
            }
            // There, the stream that was just dropped says it all.
            to_stateless = state.version.is_none();
        }
        if to_stateless {
            return;
        }
        let (headers, to) = {
            let state = self.state();
            let to = state.post_to.clone().unwrap_or_else(|| self.server.url.clone());
            (state.headers_of(&message), to)
        };
        let body = Some(message.to_string());
        let sending = self.server.exchange(Method::POST, &to, &headers, body, (self.now)());
        let _ = tokio::time::timeout(ASIDE_WITHIN, sending).await;
        if method == Some("notifications/initialized") {
            self.listen();
        }
    }

    /// Listens for what the server says by itself, as long as it offers that.
    fn listen(self: &Arc<Shared>) {
        let mut state = self.state();
        if state.listening.is_some() {
            return;
        }
        let shared = Arc::clone(self);
        let task = tokio::spawn(async move {
            let mut wait = LISTEN_AFTER;
            loop {
                let headers = shared.state().headers();
                let url = shared.server.url.clone();
                let opened =
                    shared.server.exchange(Method::GET, &url, &headers, None, (shared.now)()).await;
                match opened {
                    Ok((_, Answer::Events(mut body))) => {
                        let mut events = Events::default();
                        while let Some(arrived) = next_events(&mut body, &mut events).await {
                            wait = LISTEN_AFTER;
                            shared.deliver_all(arrived, None).await;
                        }
                    }
                    // It offers nothing of the kind: most do not, and each says so in its own way.
                    Ok(_) | Err(Failure::Status { .. } | Failure::SessionLost) => return,
                    Err(Failure::NotSent(_) | Failure::Credential(_) | Failure::Lost(_)) => {}
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LISTEN_AFTER_MAX);
            }
        });
        state.listening = Some(task.abort_handle());
    }

    /// The one stream of an older server ended: nothing that is out will be answered.
    async fn stream_ended(&self) {
        let out = {
            let mut state = self.state();
            state.lost = true;
            let out = std::mem::take(&mut state.out);
            for id in out.keys() {
                let why = "the server's stream ended before the answer arrived".to_owned();
                state.failures.insert(id.clone(), Failure::Lost(why));
            }
            out
        };
        for id in out.into_keys() {
            let id: Value = serde_json::from_str(&id).unwrap_or_default();
            let error = json!({ "code": -32000, "message": "no answer" });
            let _ = self.arrived.send(json!({ "jsonrpc": "2.0", "id": id, "error": error })).await;
        }
    }

    /// Hands messages on; is the answer to the request `asked` among them?
    async fn deliver_all(&self, events: Vec<Event>, asked: Option<&str>) -> bool {
        let mut came = false;
        for event in events.into_iter().filter(|event| event.name == "message") {
            if let Some(value) = parse_from_server(event.data.as_bytes()) {
                came |= self.deliver(value, asked).await;
            }
        }
        came
    }

    async fn deliver(&self, value: Value, asked: Option<&str>) -> bool {
        let answers =
            value.get("id").filter(|_| value.get("method").is_none()).map(Value::to_string);
        let method =
            answers.as_ref().and_then(|id| self.state().out.remove(id)).map(|out| out.method);
        if let (Some(method), Some(result)) = (method, value.get("result")) {
            self.learn(&method, result);
        }
        let is_it = asked.is_some() && answers.as_deref() == asked;
        let _ = self.arrived.send(value).await;
        is_it
    }

    /// What later requests must say: the version agreed on, and arguments that travel in headers.
    fn learn(&self, method: &str, result: &Value) {
        match method {
            "initialize" => {
                let version = result.get("protocolVersion").and_then(Value::as_str);
                self.state().version = version.map(str::to_owned);
            }
            "tools/list" => {
                let tools = result.get("tools").and_then(Value::as_array);
                let mut state = self.state();
                for tool in tools.into_iter().flatten() {
                    let name = tool.get("name").and_then(Value::as_str);
                    let (Some(name), Some(schema)) = (name, tool.get("inputSchema")) else {
                        continue;
                    };
                    let wanted = parameters::wanted(schema);
                    if wanted.is_empty() {
                        state.parameters.remove(name);
                    } else if state.parameters.len() < TOOLS_WITH_PARAMETERS_MAX
                        || state.parameters.contains_key(name)
                    {
                        state.parameters.insert(name.to_owned(), wanted);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The next events of a stream; `None` when it is over, broken, or says more than it may.
async fn next_events(body: &mut Incoming, events: &mut Events) -> Option<Vec<Event>> {
    loop {
        let frame = body.frame().await?.ok()?;
        if let Ok(data) = frame.into_data() {
            let arrived = events.take(&data).ok()?;
            if !arrived.is_empty() {
                return Some(arrived);
            }
        }
    }
}
