//! One tool call: what the guest asked for, and how it ended.

use super::digest::Digest;
use super::error::ErrorCode;
use super::names::{ConnectionName, ToolRef};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Number of a call within its run, counted in the guest from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u32);

impl std::fmt::Display for Seq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "c{}", self.0)
    }
}

/// What a decision is bound to. If any part differs, the decision is void.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Binding {
    /// Which tool, by source id and raw name.
    pub tool: ToolRef,
    /// Which connection, as resolved.
    pub connection: Option<ConnectionName>,
    /// What the tool claimed to be.
    pub contract: Digest,
    /// SHA-256 of the exact argument bytes.
    pub arguments: Digest,
}

/// How one call ended, as the guest will see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A value.
    Value(Value),
    /// Text that is itself a JSON object or array: the guest gets the value, `hub.text` the text.
    ParsedText(String),
    /// An error.
    Failed(ToolFailure),
}

impl Outcome {
    /// Did the call succeed?
    #[must_use]
    pub fn is_ok(&self) -> bool {
        match self {
            Outcome::Value(_) | Outcome::ParsedText(_) => true,
            Outcome::Failed(_) => false,
        }
    }
}

/// An expected tool failure: what `ToolError` is made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolFailure {
    /// Stable code.
    pub code: ErrorCode,
    /// One sentence; the upstream's own words, scrubbed, for `upstream_error`.
    pub message: String,
    /// Status or JSON-RPC code the upstream gave.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<i64>,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hint: Option<String>,
    /// May the same call be tried again as it is?
    pub retryable: bool,
    /// Structured content that came with the error.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<Value>,
    /// The few response headers that code may see, by lower-case name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub headers: BTreeMap<String, String>,
}

impl ToolFailure {
    /// A failure that is not worth repeating, with its code's own hint.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> ToolFailure {
        ToolFailure {
            code,
            message: message.into(),
            status: None,
            hint: Some(code.hint().to_owned()),
            retryable: false,
            detail: None,
            headers: BTreeMap::new(),
        }
    }

    /// The same failure, worth repeating.
    #[must_use]
    pub fn retryable(mut self) -> ToolFailure {
        self.retryable = true;
        self
    }

    /// The same failure with a better hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> ToolFailure {
        self.hint = Some(hint.into());
        self
    }
}

impl From<ToolFailure> for Outcome {
    fn from(failure: ToolFailure) -> Outcome {
        Outcome::Failed(failure)
    }
}

/// What an upstream answered, before it becomes an outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamResult {
    /// Content blocks, in order.
    pub blocks: Vec<Block>,
    /// Structured content, if any came.
    pub structured: Option<Value>,
    /// Did the tool say that it failed?
    pub is_error: bool,
}

/// One content block.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Text.
    Text(String),
    /// An image, audio, a resource or a link: kept elsewhere, handed on as a handle.
    Media {
        /// The block's own type.
        kind: String,
        /// Its media type, if it says.
        mime_type: Option<String>,
        /// What is kept: base64 data, text or an address.
        data: String,
    },
}
