//! Serving clients over HTTP, on this machine only: each is let in by a token, and known by its name.
#![expect(
    clippy::disallowed_methods,
    reason = "connections are tasks of their own, with deadlines"
)]

use super::server::HubServer;
use crate::driver::Hub;
use crate::ports::Ports;
use crate::ports::secrets::Secrets as _;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// Where the endpoint is.
pub const HTTP_PATH: &str = "/mcp";
/// Bytes a request may have.
const BODY_BYTES_MAX: usize = 4 << 20;
/// Bytes of a request's headers.
const HEADER_BYTES_MAX: usize = 32 * 1024;
/// How long headers, and then a body, may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(20);
/// Connections at once; further ones wait.
const CONNECTIONS_MAX: usize = 1_024;
/// Requests that are answered at once; further ones are told to come back.
const REQUESTS_MAX: usize = 256;
/// Sessions of clients that keep one; further ones are told to come back.
const SESSIONS_MAX: usize = 512;
/// How long a session is kept that nobody uses: longer than any run takes.
const SESSION_IDLE: Duration = Duration::from_secs(60 * 60);
/// How long answers may take to be written once the hub ends.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// The header that names a session.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Who a request comes from: the name of its token.
#[derive(Debug, Clone)]
pub(super) struct Principal(pub(super) String);

struct Endpoint<P: Ports> {
    hub: Hub<P>,
    port: u16,
    mcp: StreamableHttpService<HubServer<P>, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    /// Who opened each session; nobody else may use it.
    owners: Mutex<BTreeMap<String, String>>,
    free: Arc<Semaphore>,
}

/// Serves until `ending` completes, then lets writes settle and answers be written.
pub async fn serve_http<P: Ports>(
    hub: Hub<P>,
    profile: String,
    listeners: Vec<TcpListener>,
    ending: impl Future<Output = ()>,
) {
    let closed = Arc::new(AtomicBool::new(false));
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION_IDLE);
    let sessions = Arc::new(sessions);
    let config = StreamableHttpServerConfig::default()
        .with_json_response(true)
        .with_max_request_body_bytes(BODY_BYTES_MAX)
        .with_allowed_origins(["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"]);
    let stopping = config.cancellation_token.clone();
    let server = HubServer::over_http(hub.clone(), profile, Arc::clone(&closed));
    let mcp = StreamableHttpService::new(move || Ok(server.clone()), Arc::clone(&sessions), config);
    let port = listeners.first().and_then(|one| one.local_addr().ok()).map_or(0, |at| at.port());
    let endpoint = Arc::new(Endpoint {
        hub: hub.clone(),
        port,
        mcp,
        sessions,
        owners: Mutex::default(),
        free: Arc::new(Semaphore::new(REQUESTS_MAX)),
    });
    let (end, ended) = watch::channel(false);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut accepting = JoinSet::new();
    for listener in listeners {
        accepting.spawn(accept(
            listener,
            Arc::clone(&endpoint),
            Arc::clone(&places),
            ended.clone(),
        ));
    }
    ending.await;
    // From here on a connection that ends cancels nothing: its run stays, and can be resumed.
    closed.store(true, Ordering::SeqCst);
    accepting.shutdown().await;
    hub.shut_down().await;
    end.send_replace(true);
    stopping.cancel();
    let all = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
    // Every place is free again once every connection has ended.
    let _ = tokio::time::timeout(ENDS_WITHIN, places.acquire_many(all)).await;
}

async fn accept<P: Ports>(
    listener: TcpListener,
    endpoint: Arc<Endpoint<P>>,
    places: Arc<Semaphore>,
    ended: watch::Receiver<bool>,
) {
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (endpoint, ended) = (Arc::clone(&endpoint), ended.clone());
                tokio::spawn(async move {
                    serve_one(stream, endpoint, ended).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

async fn serve_one<P: Ports>(
    stream: TcpStream,
    endpoint: Arc<Endpoint<P>>,
    mut ended: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let endpoint = Arc::clone(&endpoint);
        async move { Ok::<_, Infallible>(endpoint.answer(request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(ARRIVES_WITHIN)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        biased;
        // A connection that breaks is the client's business.
        _ = connection.as_mut() => return,
        _ = ended.wait_for(|ended| *ended) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

impl<P: Ports> Endpoint<P> {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        match self.admitted(request).await {
            Ok(answer) | Err(answer) => answer,
        }
    }

    /// Lets a request in, step by step: right name, right page, right token, right path, room for it.
    async fn admitted(&self, request: Request<Incoming>) -> Result<Answer, Answer> {
        let (mut parts, body) = request.into_parts();
        if !self.is_own_name(&parts.headers) {
            let text = "this hub answers to `127.0.0.1`, `localhost` and `[::1]` only";
            return Err(refused(StatusCode::FORBIDDEN, text));
        }
        if !is_own_origin(&parts.headers) {
            let text = "pages of other origins may not speak to this hub";
            return Err(refused(StatusCode::FORBIDDEN, text));
        }
        let Some(principal) = self.principal(&parts.headers) else {
            let text =
                "this hub wants the token in its file `http-token`, as `Authorization: Bearer …`";
            let mut answer = refused(StatusCode::UNAUTHORIZED, text);
            let realm = HeaderValue::from_static("Bearer realm=\"capabilities\"");
            answer.headers_mut().insert(WWW_AUTHENTICATE, realm);
            return Err(answer);
        };
        if parts.uri.path() != HTTP_PATH {
            let text = "there is nothing here; the endpoint is `/mcp`";
            return Err(refused(StatusCode::NOT_FOUND, text));
        }
        let session = parts.headers.get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if let Some(session) = &session
            && self.owners().get(session).is_some_and(|owner| *owner != principal)
        {
            return Err(refused(StatusCode::NOT_FOUND, "there is no such session"));
        }
        let Ok(place) = Arc::clone(&self.free).try_acquire_owned() else {
            return Err(later("the hub answers as many requests as it can; ask again in a moment"));
        };
        let deletes = parts.method == Method::DELETE;
        let body = if parts.method == Method::POST { arrived(body).await? } else { Bytes::new() };
        let opens = session.is_none() && begins_session(&body);
        if opens && !self.has_room_for_session().await {
            return Err(later(
                "too many clients keep a session open; end some, or ask again later",
            ));
        }
        parts.extensions.insert(Principal(principal.clone()));
        let answer = self.mcp.handle(Request::from_parts(parts, Full::new(body))).await;
        if let Some(opened) = answer.headers().get(SESSION).and_then(|id| id.to_str().ok())
            && opens
        {
            self.owners().insert(opened.to_owned(), principal);
        }
        if let Some(session) = session.filter(|_| deletes && answer.status().is_success()) {
            self.owners().remove(&session);
        }
        // The place is taken until the last byte of the answer is written.
        Ok(answer.map(|body| {
            body.map_frame(move |frame| {
                let _place = &place;
                frame
            })
            .boxed()
        }))
    }

    /// Is the hub asked for by a name of its own? A page whose name leads here is not.
    fn is_own_name(&self, headers: &HeaderMap) -> bool {
        let Some(host) = only(headers, &HOST) else { return false };
        let name = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => {
                if port.parse() != Ok(self.port) {
                    return false;
                }
                name
            }
            Some(_) | None => host,
        };
        is_loopback_name(name)
    }

    fn principal(&self, headers: &HeaderMap) -> Option<String> {
        let given = only(headers, &AUTHORIZATION)?;
        let (scheme, token) = given.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        self.hub.ports().secrets().bearer(token.trim())
    }

    async fn has_room_for_session(&self) -> bool {
        let sessions = self.sessions.sessions.read().await;
        let mut owners = self.owners();
        // Sessions that ended by themselves have no owner any more either.
        if owners.len() > sessions.len() {
            owners.retain(|session, _| sessions.contains_key(session.as_str()));
        }
        sessions.len() < SESSIONS_MAX
    }

    fn owners(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_loopback_name(name: &str) -> bool {
    matches!(name.to_ascii_lowercase().as_str(), "127.0.0.1" | "localhost" | "[::1]")
}

/// A program sends no origin; a page does, and only pages of this machine may ask.
fn is_own_origin(headers: &HeaderMap) -> bool {
    if !headers.contains_key(ORIGIN) {
        return true;
    }
    let origin = only(headers, &ORIGIN).unwrap_or_default();
    let Some(host) = origin.strip_prefix("http://") else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    is_loopback_name(name)
}

/// The value of a header that is given once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// The whole body of a request, if it is small and soon enough.
async fn arrived(body: Incoming) -> Result<Bytes, Answer> {
    let read = Limited::new(body, BODY_BYTES_MAX).collect();
    match tokio::time::timeout(ARRIVES_WITHIN, read).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let megabytes = BODY_BYTES_MAX >> 20;
            let text = format!("a request has at most {megabytes} MB");
            Err(refused(StatusCode::PAYLOAD_TOO_LARGE, &text))
        }
        Ok(Err(_)) => Err(refused(StatusCode::BAD_REQUEST, "the request broke off")),
        Err(_) => {
            let seconds = ARRIVES_WITHIN.as_secs();
            let text = format!("the request did not arrive within {seconds} s");
            Err(refused(StatusCode::REQUEST_TIMEOUT, &text))
        }
    }
}

/// Does a message ask for a session?
fn begins_session(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Message<'m> {
        #[serde(borrow)]
        method: std::borrow::Cow<'m, str>,
    }
    serde_json::from_slice::<Message<'_>>(body).is_ok_and(|message| message.method == "initialize")
}

fn later(text: &str) -> Answer {
    let mut answer = refused(StatusCode::TOO_MANY_REQUESTS, text);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// A refusal that programs and people can read.
fn refused(status: StatusCode, text: &str) -> Answer {
    let error =
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": text } });
    let mut answer = Response::new(Full::from(error.to_string()).boxed());
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn pages_of_this_machine_may_ask_and_no_others() {
        let check = |origin: &[&'static str]| is_own_origin(&with(&ORIGIN, origin));
        assert!(check(&[]) && check(&["http://localhost"]) && check(&["http://127.0.0.1:6274"]));
        assert!(check(&["http://[::1]:80"]) && check(&["http://LOCALHOST:1"]));
        for bad in [
            "null",
            "",
            "https://localhost",
            "http://localhost.evil.com",
            "http://evil.com:80",
            "http://localhost:80@evil.com",
            "http://127.0.0.1.evil.com:80",
            "file://",
        ] {
            assert!(!is_own_origin(&with(&ORIGIN, &[bad])), "{bad}");
        }
        assert!(!check(&["http://localhost", "http://evil.com"]), "said twice is not said");
    }

    #[test]
    fn only_a_message_that_asks_for_a_session_opens_one() {
        assert!(begins_session(br#"{"id":1,"method":"initialize","params":{"a":[1]}}"#));
        assert!(begins_session(br#"{"id":1,"method":"initi\u0061lize"}"#));
        assert!(!begins_session(br#"{"id":1,"method":"tools/list"}"#));
        assert!(!begins_session(b"[]") && !begins_session(b""));
    }
}
