//! Upstream servers: made ready, listed, called, closed.

use crate::model::call::UpstreamResult;
use crate::model::contract::Contract;
use crate::model::names::RawToolName;
use crate::model::source::SourceRecord;
use crate::model::time::{Tick, WallMs};
use serde_json::Value;
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
        source: &SourceRecord,
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
        source: &SourceRecord,
        call: &UpstreamCall,
    ) -> impl Future<Output = Result<UpstreamResult, CallError>> + Send;

    /// Ends the connection of a source, if there is one.
    fn close(&self, source: &crate::model::ids::SourceId) -> impl Future<Output = ()> + Send;

    /// Ends every connection.
    fn close_all(&self) -> impl Future<Output = ()> + Send;
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
    /// The listing by which it was allowed; a source that has another by then sends nothing.
    pub listing: u64,
    /// Milliseconds it may take without progress.
    pub timeout_ms: u64,
    /// When it must be over, whatever progress there is.
    pub deadline: Tick,
    /// Bytes its result may have.
    pub result_bytes_max: u64,
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
    /// It happened, and the result is too large to use.
    #[error("the result has {bytes} bytes; at most {bytes_max} are allowed")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// What is allowed.
        bytes_max: u64,
    },
    /// Sent, and no answer came. It may or may not have happened; never sent again.
    #[error("{0}")]
    Lost(String),
}
