//! The socket of the approval page: loopback, this user only, one event for each change.
#![expect(
    clippy::disallowed_methods,
    reason = "connections are tasks of their own, with deadlines of their own"
)]

use super::browser::Browser;
use super::desk::{Desk, Method, Reply, Request};
use super::peer::is_own_user;
use crate::model::digest::Digest;
use crate::model::ids::RunId;
use crate::ports::clock::Clock;
use crate::ports::entropy::Entropy;
use crate::ports::person::{Incoming, Reached, Waiting};
use crate::ports::secrets::Secrets;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderName, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming as Body};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// Bytes a form may have.
const FORM_BYTES_MAX: usize = 16 * 1024;
/// Connections at once.
const CONNECTIONS_MAX: usize = 64;
/// How long a request may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(10);
/// How long an answer is waited for before the page is drawn anew.
const HEARD_WITHIN: Duration = Duration::from_secs(2);
/// How often an event stream shows that it lives.
const STREAM_SIGN_EVERY: Duration = Duration::from_secs(15);
/// Random bytes of a token, a cookie and a path.
const RANDOM_BYTES: usize = 24;

/// The page of one process.
pub(in crate::adapters::person) struct Page<S, C, E> {
    inner: Arc<Inner<S, C, E>>,
    browser: Option<Browser>,
    mark: String,
    /// Held while the page is opened.
    opening: tokio::sync::Mutex<()>,
}

struct Inner<S, C, E> {
    secrets: Arc<S>,
    clock: C,
    entropy: E,
    /// Made with the socket.
    desk: Mutex<Option<Desk>>,
    /// Counts changes of what is shown.
    changes: watch::Sender<u64>,
}

impl<S, C, E> Inner<S, C, E> {
    fn desk(&self) -> MutexGuard<'_, Option<Desk>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, with: impl FnOnce(&mut Desk) -> T) -> Option<T> {
        self.desk().as_mut().map(with)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl<S: Secrets, C: Clock + Clone, E: Entropy + Clone> Page<S, C, E> {
    /// A page that is not served yet.
    pub(in crate::adapters::person) fn new(
        secrets: Arc<S>,
        clock: C,
        entropy: E,
        browser: Option<Browser>,
        mark: String,
    ) -> Self {
        let changes = watch::Sender::new(0);
        let inner = Inner { secrets, clock, entropy, desk: Mutex::default(), changes };
        Page { inner: Arc::new(inner), browser, mark, opening: tokio::sync::Mutex::default() }
    }

    /// Shows a run, and opens the page if it is not open.
    pub(in crate::adapters::person) async fn show(&self, waiting: &Waiting) -> Reached {
        let Some(browser) = &self.browser else { return Reached::Nowhere };
        let _one = self.opening.lock().await;
        let known = self.inner.desk().is_some();
        if !known {
            // Decided already, and never shown here.
            if waiting.questions.is_empty() {
                return Reached::Nowhere;
            }
            if let Err(error) = self.serve().await {
                tracing::warn!(%error, "the approval page cannot be served");
                return Reached::Nowhere;
            }
        }
        let now = self.inner.clock.tick();
        let opens = self.inner.with(|desk| desk.show(waiting, now)).unwrap_or(false);
        self.inner.changed();
        if opens {
            let token = self.inner.random();
            self.inner.secrets.know_value(&token);
            let address = self.inner.with(|desk| desk.offer(token, now)).unwrap_or_default();
            if let Err(error) = browser.open(&address).await {
                tracing::warn!(%error, "the approval page could not be opened");
                self.inner.with(Desk::take_back_offer);
                return Reached::Nowhere;
            }
        }
        match self.inner.with(|desk| desk.is_closed()) {
            Some(false) => Reached::Page,
            Some(true) | None => Reached::Nowhere,
        }
    }

    /// Changes what is shown.
    pub(in crate::adapters::person) fn change(&self, change: impl FnOnce(&mut Desk)) {
        self.inner.with(change);
        self.inner.changed();
    }

    /// The next answer about a run; waits for ever.
    pub(in crate::adapters::person) async fn next(&self, run: &RunId) -> Incoming {
        let mut changes = self.inner.changes.subscribe();
        loop {
            changes.borrow_and_update();
            if let Some(incoming) = self.inner.with(|desk| desk.take(run)).flatten() {
                return incoming;
            }
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    async fn serve(&self) -> std::io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let host = listener.local_addr()?.to_string();
        let segment = self.inner.random();
        // An address is as telling as the page behind it.
        self.inner.secrets.know_surface(&segment);
        *self.inner.desk() = Some(Desk::new(host, &segment, self.mark.clone()));
        tokio::spawn(accept(listener, Arc::clone(&self.inner)));
        Ok(())
    }
}

impl<S: Secrets, C: Clock, E: Entropy> Inner<S, C, E> {
    fn random(&self) -> String {
        let mut bytes = [0; RANDOM_BYTES];
        self.entropy.fill(&mut bytes);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Answers one request.
    async fn answer(self: Arc<Self>, request: http::Request<Body>) -> Response<Answer> {
        let (parts, body) = request.into_parts();
        let text = |name: &HeaderName| text_of(&parts.headers, name);
        let method = match parts.method {
            http::Method::GET => Method::Get,
            http::Method::POST => Method::Post,
            _ => Method::Other,
        };
        let cookies = parts.headers.get_all(header::COOKIE).iter();
        let mut request = Request {
            method,
            target: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            host: text(&header::HOST),
            origin: text(&header::ORIGIN),
            cookies: cookies.filter_map(|value| Some(value.to_str().ok()?.to_owned())).collect(),
            fetch_site: text(&HeaderName::from_static("sec-fetch-site")),
            purpose: text(&HeaderName::from_static("sec-purpose"))
                .or_else(|| text(&HeaderName::from_static("purpose"))),
            content_type: text(&header::CONTENT_TYPE),
            body: Vec::new(),
        };
        if method == Method::Post {
            let read = Limited::new(body, FORM_BYTES_MAX).collect();
            let read = tokio::select! {
                biased;
                read = read => read.ok(),
                () = tokio::time::sleep(ARRIVES_WITHIN) => None,
            };
            // What did not arrive whole is no form.
            request.body = read.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
        }
        let now = self.clock.now();
        let random = || {
            let made = self.random();
            self.secrets.know_value(&made);
            made
        };
        let reply = self.with(|desk| desk.handle(&request, now, random));
        let Some(reply) = reply else { return Response::new(Full::default().boxed()) };
        if method == Method::Post {
            self.changed();
        }
        if let Some((run, form)) = &reply.answered {
            self.heard(run, form).await;
        }
        self.response(reply)
    }

    /// Waits until what a form answered is recorded, so that the page that follows shows it.
    async fn heard(&self, run: &RunId, form: &Digest) {
        let mut changes = self.changes.subscribe();
        let heard = async {
            while !self.with(|desk| desk.is_heard(run, form)).unwrap_or(true) {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = heard => {}
            () = tokio::time::sleep(HEARD_WITHIN) => {}
        }
    }

    fn response(self: Arc<Self>, reply: Reply) -> Response<Answer> {
        let body = if reply.events { self.events() } else { Full::from(reply.body).boxed() };
        let mut response = Response::new(body);
        *response.status_mut() =
            StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in reply.headers {
            if let Ok(value) = value.parse() {
                response.headers_mut().append(name, value);
            }
        }
        response
    }

    /// One event for each change of what is shown, for as long as the other end listens.
    fn events(self: Arc<Self>) -> Answer {
        let now = self.clock.tick();
        self.with(|desk| desk.count_stream(true, now));
        let changes = self.changes.subscribe();
        let stream = Listening { inner: self, changes, told: None };
        StreamBody::new(futures::stream::unfold(stream, |mut stream| async move {
            let text = stream.next().await?;
            Some((Ok(Frame::data(Bytes::from(text))), stream))
        }))
        .boxed()
    }
}

type Answer = BoxBody<Bytes, Infallible>;

/// One event stream; counted while it lives.
struct Listening<S: Secrets, C: Clock, E: Entropy> {
    inner: Arc<Inner<S, C, E>>,
    changes: watch::Receiver<u64>,
    /// The version told last.
    told: Option<u64>,
}

impl<S: Secrets, C: Clock, E: Entropy> Listening<S, C, E> {
    async fn next(&mut self) -> Option<String> {
        loop {
            self.changes.borrow_and_update();
            let version = self.inner.with(|desk| desk.version())?;
            if self.told.replace(version) != Some(version) {
                return Some(format!("data: {version}\n\n"));
            }
            tokio::select! {
                biased;
                changed = self.changes.changed() => changed.ok()?,
                () = tokio::time::sleep(STREAM_SIGN_EVERY) => return Some(": here\n\n".to_owned()),
            }
        }
    }
}

impl<S: Secrets, C: Clock, E: Entropy> Drop for Listening<S, C, E> {
    fn drop(&mut self) {
        let now = self.inner.clock.tick();
        self.inner.with(|desk| desk.count_stream(false, now));
    }
}

fn text_of(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?.to_owned();
    // Said twice is not said.
    values.next().is_none().then_some(value)
}

async fn accept<S: Secrets, C: Clock, E: Entropy>(
    listener: TcpListener,
    inner: Arc<Inner<S, C, E>>,
) {
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&free).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let inner = Arc::clone(&inner);
                tokio::spawn(async move {
                    serve_one(stream, inner).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the approval page cannot take a connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn serve_one<S: Secrets, C: Clock, E: Entropy>(
    stream: TcpStream,
    inner: Arc<Inner<S, C, E>>,
) {
    let (Ok(peer), Ok(own)) = (stream.peer_addr(), stream.local_addr()) else { return };
    if is_own_user(peer, own) == Some(false) {
        tracing::warn!("another user of this machine tried to reach the approval page");
        return;
    }
    let service = service_fn(move |request| {
        let inner = Arc::clone(&inner);
        async move { Ok::<_, Infallible>(inner.answer(request).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(ARRIVES_WITHIN)
        .max_buf_size(FORM_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    // A connection that breaks is the browser's business.
    let _ = served.await;
}
