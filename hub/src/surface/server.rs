//! Answers MCP requests: `initialize`, `server/discover`, `tools/list` and three tools.
#![expect(clippy::disallowed_methods, reason = "watches for a cancelled request beside it")]

use super::http::Principal;
use super::words::{definitions, instructions};
use crate::core::engine::StopBy;
use crate::driver::{Code, Hub, Reply, Request, StopSignal};
use crate::model::digest::Digest;
use crate::model::envelope::{Envelope, EnvelopeStatus};
use crate::model::error::{ErrorCode, Failure};
use crate::model::ids::RunId;
use crate::model::json::canonical;
use crate::model::policy::Choice;
use crate::ports::Ports;
use crate::ports::person::{Client, ClientResponse, Prompt};
use futures::FutureExt as _;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock,
    DiscoverResult, ElicitRequest, ElicitRequestParams, ErrorData, Implementation,
    InitializeRequestParams, InitializeResult, InputRequest, InputRequests, InputRequiredResult,
    ListToolsResult, MetaObject, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Where results say who made them.
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";
/// Who calls over standard streams: whoever may start this hub at all. No token has a name that begins like
/// what those over HTTP are called.
const OWN_PRINCIPAL: &str = "hub";
const TOKEN_PRINCIPAL: &str = "token ";
/// How long a client may keep the definitions, in milliseconds.
const DEFINITIONS_TTL_MS: u64 = 3_600_000;

/// One hub as an MCP server.
pub struct HubServer<P: Ports> {
    inner: Arc<Inner<P>>,
}

struct Inner<P: Ports> {
    hub: Hub<P>,
    profile: String,
    /// Is each request known by its own token, and not by the stream it comes over?
    over_http: bool,
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
        HubServer::with(hub, profile, closed, false)
    }

    /// A server whose requests come over HTTP, each let in by a token.
    pub(super) fn over_http(hub: Hub<P>, profile: String, closed: Arc<AtomicBool>) -> HubServer<P> {
        HubServer::with(hub, profile, closed, true)
    }

    fn with(
        hub: Hub<P>,
        profile: String,
        closed: Arc<AtomicBool>,
        over_http: bool,
    ) -> HubServer<P> {
        let (tools, inventory) = (definitions(), RwLock::default());
        let inner = Inner { hub, profile, over_http, tools, inventory, closed };
        HubServer { inner: Arc::new(inner) }
    }

    /// Who sent a request. What a client calls itself does not count.
    fn principal(&self, context: &RequestContext<RoleServer>) -> Option<String> {
        if !self.inner.over_http {
            return Some(OWN_PRINCIPAL.to_owned());
        }
        let parts = context.extensions.get::<http::request::Parts>()?;
        let Principal(name) = parts.extensions.get::<Principal>()?;
        Some(format!("{TOKEN_PRINCIPAL}{name}"))
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
        request: Request,
        client: &Client,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResponse {
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
        let shows_forms = shows_forms(context);
        let reply = self.inner.hub.answer(request, client, shows_forms, signal).await;
        watching.abort();
        match reply {
            Ok(Reply::Envelope(envelope)) => enveloped(&envelope).into(),
            Ok(Reply::Prompt(prompt)) => match input_required(prompt) {
                Ok(asks) => asks,
                Err(error) => {
                    tracing::error!(%error, "a prompt could not be written");
                    failed(&Failure::new(ErrorCode::Bug, "the hub failed while it asked")).into()
                }
            },
            Err(failure) => failed(&failure).into(),
        }
    }

    /// What `execute` is asked to do. Whatever answers a question never begins a run.
    fn read(
        &self,
        request: &mut CallToolRequestParams,
        arguments: &Value,
    ) -> Result<Request, Failure> {
        let responses = request.input_responses.take();
        let state = request.request_state.take();
        if state.is_some() || responses.is_some() {
            let responses = responses.map(BTreeMap::from_iter).unwrap_or_default();
            return Ok(Request::Answer(ClientResponse { state, responses }));
        }
        Ok(match ExecuteRequest::read(arguments)? {
            ExecuteRequest::Code(text) => {
                Request::Code(Code { text, profile: self.inner.profile.clone() })
            }
            ExecuteRequest::Resume(run) => Request::Resume(run),
        })
    }
}

/// Can this client put a form to its person, and take a question instead of an answer? Said anew with
/// every request.
fn shows_forms(context: &RequestContext<RoleServer>) -> bool {
    let modern = context.protocol_version().is_some_and(|version| !version.has_initialize());
    let forms = context
        .client_capabilities()
        .and_then(|capabilities| capabilities.elicitation)
        .is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none());
    modern && forms
}

/// Questions in the protocol's words.
fn input_required(prompt: Prompt) -> Result<CallToolResponse, String> {
    let mut requests = InputRequests::new();
    for (key, form) in prompt.forms {
        let choices: Vec<Value> = form.choices.into_iter().map(choice_option).collect();
        let schema = json!({
            "type": "object",
            "properties": {
                "decision": { "type": "string", "title": "Decision", "oneOf": choices }
            },
            "required": ["decision"]
        });
        let schema = serde_json::from_value(schema).map_err(|error| error.to_string())?;
        let params = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: form.message,
            requested_schema: schema,
        };
        requests.insert(key, InputRequest::Elicitation(ElicitRequest::new(params)));
    }
    let asks = InputRequiredResult::new(Some(requests), Some(prompt.state));
    Ok(CallToolResponse::InputRequired(asks))
}

/// A choice as an option of a form.
fn choice_option(choice: Choice) -> Value {
    let (value, title) = match choice {
        Choice::Deny => ("deny", "Deny"),
        Choice::Once => ("once", "Allow once"),
        Choice::Run => ("run", "Allow for this run"),
        Choice::Always => ("always", "Always allow"),
    };
    json!({ "const": value, "title": title })
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
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.take().unwrap_or_default());
        let client = Client {
            principal: self.principal(&context).ok_or_else(|| {
                tracing::error!("a request came in without a token");
                ErrorData::internal_error("the hub does not know who asks", None)
            })?,
            request: Digest::of(canonical(&arguments).as_bytes()),
        };
        let answer = async {
            match request.name.clone().as_ref() {
                "search" => Ok(text(self.inner.hub.search(&arguments).await).into()),
                "describe" => Ok(text(self.inner.hub.describe(&arguments).await).into()),
                "execute" => Ok(match self.read(&mut request, &arguments) {
                    Ok(wanted) => self.execute(wanted, &client, &context).await,
                    Err(failure) => failed(&failure).into(),
                }),
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
            Ok(failed(&Failure::new(ErrorCode::Bug, "the hub failed while it answered")).into())
        })?;
        if let CallToolResponse::Complete(result) = &mut result {
            signed(&mut result.meta);
        } else if let CallToolResponse::InputRequired(result) = &mut result {
            signed(&mut result.meta);
        }
        Ok(result)
    }
}
