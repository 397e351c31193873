//! What crosses between the engine and the guest: one delivery in, what the guest asked for out.

use super::call::Seq;
use super::time::LogicalMs;
use serde::{Deserialize, Serialize};

/// Code that is ready to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// Body of an async function. Its first line is the hub's own; the code as given starts on the
    /// second.
    pub body: String,
    /// One line per rewrite, so that the model learns what changed.
    pub notices: Vec<String>,
}

/// Everything a guest needs to begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Body of an async function, JavaScript; the code as given starts on its second line.
    pub body: String,
    /// Seed of every random value.
    pub seed: [u8; 32],
    /// The run's clock at its start.
    pub started: LogicalMs,
    /// Source objects: namespace and its tools' names, in order.
    pub sources: Vec<(String, Vec<String>)>,
    /// Bytes of guest heap.
    pub memory_bytes: u64,
    /// Bytes one call's arguments or the result may have as JSON.
    pub value_bytes_max: u64,
}

/// The one thing a step delivers to the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delivery {
    /// Start the program.
    Start,
    /// A call ended.
    Call {
        /// Which.
        seq: Seq,
        /// How.
        answer: Answer,
    },
    /// A timer fired.
    Timer {
        /// Which.
        id: u32,
    },
    /// A lookup was answered.
    Lookup {
        /// Which.
        id: u32,
        /// The text, or an error message.
        answer: Result<String, String>,
    },
}

/// An outcome in the guest's form: JSON text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// A value as JSON.
    Json(String),
    /// JSON text whose exact spelling `hub.text` gives back.
    Text(String),
    /// The members of a `ToolError`, as a JSON object.
    Error(String),
}

/// One step: a delivery, the run's clock and how long the guest may compute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// What happened.
    pub delivery: Delivery,
    /// The run's clock during the whole step.
    pub at: LogicalMs,
    /// Microseconds of compute the step may take.
    pub budget_us: u64,
}

/// What one step asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Yielded {
    /// Calls, in the order the guest made them.
    pub calls: Vec<GuestCall>,
    /// Timers set in this step and still wanted at its end.
    pub timers: Vec<GuestTimer>,
    /// Timers cleared in this step that an earlier step had set.
    pub cleared: Vec<u32>,
    /// Lookups, in order.
    pub lookups: Vec<GuestLookup>,
    /// Console lines.
    pub logs: Vec<String>,
    /// Console lines dropped because there were too many bytes.
    pub logs_dropped: u64,
    /// Set by the step in which the program's own promise settled.
    pub end: Option<GuestEnd>,
    /// Compute the step took, in microseconds.
    pub cost_us: u64,
}

/// One call as the guest made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestCall {
    /// Its number.
    pub seq: Seq,
    /// The source object it was made on.
    pub namespace: String,
    /// The function.
    pub tool: String,
    /// The first argument as JSON; an absent one is `{}`.
    pub arguments: String,
    /// The `connection` option.
    pub connection: Option<String>,
    /// The line it was made on, counted from the code's own first; what the guest says, so a hint only.
    pub line: Option<u32>,
}

/// One timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestTimer {
    /// Its number.
    pub id: u32,
    /// Milliseconds from the step's clock.
    pub delay_ms: u64,
}

/// `hub.search` or `hub.describe`, with its arguments as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestLookup {
    /// Its number.
    pub id: u32,
    /// Which of the two.
    pub kind: LookupKind,
    /// The argument object.
    pub arguments: String,
}

/// The two lookups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LookupKind {
    /// `hub.search`.
    Search,
    /// `hub.describe`.
    Describe,
}

/// How the program's own promise settled, or why the guest can go no further.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuestEnd {
    /// It returned; the value as JSON, nothing for `undefined`.
    Returned(Option<String>),
    /// It threw.
    Threw {
        /// Name, message and the code's own stack lines.
        message: String,
        /// A better hint than the general one, where the prelude knows one.
        hint: Option<String>,
    },
    /// The returned value cannot be written as JSON.
    NotJson(String),
    /// The engine's compiler refused it; the parser before it had not.
    Syntax(String),
    /// A limit was reached.
    Limit(GuestLimit),
}

/// Limits that end a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuestLimit {
    /// The step's compute budget.
    Compute,
    /// The heap.
    Memory,
    /// Timers or lookups.
    Requests,
    /// Calls asked for in one step, far over what a run may have.
    Calls,
}
