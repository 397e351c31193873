//! One message to a server over HTTP, and what kind of answer came.
#![expect(clippy::disallowed_methods, reason = "the words of an error may never come")]

use super::connect::{ConnectError, Connector};
use crate::adapters::sources::child::Scrub;
use crate::adapters::sources::credential::Credential;
use crate::model::connection::Place;
use crate::model::http::{HttpEndpoint, HttpUrl};
use crate::model::json::{cut, parse_from_server};
use crate::model::time::WallMs;
use crate::model::visible::one_line;
use crate::ports::secrets::{SecretText, SecretsError};
use crate::ports::sources::{CallError, HttpRefusal};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error as _;
use std::time::{Duration, UNIX_EPOCH};
use zeroize::Zeroizing;

/// Redirects that are followed within one exchange.
const REDIRECTS_MAX: usize = 4;
/// Bytes of a JSON answer: a result of `callResultBytes`, escaped, with room around it.
const JSON_BYTES_MAX: usize = 32 << 20;
/// Bytes of an error's body that are read.
const ERROR_BYTES_MAX: usize = 16 * 1024;
/// Bytes of them that are looked at for words, once secrets are taken out.
const ERROR_BYTES_KEPT: usize = 4 * 1024;
/// Characters of a server's own words that are kept.
const WORDS_MAX: usize = 300;
/// Bytes of a header that code may see.
const HEADER_BYTES_MAX: usize = 500;
/// How long the words of an error are waited for.
const WORDS_WITHIN: Duration = Duration::from_millis(500);
/// How long an idle connection is kept: shorter than servers do, so that few die in use.
const IDLE: Duration = Duration::from_secs(15);

/// What came back, as far as its head says.
pub(super) enum Answer {
    /// Taken; there is nothing to read.
    Accepted,
    /// One JSON value.
    Json(Value),
    /// A stream of events.
    Events(Incoming),
}

/// Why no answer came, by what that means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::adapters::sources) enum Failure {
    /// Nothing left this machine.
    NotSent(String),
    /// Nothing left this machine, because the credential cannot be had.
    Credential(SecretsError),
    /// The server refused; `rpc` is the protocol's own error, if it sent one.
    Status {
        /// What may be known of it.
        refusal: Box<HttpRefusal>,
        /// A JSON-RPC error in its body.
        rpc: Option<Box<Value>>,
    },
    /// The session is gone: the request was not looked at.
    SessionLost,
    /// It left, and no answer came that could be read.
    Lost(String),
}

impl Failure {
    /// Does it say that a server does not know how to be spoken to like this? Then an older way may do.
    pub(in crate::adapters::sources) fn is_mismatch(&self) -> bool {
        match self {
            Failure::Status { refusal, rpc: None } => {
                matches!(refusal.status, 400 | 404 | 405 | 406 | 410 | 411 | 415)
            }
            Failure::Status { .. }
            | Failure::NotSent(_)
            | Failure::Credential(_)
            | Failure::SessionLost
            | Failure::Lost(_) => false,
        }
    }
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> CallError {
        match failure {
            Failure::NotSent(why) => CallError::NotSent(why),
            Failure::Credential(error) => CallError::Credential(error),
            Failure::Status { refusal, .. } => CallError::Status(refusal),
            Failure::SessionLost => CallError::NotSent(
                "the server has ended the connection's session; call again".to_owned(),
            ),
            Failure::Lost(why) => CallError::Lost(why),
        }
    }
}

/// One server, and the connections to it that are kept open.
#[derive(Clone)]
pub(in crate::adapters::sources) struct Server {
    pub(super) url: HttpUrl,
    pub(super) scrub: Scrub,
    credential: Credential,
    client: Client<Connector, Full<Bytes>>,
}

impl Server {
    /// A server that is sent a credential, and whose words are scrubbed before anything is cut of them.
    pub(in crate::adapters::sources) fn new(
        endpoint: &HttpEndpoint,
        credential: Credential,
        scrub: Scrub,
    ) -> Server {
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(hyper_util::rt::TokioTimer::new())
            .pool_max_idle_per_host(8)
            // Only ever what hyper hands back untouched, because a kept connection turned out dead.
            .retry_canceled_requests(true)
            .build(Connector::new(endpoint.reaches));
        Server { url: endpoint.url.clone(), scrub, credential, client }
    }

    /// Sends one request and reads the head of its answer; a body that is JSON whole. Redirects are
    /// followed within the origin.
    pub(super) async fn exchange(
        &self,
        method: Method,
        to: &HttpUrl,
        headers: &HeaderMap,
        body: Option<String>,
        now: WallMs,
    ) -> Result<(HeaderMap, Answer), Failure> {
        let mut to = to.clone();
        for _ in 0..=REDIRECTS_MAX {
            let response = self.send(&method, &to, headers, body.clone()).await?;
            match redirected(&to, &response, &self.scrub)? {
                Some(next) => to = next,
                None => return read(response, now, &self.scrub).await,
            }
        }
        Err(Failure::NotSent(format!("the server redirects more than {REDIRECTS_MAX} times")))
    }

    async fn send(
        &self,
        method: &Method,
        to: &HttpUrl,
        headers: &HeaderMap,
        body: Option<String>,
    ) -> Result<Response<Incoming>, Failure> {
        // Whatever leads here: a credential goes to the origin it was entered for, or nothing does.
        if to.origin() != self.url.origin() {
            return Err(Failure::NotSent(format!("`{}` is another origin", to.shown())));
        }
        let released = self.credential.release().await.map_err(Failure::Credential)?;
        let address = address(to, &released);
        let mut request = Request::builder().method(method).uri(address.as_str());
        if let Some(all) = request.headers_mut() {
            all.extend(headers.clone());
            carry(all, &released).map_err(Failure::NotSent)?;
            let agent = concat!("capabilities/", env!("CARGO_PKG_VERSION"));
            all.insert(USER_AGENT, HeaderValue::from_static(agent));
            if body.is_some() {
                all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
            let accept = if method == Method::GET {
                "text/event-stream"
            } else {
                "application/json, text/event-stream"
            };
            all.insert(ACCEPT, HeaderValue::from_static(accept));
        }
        let request = request
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|error| Failure::NotSent(format!("the request cannot be written: {error}")))?;
        self.client.request(request).await.map_err(|error| broken(&error))
    }
}

/// The address with the parameters that a credential adds.
fn address(to: &HttpUrl, released: &[(Place, SecretText)]) -> Zeroizing<String> {
    let parameters = released.iter().filter_map(|(place, value)| match place {
        Place::Query(name) => Some((name.as_str(), value.expose())),
        Place::Bearer | Place::Basic | Place::Header(_) | Place::Env(_) => None,
    });
    Zeroizing::new(to.with_query(parameters))
}

/// Puts the headers of a credential among the others; each is marked, so that nothing prints it.
fn carry(all: &mut HeaderMap, released: &[(Place, SecretText)]) -> Result<(), String> {
    for (place, value) in released {
        let (name, text) = match place {
            Place::Bearer => (AUTHORIZATION, Zeroizing::new(format!("Bearer {}", value.expose()))),
            Place::Basic => {
                let encoded = Zeroizing::new(STANDARD.encode(value.expose()));
                (AUTHORIZATION, Zeroizing::new(format!("Basic {}", encoded.as_str())))
            }
            Place::Header(name) => {
                let name = HeaderName::try_from(name.as_str());
                let name = name.map_err(|_| "a header of the connection has no name".to_owned())?;
                (name, Zeroizing::new(value.expose().to_owned()))
            }
            Place::Query(_) | Place::Env(_) => continue,
        };
        let mut value = HeaderValue::from_str(&text)
            .map_err(|_| "the credential cannot stand in a header".to_owned())?;
        value.set_sensitive(true);
        all.insert(name, value);
    }
    Ok(())
}

/// What a request that ended without a response came to.
fn broken(error: &hyper_util::client::legacy::Error) -> Failure {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(connect) = inner.downcast_ref::<ConnectError>() {
            return Failure::NotSent(connect.to_string());
        }
        if let Some(inner) = inner.downcast_ref::<hyper::Error>() {
            if inner.is_parse() {
                let why = "what answers there does not speak HTTP; is it `https://`?";
                return Failure::Lost(why.to_owned());
            }
            if inner.is_incomplete_message() {
                let why = "the server hung up before it answered";
                return Failure::Lost(why.to_owned());
            }
        }
        cause = inner.source();
    }
    if error.is_connect() {
        return Failure::NotSent(format!("the server cannot be reached: {error}"));
    }
    Failure::Lost(format!("the connection broke: {error}"))
}

/// Where the answer sends the request on to, if it does.
fn redirected(
    from: &HttpUrl,
    response: &Response<Incoming>,
    scrub: &Scrub,
) -> Result<Option<HttpUrl>, Failure> {
    let status = response.status();
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let refuse = |what: String| {
        let mut refusal = bare(status);
        refusal.message = what;
        Err(Failure::Status { refusal: Box::new(refusal), rpc: None })
    };
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let Some(next) = location.and_then(|location| from.join(location).ok()) else {
        return refuse("it redirects to nowhere".to_owned());
    };
    if next.origin() != from.origin() {
        let next = one_line(&scrub(&next.shown()), WORDS_MAX);
        return refuse(format!(
            "it redirects to `{next}`, which is another origin than the one you agreed to; add that address instead"
        ));
    }
    if status == StatusCode::SEE_OTHER {
        return refuse("it redirects a message to a page".to_owned());
    }
    Ok(Some(next))
}

async fn read(
    response: Response<Incoming>,
    now: WallMs,
    scrub: &Scrub,
) -> Result<(HeaderMap, Answer), Failure> {
    let (head, body) = response.into_parts();
    let kind = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let kind = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    if !head.status.is_success() {
        return Err(refusal(head.status, &head.headers, &kind, body, now, scrub).await);
    }
    if kind == "text/event-stream" {
        return Ok((head.headers, Answer::Events(body)));
    }
    let bytes = whole(body, JSON_BYTES_MAX).await?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok((head.headers, Answer::Accepted));
    }
    match parse_from_server(&bytes) {
        Some(value) => Ok((head.headers, Answer::Json(value))),
        // Some servers say `Accepted` in words.
        None if head.status == StatusCode::ACCEPTED => Ok((head.headers, Answer::Accepted)),
        None => {
            let kind = if kind.is_empty() {
                "no content type".to_owned()
            } else {
                format!("`{}`", one_line(&scrub(&kind), 60))
            };
            Err(Failure::Lost(format!("the server answered with {kind}, which is no MCP")))
        }
    }
}

/// A whole body, if it is not larger than `bytes_max`.
async fn whole(mut body: Incoming, bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            Failure::Lost("the connection broke in the middle of the answer".to_owned())
        })?;
        if let Some(data) = frame.data_ref() {
            if bytes.len() + data.len() > bytes_max {
                let megabytes = bytes_max >> 20;
                return Err(Failure::Lost(format!("the answer is larger than {megabytes} MB")));
            }
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes)
}

async fn refusal(
    status: StatusCode,
    headers: &HeaderMap,
    kind: &str,
    body: Incoming,
    now: WallMs,
    scrub: &Scrub,
) -> Failure {
    let mut refusal = bare(status);
    refusal.headers = shown(headers, scrub);
    refusal.retry_after_ms = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| wait(text, now));
    // An error's body is words only; it is not waited for longer than that.
    let body = tokio::time::timeout(WORDS_WITHIN, whole_up_to(body, ERROR_BYTES_MAX)).await;
    let bytes = body.unwrap_or_default();
    let value = serde_json::from_slice::<Value>(&bytes).ok();
    let rpc = value.as_ref().filter(|value| {
        value.get("jsonrpc").is_some() && value.get("error").is_some_and(Value::is_object)
    });
    let words = match &value {
        Some(value) => words_of(value),
        None if kind == "text/plain" => String::from_utf8_lossy(&bytes).into_owned(),
        None => String::new(),
    };
    // Scrubbed whole, then cut; what stood across the end of what was read is not among what is kept.
    let words = scrub(&words);
    refusal.message = one_line(cut(words.trim(), ERROR_BYTES_KEPT), WORDS_MAX);
    Failure::Status { rpc: rpc.cloned().map(Box::new), refusal: Box::new(refusal) }
}

/// The first bytes of a body, whatever becomes of the rest.
async fn whole_up_to(mut body: Incoming, bytes_max: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(data) = frame.data_ref() {
            bytes.extend(data.iter().take(bytes_max - bytes.len()));
        }
        if bytes.len() >= bytes_max {
            break;
        }
    }
    bytes
}

fn bare(status: StatusCode) -> HttpRefusal {
    HttpRefusal {
        status: status.as_u16(),
        message: String::new(),
        retry_after_ms: None,
        headers: BTreeMap::new(),
    }
}

/// The few headers that code may see.
fn shown(headers: &HeaderMap, scrub: &Scrub) -> BTreeMap<String, String> {
    let allowed = |name: &HeaderName| {
        let name = name.as_str();
        matches!(name, "retry-after" | "etag" | "last-modified" | "link")
            || name.starts_with("x-ratelimit-")
    };
    let pairs = headers.iter().filter(|(name, _)| allowed(name)).take(16);
    pairs
        .filter_map(|(name, value)| {
            let value = cut(&scrub(value.to_str().ok()?), HEADER_BYTES_MAX).to_owned();
            Some((scrub(name.as_str()), value))
        })
        .collect()
}

/// Milliseconds that a `Retry-After` asks for: seconds, or a date.
fn wait(text: &str, now: WallMs) -> Option<u64> {
    if let Ok(seconds) = text.trim().parse::<u64>() {
        return seconds.checked_mul(1000);
    }
    let date = httpdate::parse_http_date(text.trim()).ok()?;
    let at = u64::try_from(date.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()?;
    Some(at.saturating_sub(now.0))
}

/// A sentence in an error's JSON, wherever such servers put it.
fn words_of(value: &Value) -> String {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let error = value.get("error");
    error
        .and_then(|error| text(error, "message"))
        .or_else(|| text(value, "error_description"))
        .or_else(|| text(value, "message"))
        .or_else(|| text(value, "detail"))
        .or_else(|| error.and_then(Value::as_str).map(str::to_owned))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_wait_is_seconds_or_a_date() {
        let now = WallMs(784_111_777_000);
        assert_eq!(wait("120", now), Some(120_000));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:40 GMT", now), Some(3_000));
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT", now), Some(0));
        assert_eq!(wait("soon", now), None);
    }

    #[test]
    fn code_sees_few_headers() {
        let mut headers = HeaderMap::new();
        for name in ["retry-after", "x-ratelimit-remaining", "set-cookie", "authorization", "etag"]
        {
            headers.insert(name, HeaderValue::from_static("1"));
        }
        let names: Vec<String> =
            shown(&headers, &(Arc::new(str::to_owned) as Scrub)).into_keys().collect();
        assert_eq!(names, ["etag", "retry-after", "x-ratelimit-remaining"]);
    }
}
