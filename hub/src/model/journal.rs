//! Journal entries: the only truth about a run, format 1.

use super::call::{Binding, Outcome, Seq};
use super::digest::Digest;
use super::envelope::Envelope;
use super::error::ErrorCode;
use super::policy::{Because, Channel, Choice, Ruling};
use super::run::RunStatus;
use super::time::{LogicalMs, WallMs};
use serde::{Deserialize, Serialize};

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The guest asked for a call.
    Asked {
        /// Its number.
        seq: Seq,
        /// What it is, exactly.
        binding: Binding,
        /// What the checks and the policy said then.
        verdict: Verdict,
    },
    /// The call is about to leave: synced before a write goes out.
    Sent {
        /// Its number.
        seq: Seq,
        /// When.
        wall: WallMs,
    },
    /// The call ended. Entries of this kind, timers and lookups are the deliveries, in order.
    Settled {
        /// Its number.
        seq: Seq,
        /// How.
        outcome: StoredOutcome,
        /// The run's clock at that moment.
        at: LogicalMs,
        /// How long the call took, in milliseconds.
        ms: u64,
        /// Guest compute not accounted for by an earlier entry, in microseconds.
        cost_us: u64,
    },
    /// A timer fired.
    Timer {
        /// Its number, counted in the guest.
        id: u32,
        /// The run's clock at that moment.
        at: LogicalMs,
        /// As in `settled`.
        cost_us: u64,
    },
    /// `hub.search` or `hub.describe` was answered.
    Lookup {
        /// Its number, counted in the guest.
        id: u32,
        /// Digest of what was asked.
        request: Digest,
        /// The text the guest got, or why it got none.
        answer: Result<String, String>,
        /// The run's clock at that moment.
        at: LogicalMs,
        /// As in `settled`.
        cost_us: u64,
    },
    /// A pending call was put to a person.
    Question(Box<Question>),
    /// A person decided.
    Decided {
        /// Every call the answer covers.
        seqs: Vec<Seq>,
        /// The answer.
        choice: Choice,
        /// Where it came from.
        channel: Channel,
        /// When.
        wall: WallMs,
        /// The single-use number of a client's answer.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        nonce: Option<Digest>,
    },
    /// The attempt ended and waits for a person.
    Paused {
        /// The run's clock, which stands still from here.
        at: LogicalMs,
        /// As in `settled`.
        cost_us: u64,
    },
    /// Another attempt began.
    Resumed {
        /// The build that drives it.
        build: String,
        /// When.
        wall: WallMs,
    },
    /// The run is over. Always the last entry.
    Ended {
        /// A final status.
        status: RunStatus,
        /// What every resume of the run returns from here on.
        envelope: Box<Envelope>,
        /// When.
        wall: WallMs,
        /// As in `settled`.
        cost_us: u64,
    },
}

/// What was found when the call was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The policy ruled.
    Ruled(Ruling),
    /// It failed a check that comes before the policy.
    Refused(ErrorCode),
}

/// An outcome, or where it is kept when it is large.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredOutcome {
    /// Here.
    Inline(Outcome),
    /// In the blob of this digest.
    Blob(Digest),
}

/// What a person is asked, exactly as every channel shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The pending call.
    pub seq: Seq,
    /// What an answer is bound to.
    pub binding: Binding,
    /// `<namespace>.<tool>`.
    pub address: String,
    /// The first sentence of what the tool says it does.
    pub says: String,
    /// The arguments, redacted and cut to 4 KB, as pretty JSON.
    pub preview: String,
    /// How many bytes of the arguments `preview` leaves out.
    pub hidden_bytes: u64,
    /// Why it asks.
    pub because: Vec<Because>,
    /// For a changed contract: what changed, a line each.
    pub changes: Vec<String>,
    /// When it was first published.
    pub asked: WallMs,
    /// When it expires.
    pub expires: WallMs,
    /// The line of the program the call was made on, as far as the code itself tells; from 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<u32>,
}
