//! Upstream servers: made ready, listed, called, closed.

use crate::model::call::UpstreamResult;
use crate::model::connection::UsedConnection;
use crate::model::contract::Contract;
use crate::model::digest::Digest;
use crate::model::ids::SourceId;
use crate::model::json::DEPTH_MAX;
use crate::model::names::RawToolName;
use crate::model::source::SourceRecord;
use crate::model::time::{Tick, WallMs};
use crate::ports::secrets::SecretsError;
use serde_json::Value;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

/// Every source of the hub, connected when first needed.
pub trait Sources: Send + Sync + 'static {
    /// Makes a source ready and returns its newest listing. A connected source is listed again when its
    /// list has changed since, or when `listed_after` is later than its last listing. Nothing that
    /// changes anything upstream is sent.
    ///
    /// # Errors
    /// `NotSent`: the source cannot be had at this moment.
    fn dial(
        &self,
        route: &Route,
        listed_after: Option<WallMs>,
        deadline: Tick,
    ) -> impl Future<Output = Result<Arc<Listing>, CallError>> + Send;

    /// Sends one call to a source that was dialled, and waits for its answer. Sends at most once, and
    /// sends nothing if the source is not connected.
    ///
    /// # Errors
    /// What is known about whether it happened.
    fn call(
        &self,
        route: &Route,
        call: &UpstreamCall,
    ) -> impl Future<Output = Result<UpstreamResult, CallError>> + Send;

    /// Ends everything that is open to a source.
    fn close(&self, source: &SourceId) -> impl Future<Output = ()> + Send;

    /// Ends every connection.
    fn close_all(&self) -> impl Future<Output = ()> + Send;
}

/// One source, over one of its connections or without one: what is dialled and called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The source.
    pub record: SourceRecord,
    /// Whose credentials are used.
    pub connection: Option<UsedConnection>,
}

impl Route {
    /// Everything that an open connection depends on: with another digest it is not the one wanted.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let transport = self.record.transport.digest();
        match &self.connection {
            None => transport,
            Some(connection) => {
                Digest::of(format!("{transport} {}", connection.digest()).as_bytes())
            }
        }
    }
}

/// What a source offers at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// Grows with every listing of this process, so that one is taken in only once.
    pub number: u64,
    /// When it was read.
    pub listed: WallMs,
    /// Who the server says it is.
    pub server: String,
    /// The protocol version spoken.
    pub protocol: String,
    /// Its tools, in its order; a name occurs once.
    pub tools: Vec<Contract>,
    /// What was dropped and why, a line each.
    pub notices: Vec<String>,
}

/// One call as it leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamCall {
    /// The tool.
    pub raw: RawToolName,
    /// The exact arguments, keys sorted.
    pub arguments: Value,
    /// The listing by which it was allowed.
    pub listing: u64,
    /// What the tool claimed to be in it. A source by whose newest listing it claims something else, or
    /// is gone, sends nothing.
    pub contract: Digest,
    /// Milliseconds it may take without progress.
    pub timeout_ms: u64,
    /// When it must be over, whatever progress there is.
    pub deadline: Tick,
    /// Bytes its result may have.
    pub result_bytes_max: u64,
    /// Is it a reviewed read? Only that may be sent once more, and only after a refusal that says so.
    pub repeatable: bool,
}

/// Why a call has no result, by what that means for whoever made it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nothing was sent. Safe to try again.
    #[error("{0}")]
    NotSent(String),
    /// The upstream answered and said no. Final.
    #[error("{message}")]
    Refused {
        /// Its JSON-RPC code.
        code: i64,
        /// Its words.
        message: String,
    },
    /// Nothing was sent: the credential that it needs cannot be had.
    #[error("{0}")]
    Credential(SecretsError),
    /// A server over HTTP answered with an error status.
    #[error("{0}")]
    Status(Box<HttpRefusal>),
    /// It happened, and the result is too large to use.
    #[error("the result has {bytes} bytes; at most {bytes_max} are allowed")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// What is allowed.
        bytes_max: u64,
    },
    /// It happened, and the result is nested too deep to use.
    #[error("the result is nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// Sent, and no answer came. It may or may not have happened; never sent again.
    #[error("{0}")]
    Lost(String),
}

/// An error status, and what came with it that may be known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRefusal {
    /// The status.
    pub status: u16,
    /// The server's words, if it had any that a person can read.
    pub message: String,
    /// Milliseconds after which the server wants to be asked again.
    pub retry_after_ms: Option<u64>,
    /// The few headers that code may see, by lower-case name.
    pub headers: BTreeMap<String, String>,
}

impl HttpRefusal {
    /// May the call have happened all the same? Statuses below 500 say that it was refused, and so does
    /// 501 (no such thing here). 503 does if it says when to come back: without that it is what proxies
    /// and frameworks answer when whoever was at work took too long or broke off.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        match self.status {
            501 => false,
            503 => self.retry_after_ms.is_none(),
            status => status >= 500,
        }
    }
}

impl std::fmt::Display for HttpRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let meaning = match self.status {
            401 => " (it wants credentials)",
            403 => " (forbidden)",
            404 => " (not found)",
            405 => " (method not allowed)",
            408 | 504 => " (timed out)",
            429 => " (too many requests)",
            500 => " (it failed)",
            502 => " (what is behind it did not answer)",
            503 => " (not available at the moment)",
            _ => "",
        };
        write!(f, "the server answered with status {}{meaning}", self.status)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        match self.retry_after_ms {
            Some(ms) => write!(f, "; it asks to wait {} s", ms.div_ceil(1000)),
            None => Ok(()),
        }
    }
}
