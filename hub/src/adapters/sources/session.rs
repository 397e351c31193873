//! One connection to one server: opened, listed, called, closed.
#![expect(clippy::disallowed_methods, reason = "deadlines around a protocol library that has none")]

use super::child::{Scrub, ServerProcess};
use super::result::{Pages, call_result};
use super::transport::Lines;
use crate::model::call::UpstreamResult;
use crate::model::digest::Digest;
use crate::model::source::StdioCommand;
use crate::ports::sources::{CallError, Listing, UpstreamCall};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
    Implementation, ListToolsRequest, PaginatedRequestParams, ProtocolVersion, ServerResult,
};
use rmcp::service::{
    NotificationContext, Peer, PeerRequestOptions, RoleClient, RunningService, ServiceError,
};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Pages of one listing.
const PAGES_MAX: usize = 1_000;

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

/// An open connection.
pub(super) struct Session {
    service: RunningService<RoleClient, HubClient>,
    changes: Arc<AtomicU64>,
    /// Changes announced before the listing began; more since make it stale.
    listed_at: u64,
    process: ServerProcess,
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
    ) -> Result<Session, String> {
        let modern = ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        };
        let mut first = None;
        for mode in [ClientLifecycleMode::Initialize, modern] {
            let (mut process, stdin, stdout) =
                ServerProcess::start(command, environment.to_vec(), scrub.clone())
                    .map_err(|error| format!("the command could not be started: {error}"))?;
            let client = HubClient::default();
            let changes = Arc::clone(&client.changes);
            let lines = Lines::new(stdout, stdin, Arc::new(AtomicU64::new(0)));
            match tokio::time::timeout(within, client.serve_with_lifecycle(lines, mode)).await {
                Ok(Ok(service)) => {
                    return Ok(Session {
                        service,
                        changes,
                        listed_at: 0,
                        process,
                        transport,
                        listing: None,
                    });
                }
                Ok(Err(error)) => {
                    let refused =
                        matches!(error, rmcp::service::ClientInitializeError::JsonRpcError(_));
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

    pub(super) fn is_open(&self) -> bool {
        !self.service.peer().is_transport_closed()
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

    pub(super) fn peer(&self) -> Peer<RoleClient> {
        self.service.peer().clone()
    }

    /// Reads every page of the server's tools.
    pub(super) async fn list(&self, within: Duration) -> Result<Pages, String> {
        let listed = tokio::time::timeout(within, self.list_pages()).await;
        listed.unwrap_or_else(|_| {
            Err(format!("the server did not list its tools within {} s", within.as_secs()))
        })
    }

    async fn list_pages(&self) -> Result<Pages, String> {
        let mut pages = Pages::default();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let params =
                cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let request =
                ClientRequest::ListToolsRequest(ListToolsRequest { params, ..Default::default() });
            let answer = self.service.peer().send_request(request).await;
            let page = match answer {
                Ok(answer) => raw(answer).ok_or("its tool list could not be read")?,
                // A server without tools may not know the method.
                Err(ServiceError::McpError(error)) if error.code.0 == -32601 => return Ok(pages),
                Err(error) => return Err(format!("its tools could not be listed: {error}")),
            };
            cursor = pages.take(&page)?;
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
                (server.unwrap_or_default(), info.protocol_version.to_string())
            }
            None => (String::new(), String::new()),
        }
    }

    /// Closes the connection and ends the process.
    pub(super) async fn close(self) {
        let _ = self.service.cancel().await;
        self.process.stop().await;
    }

    /// How the process ended, and its last words.
    pub(super) async fn obituary(&mut self) -> String {
        self.process.obituary().await
    }
}

/// Sends one call, once. The peer is a clone: nobody waits for a lock while a call is out.
pub(super) async fn call(
    peer: &Peer<RoleClient>,
    call: &UpstreamCall,
    within: Duration,
) -> Result<UpstreamResult, CallError> {
    if peer.is_transport_closed() {
        return Err(CallError::NotSent("the connection is closed".to_owned()));
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
    let answer = match peer.send_request_with_option(request, options).await {
        Ok(handle) => handle.await_response().await,
        Err(error) => Err(error),
    };
    let answer = match answer {
        Ok(answer) => {
            raw(answer).ok_or_else(|| CallError::Lost("the answer could not be read".to_owned()))?
        }
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
    call_result(answer).map_err(CallError::Lost)
}

/// The result as it came: the transport wrapped it in a list, which no typed result is.
fn raw(answer: ServerResult) -> Option<Value> {
    let value = if let ServerResult::CustomResult(custom) = answer {
        custom.0
    } else {
        serde_json::to_value(answer).ok()?
    };
    let Value::Array(mut wrapped) = value else { return None };
    wrapped.pop().filter(|_| wrapped.is_empty())
}
