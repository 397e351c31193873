//! One connection to one server: opened, listed, called, closed.
#![expect(clippy::disallowed_methods, reason = "deadlines around a protocol library that has none")]

use super::child::{Scrub, ServerProcess};
use super::http::{Failure, Link, Server, WallNow, Wire};
use super::keeper::Keeper;
use super::raw::unwrapped;
use super::result::{Pages, call_result};
use super::transport::Lines;
use crate::model::call::UpstreamResult;
use crate::model::digest::Digest;
use crate::model::source::StdioCommand;
use crate::model::visible::one_line;
use crate::ports::sources::{CallError, Listing, UpstreamCall};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
    ClientCapabilities, ClientConfig, ClientRequest, Implementation, ListToolsRequest,
    PaginatedRequestParams, ProtocolVersion, RequestId, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, Peer, PeerRequestOptions, RoleClient,
    RunningService, ServiceError,
};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Pages of one listing.
const PAGES_MAX: usize = 1_000;
/// Characters of a server's name and of its protocol's that are kept.
const IDENTITY_MAX: usize = 200;
/// How long a server over HTTP may take to begin; it has no program to start first.
const HTTP_BEGIN_WITHIN: Duration = Duration::from_secs(30);

/// How long a call that is over may take to be taken back: a server that reads nothing hears of it never.
const TAKEN_BACK_WITHIN: Duration = Duration::from_millis(500);

/// The hub as a client: it offers servers nothing, and notes when their tools change.
#[derive(Debug, Clone, Default)]
pub(super) struct HubClient {
    changes: Arc<AtomicU64>,
}

impl ClientHandler for HubClient {
    fn get_info(&self) -> ClientConfig {
        let identity = Implementation::new("capabilities", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), identity)
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

/// The far side of a connection.
enum Far {
    /// A program that was started for it.
    Process(Box<ServerProcess>),
    /// A server over HTTP.
    Http(Link),
}

/// An open connection.
pub(super) struct Session {
    service: RunningService<RoleClient, HubClient>,
    changes: Arc<AtomicU64>,
    /// Changes announced before the listing began; more since make it stale.
    listed_at: u64,
    far: Far,
    /// For what is cut of the server's own words.
    scrub: Scrub,
    /// What was agreed to when it was opened.
    pub(super) transport: Digest,
    pub(super) listing: Option<Arc<Listing>>,
}

impl Session {
    /// Starts the command and shakes hands: as older servers want it first, since all of them answer
    /// that, and as stateless servers want it if that is refused.
    pub(super) async fn open(
        command: &StdioCommand,
        environment: &[(String, String)],
        transport: Digest,
        within: Duration,
        scrub: &Scrub,
        keeper: &Keeper,
    ) -> Result<Session, String> {
        let modern = ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        };
        // Both ways together may take as long as whoever calls has time.
        let until = tokio::time::Instant::now() + within;
        let mut first = None;
        for mode in [ClientLifecycleMode::Initialize, modern] {
            let (mut process, stdin, stdout) =
                ServerProcess::start(command, environment.to_vec(), scrub.clone(), keeper)
                    .map_err(|error| format!("the command could not be started: {error}"))?;
            let client = HubClient::default();
            let changes = Arc::clone(&client.changes);
            let lines = Lines::new(stdout, stdin, Arc::default(), scrub.clone());
            match tokio::time::timeout_at(until, client.serve_with_lifecycle(lines, mode)).await {
                Ok(Ok(service)) => {
                    return Ok(Session {
                        service,
                        changes,
                        listed_at: 0,
                        far: Far::Process(Box::new(process)),
                        scrub: scrub.clone(),
                        transport,
                        listing: None,
                    });
                }
                Ok(Err(error)) => {
                    let refused = matches!(error, ClientInitializeError::JsonRpcError(_));
                    let why = if refused {
                        format!("the server refused to begin: {error}")
                    } else {
                        process.obituary().await
                    };
                    if !refused {
                        return Err(first.unwrap_or(why));
                    }
                    first.get_or_insert(why);
                }
                Err(_) => {
                    let seconds = within.as_secs();
                    return Err(format!(
                        "the server did not answer within {seconds} s; {}",
                        process.obituary().await
                    ));
                }
            }
        }
        Err(first.unwrap_or_else(|| "the server could not be reached".to_owned()))
    }

    /// Shakes hands with a server over HTTP: streamable as most want it, streamable as stateless servers
    /// want it, and the older way where the server says that it does not know the first (`older` starts
    /// there). `Ok` says whether that was the way.
    pub(super) async fn open_http(
        server: Server,
        transport: Digest,
        within: Duration,
        older: bool,
        now: WallNow,
    ) -> Result<(Session, bool), CallError> {
        let within = within.min(HTTP_BEGIN_WITHIN);
        let opening = Session::open_http_somehow(server, transport, older, now);
        tokio::time::timeout(within, opening).await.unwrap_or_else(|_| {
            let seconds = within.as_secs();
            Err(CallError::NotSent(format!("the server did not answer within {seconds} s")))
        })
    }

    async fn open_http_somehow(
        server: Server,
        transport: Digest,
        older: bool,
        now: WallNow,
    ) -> Result<(Session, bool), CallError> {
        let open_older = async |server, now| match Wire::older(server, now).await {
            Ok((wire, link)) => {
                Session::shake(wire, link, transport, ClientLifecycleMode::Initialize).await
            }
            Err(failure) => Err(Refused { failure: Some(failure), words: String::new() }),
        };
        if older {
            return match open_older(server, now).await {
                Ok(session) => Ok((session, true)),
                Err(refused) => Err(refused.into()),
            };
        }
        let modern = ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        };
        let (wire, link) = Wire::streamable(server.clone(), Arc::clone(&now));
        let first =
            match Session::shake(wire, link, transport, ClientLifecycleMode::Initialize).await {
                Ok(session) => return Ok((session, false)),
                Err(first) => first,
            };
        let mismatch = first.failure.as_ref().is_some_and(Failure::is_mismatch);
        if first.failure.is_none() || mismatch {
            let (wire, link) = Wire::streamable(server.clone(), Arc::clone(&now));
            if let Ok(session) = Session::shake(wire, link, transport, modern).await {
                return Ok((session, false));
            }
        }
        if mismatch && let Ok(session) = open_older(server, now).await {
            return Ok((session, true));
        }
        Err(first.into())
    }

    async fn shake(
        wire: Wire,
        link: Link,
        transport: Digest,
        mode: ClientLifecycleMode,
    ) -> Result<Session, Refused> {
        let client = HubClient::default();
        let changes = Arc::clone(&client.changes);
        let scrub = link.scrub();
        match client.serve_with_lifecycle(wire, mode).await {
            Ok(service) => Ok(Session {
                service,
                changes,
                listed_at: 0,
                far: Far::Http(link),
                scrub,
                transport,
                listing: None,
            }),
            Err(error) => {
                let failure = link.take_any_failure();
                Err(Refused { failure, words: format!("the server refused to begin: {error}") })
            }
        }
    }

    pub(super) fn is_open(&self) -> bool {
        let lost = match &self.far {
            Far::Process(_) => false,
            Far::Http(link) => link.is_lost(),
        };
        !lost && !self.service.peer().is_transport_closed()
    }

    /// Has the server said that its tools changed since the listing at hand began?
    pub(super) fn has_changed(&self) -> bool {
        self.changes.load(Ordering::SeqCst) != self.listed_at
    }

    /// Keeps a listing that began after `announced` changes.
    pub(super) fn keep(&mut self, listing: Arc<Listing>, announced: u64) {
        self.listed_at = announced;
        self.listing = Some(listing);
    }

    /// How many changes the server has announced.
    pub(super) fn announced(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// What calls need of it.
    pub(super) fn line(&self) -> Line {
        let link = match &self.far {
            Far::Process(_) => None,
            Far::Http(link) => Some(link.clone()),
        };
        Line { peer: self.service.peer().clone(), link }
    }

    /// Reads every page of the server's tools.
    pub(super) async fn list(&self, within: Duration) -> Result<Pages, CallError> {
        let listed = tokio::time::timeout(within, self.list_pages()).await;
        listed.unwrap_or_else(|_| {
            let seconds = within.as_secs();
            Err(CallError::NotSent(format!("the server did not list its tools within {seconds} s")))
        })
    }

    async fn list_pages(&self) -> Result<Pages, CallError> {
        let line = self.line();
        let unusable = |why: String| CallError::NotSent(why);
        let mut pages = Pages::new(self.scrub.clone());
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let params =
                cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let request =
                ClientRequest::ListToolsRequest(ListToolsRequest { params, ..Default::default() });
            let (answer, failure) = line.ask(request, PeerRequestOptions::no_options()).await;
            let page = match (answer, failure) {
                (_, Some(Failure::Lost(why))) => {
                    return Err(unusable(format!("its tools could not be listed: {why}")));
                }
                (_, Some(failure)) => return Err(failure.into()),
                (Ok(answer), None) => unwrapped(answer)
                    .ok_or_else(|| unusable("its tool list could not be read".to_owned()))?,
                // A server without tools may not know the method.
                (Err(ServiceError::McpError(error)), None) if error.code.0 == -32601 => {
                    return Ok(pages);
                }
                (Err(error), None) => {
                    return Err(unusable(format!("its tools could not be listed: {error}")));
                }
            };
            cursor = pages.take(&page).map_err(unusable)?;
            if cursor.is_none() {
                break;
            }
        }
        Ok(pages)
    }

    /// Who the server says it is, and the protocol version spoken.
    pub(super) fn identity(&self) -> (String, String) {
        match self.service.peer().peer_info() {
            Some(info) => {
                let server = info.server_info.as_ref().map(|s| format!("{} {}", s.name, s.version));
                let kept = |text: &str| one_line(&(self.scrub)(text), IDENTITY_MAX);
                (kept(&server.unwrap_or_default()), kept(&info.protocol_version.to_string()))
            }
            None => (String::new(), String::new()),
        }
    }

    /// Closes the connection and ends the process.
    pub(super) async fn close(self) {
        if let Far::Http(link) = &self.far {
            link.end().await;
        }
        let _ = self.service.cancel().await;
        match self.far {
            Far::Process(process) => process.stop().await,
            Far::Http(_) => {}
        }
    }

    /// How the process ended, and its last words; of a server over HTTP there is nothing to say.
    pub(super) async fn obituary(&mut self) -> String {
        match &mut self.far {
            Far::Process(process) => process.obituary().await,
            Far::Http(_) => String::new(),
        }
    }
}

/// Why a server over HTTP did not begin.
struct Refused {
    /// What the hub found; nothing if the server refused in the protocol's own words.
    failure: Option<Failure>,
    words: String,
}

impl From<Refused> for CallError {
    fn from(refused: Refused) -> CallError {
        match refused.failure {
            // Nothing of a call has left when a connection begins.
            Some(Failure::Lost(why)) => CallError::NotSent(why),
            Some(failure) => failure.into(),
            None => CallError::NotSent(refused.words),
        }
    }
}

/// What requests need of an open connection. A clone: nobody waits for a lock while a call is out.
#[derive(Clone)]
pub(super) struct Line {
    peer: Peer<RoleClient>,
    link: Option<Link>,
}

impl Line {
    pub(super) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Has the server forgotten the connection's session?
    pub(super) fn is_lost(&self) -> bool {
        self.link.as_ref().is_some_and(Link::is_lost)
    }

    /// Sends one request, once; what the hub found out about it stands beside the answer.
    async fn ask(
        &self,
        request: ClientRequest,
        options: PeerRequestOptions,
    ) -> (Result<ServerResult, ServiceError>, Option<Failure>) {
        match self.peer.send_request_with_option(request, options).await {
            Ok(handle) => {
                let id = serde_json::to_value(&handle.id).map(|id| id.to_string());
                let mut unheard = Unheard(Some((self.peer.clone(), handle.id.clone())));
                let answer = handle.await_response().await;
                unheard.0 = None;
                let found = self.link.as_ref().zip(id.ok());
                (answer, found.and_then(|(link, id)| link.take_failure(&id)))
            }
            Err(error) => (Err(error), None),
        }
    }
}

/// A request that is out. Whoever drops it waits no longer: it is taken back, so that neither side keeps
/// anything for it.
struct Unheard(Option<(Peer<RoleClient>, RequestId)>);

impl Drop for Unheard {
    fn drop(&mut self) {
        let Some((peer, id)) = self.0.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let params = CancelledNotificationParam::new(Some(id), None);
            let _ = peer.send_notification(CancelledNotification::new(params).into()).await;
        });
    }
}

/// Sends one call, once.
pub(super) async fn call(
    line: &Line,
    call: &UpstreamCall,
    within: Duration,
) -> Result<UpstreamResult, CallError> {
    if line.is_closed() || line.is_lost() {
        return Err(CallError::NotSent("the connection is closed".to_owned()));
    }
    if within.is_zero() {
        return Err(CallError::NotSent("there was no time left for the call".to_owned()));
    }
    let arguments = match &call.arguments {
        Value::Object(members) => members.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            serde_json::Map::new()
        }
    };
    let params = CallToolRequestParams::new(call.raw.as_str().to_owned()).with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let options =
        PeerRequestOptions::with_timeout(Duration::from_millis(call.timeout_ms).min(within))
            .reset_timeout_on_progress()
            .with_max_total_timeout(within);
    let asking = line.ask(request, options);
    let Ok((answer, failure)) = tokio::time::timeout(within + TAKEN_BACK_WITHIN, asking).await
    else {
        return Err(CallError::Lost(
            "no answer came, and the server reads nothing any longer".to_owned(),
        ));
    };
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    let answer = match answer {
        Ok(answer) => unwrapped(answer)
            .ok_or_else(|| CallError::Lost("the answer could not be read".to_owned()))?,
        Err(ServiceError::McpError(error)) => {
            return Err(CallError::Refused {
                code: i64::from(error.code.0),
                message: error.message.into_owned(),
            });
        }
        Err(ServiceError::Timeout { .. }) => {
            return Err(CallError::Lost(format!("no answer within {} ms", call.timeout_ms)));
        }
        Err(ServiceError::TransportClosed) => {
            return Err(CallError::Lost(
                "the connection closed before the answer arrived".to_owned(),
            ));
        }
        Err(error) => return Err(CallError::Lost(error.to_string())),
    };
    let bytes = answer.to_string().len() as u64;
    if bytes > call.result_bytes_max {
        return Err(CallError::TooLarge { bytes, bytes_max: call.result_bytes_max });
    }
    Ok(call_result(answer)?)
}
