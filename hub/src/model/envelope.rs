//! What `execute` answers: the shape of the envelope. How it is filled and cut is `core::engine`'s.

use super::error::Failure;
use super::ids::RunId;
use super::time::WallMs;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The answer to one `execute`, `exec` or `call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// Which run.
    pub run_id: RunId,
    /// Where it stands.
    pub status: EnvelopeStatus,
    /// What the code returned; a string of its first bytes when `truncated.result`.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "some_value")]
    pub result: Option<Value>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<Failure>,
    /// Console lines.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub logs: Vec<String>,
    /// The calls it made: the last ones, after one line per tool if there were many.
    pub calls: Vec<CallLine>,
    /// What waits for a person.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub pending: Vec<Pending>,
    /// What was cut.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub truncated: Option<Truncated>,
    /// What the model should learn from this run.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notices: Vec<String>,
}

/// `null` is a result; only a missing member is none.
fn some_value<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Where a run stands, in the model's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvelopeStatus {
    /// Driven elsewhere; ask again.
    Running,
    /// Returned.
    Completed,
    /// Ended with an error.
    Failed,
    /// A person must decide.
    AwaitingApproval,
    /// A person must enter a credential.
    AwaitingConnection,
    /// Ended early.
    Cancelled,
}

/// One call, or several of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallLine {
    /// `<namespace>.<tool>`.
    pub address: String,
    /// Did it, or all of them, succeed?
    pub ok: bool,
    /// Milliseconds it, or all of them together, took.
    pub ms: u64,
    /// How many calls this line stands for, when it is more than one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub count: Option<u64>,
}

/// One thing a person must do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Number of the call within the run.
    pub id: String,
    /// What is needed.
    pub kind: PendingKind,
    /// `<namespace>.<tool>`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
    /// What it would do, on one line.
    pub summary: String,
    /// What to tell the user.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// Until when it waits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires: Option<WallMs>,
}

/// What a pending entry needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PendingKind {
    /// A decision.
    Approval,
    /// A credential.
    Connection,
}

/// What did not fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    /// `result` is only the beginning.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub result: bool,
    /// Log lines were dropped.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub logs: bool,
}
