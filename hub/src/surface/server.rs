//! Answers MCP requests: `initialize`, `server/discover`, `tools/list` and three tools.
#![expect(clippy::disallowed_methods, reason = "watches for a cancelled request beside it")]

use super::words::{definitions, instructions};
use crate::core::engine::StopBy;
use crate::driver::{Code, Hub, StopSignal};
use crate::model::envelope::{Envelope, EnvelopeStatus};
use crate::model::error::{ErrorCode, Failure};
use crate::model::ids::RunId;
use crate::ports::Ports;
use futures::FutureExt as _;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock,
    DiscoverResult, ErrorData, Implementation, InitializeRequestParams, InitializeResult,
    ListToolsResult, MetaObject, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Where results say who made them.
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";
/// How long a client may keep the definitions, in milliseconds.
const DEFINITIONS_TTL_MS: u64 = 3_600_000;

/// One hub as an MCP server.
pub struct HubServer<P: Ports> {
    inner: Arc<Inner<P>>,
}

struct Inner<P: Ports> {
    hub: Hub<P>,
    profile: String,
    tools: Vec<Tool>,
    /// The inventory of the moment the client connected.
    inventory: RwLock<String>,
    /// Set once the client's end of the connection is closed.
    closed: Arc<AtomicBool>,
}

impl<P: Ports> Clone for HubServer<P> {
    fn clone(&self) -> Self {
        HubServer { inner: Arc::clone(&self.inner) }
    }
}

impl<P: Ports> HubServer<P> {
    /// A server over `hub`. `closed` says that the client hung up, which cancels nothing.
    #[must_use]
    pub fn new(hub: Hub<P>, profile: String, closed: Arc<AtomicBool>) -> HubServer<P> {
        let inner =
            Inner { hub, profile, tools: definitions(), inventory: RwLock::default(), closed };
        HubServer { inner: Arc::new(inner) }
    }

    async fn read_inventory(&self) {
        match self.inner.hub.inventory().await {
            Ok(text) => {
                *self.inner.inventory.write().unwrap_or_else(PoisonError::into_inner) = text;
            }
            Err(error) => tracing::warn!(%error, "the inventory could not be read"),
        }
    }

    async fn execute(
        &self,
        arguments: &Value,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResult {
        let request = match ExecuteRequest::read(arguments) {
            Ok(request) => request,
            Err(failure) => return failed(&failure),
        };
        let (raise, signal) = StopSignal::new();
        let cancelled = context.ct.clone();
        let closed = Arc::clone(&self.inner.closed);
        let watching = tokio::spawn(async move {
            cancelled.cancelled().await;
            // A closed connection cancels every request too, and that is no wish of the client's.
            if !closed.load(Ordering::SeqCst) {
                raise.send_replace(Some(StopBy::Client));
            }
        });
        let hub = &self.inner.hub;
        let answer = match request {
            ExecuteRequest::Code(text) => {
                hub.execute(Code { text, profile: self.inner.profile.clone() }, signal).await
            }
            ExecuteRequest::Resume(run) => hub.resume(&run, signal).await,
        };
        watching.abort();
        match answer {
            Ok(envelope) => enveloped(&envelope),
            Err(failure) => failed(&failure),
        }
    }
}

enum ExecuteRequest {
    Code(String),
    Resume(RunId),
}

impl ExecuteRequest {
    fn read(arguments: &Value) -> Result<ExecuteRequest, Failure> {
        let invalid = |what: &str| Err(Failure::new(ErrorCode::InvalidInput, what));
        let members = arguments.as_object();
        if let Some(unknown) =
            members.and_then(|m| m.keys().find(|key| *key != "code" && *key != "resume"))
        {
            let unknown: String = unknown.chars().take(40).flat_map(char::escape_debug).collect();
            return invalid(&format!(
                "there is no field `{unknown}`; `execute` takes `code` or `resume`"
            ));
        }
        let given = |key: &str| members.and_then(|m| m.get(key)).filter(|value| !value.is_null());
        match (given("code"), given("resume")) {
            (Some(Value::String(code)), None) if code.trim().is_empty() => {
                invalid("`code` is empty")
            }
            (Some(Value::String(code)), None) => Ok(ExecuteRequest::Code(code.clone())),
            (None, Some(Value::String(run))) => {
                run.trim().parse().map(ExecuteRequest::Resume).map_err(|_| {
                    Failure::new(
                        ErrorCode::UnknownRun,
                        "`resume` is not a run id; it looks like `run_…`",
                    )
                })
            }
            (Some(_), Some(_)) => invalid("send exactly one of `code` and `resume`"),
            (None, None) => invalid("send `code`, or `resume` with a run id"),
            (Some(_), None) => invalid("`code` must be a string"),
            (None, Some(_)) => invalid("`resume` must be a string"),
        }
    }
}

fn enveloped(envelope: &Envelope) -> CallToolResult {
    let value = serde_json::to_value(envelope).unwrap_or(Value::Null);
    // One compact line of text beside it: some clients show only one of the two.
    let content = vec![ContentBlock::text(value.to_string())];
    let mut result = if envelope.status == EnvelopeStatus::Failed {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    result.structured_content = Some(value);
    result
}

fn failed(failure: &Failure) -> CallToolResult {
    let hint = failure.hint.as_deref().map(|hint| format!("\n{hint}")).unwrap_or_default();
    CallToolResult::error(vec![ContentBlock::text(format!("{failure}{hint}"))])
}

fn text(answer: Result<String, Failure>) -> CallToolResult {
    match answer {
        Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
        Err(failure) => failed(&failure),
    }
}

fn identity() -> Implementation {
    Implementation::new("capabilities", env!("CARGO_PKG_VERSION")).with_title("Capabilities")
}

fn signed(meta: &mut Option<MetaObject>) {
    if let Ok(identity) = serde_json::to_value(identity()) {
        meta.get_or_insert_default().insert(SERVER_INFO_KEY.to_owned(), identity);
    }
}

impl<P: Ports> ServerHandler for HubServer<P> {
    fn get_info(&self) -> ServerConfig {
        let inventory = self.inner.inventory.read().unwrap_or_else(PoisonError::into_inner);
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(identity())
            .with_instructions(instructions(&inventory))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.read_inventory().await;
        // The client is answered first; its first request then finds most of the work done.
        let hub = self.inner.hub.clone();
        tokio::spawn(async move { hub.warm_up().await });
        self.negotiate_initialize(&request)
    }

    async fn discover(
        &self,
        _context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        self.read_inventory().await;
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info())
            .with_ttl_ms(DEFINITIONS_TTL_MS)
            .with_cache_scope(CacheScope::Private))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut result = ListToolsResult::with_all_items(self.inner.tools.clone())
            .with_ttl_ms(DEFINITIONS_TTL_MS)
            .with_cache_scope(CacheScope::Private);
        signed(&mut result.meta);
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.inner.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let answer = async {
            match request.name.as_ref() {
                "search" => Ok(text(self.inner.hub.search(&arguments).await)),
                "describe" => Ok(text(self.inner.hub.describe(&arguments).await)),
                "execute" => Ok(self.execute(&arguments, &context).await),
                other => {
                    let other: String =
                        other.chars().take(60).flat_map(char::escape_debug).collect();
                    let message = format!(
                        "there is no tool `{other}`; this server has search, describe and execute"
                    );
                    Err(ErrorData::invalid_params(message, None))
                }
            }
        };
        // A panic must still answer the request: the client would wait for ever.
        let answer = std::panic::AssertUnwindSafe(answer).catch_unwind().await;
        let mut result = answer.unwrap_or_else(|_| {
            tracing::error!("a request handler panicked");
            Ok(failed(&Failure::new(ErrorCode::Bug, "the hub failed while it answered")))
        })?;
        signed(&mut result.meta);
        Ok(result.into())
    }
}
