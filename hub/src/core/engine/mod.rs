//! One attempt of one run: `(now, input) → effects`. Puts policy, approvals and replay together.
//!
//! `guest` takes what a step yielded, `calls` carries each call from asked to settled, `progress`
//! decides what happens next, `ends` pauses and ends, `envelope` fits the answer into its budget.
//! Effects are carried out strictly in order; if an append fails, the effects behind it are dropped and
//! the engine is told, so nothing leaves before the journal says so.

mod calls;
mod ends;
mod envelope;
mod guest;
mod preview;
mod progress;

pub use envelope::{Asked, pending_envelope, running_envelope};
pub use preview::preview;

use super::approvals::Docket;
use super::policy::DecisionsOnRecord;
use super::runs::{Clock, Replay};
use super::validate::Checker;
use crate::model::call::{Outcome, Seq, ToolFailure};
use crate::model::digest::Digest;
use crate::model::envelope::Envelope;
use crate::model::error::Failure;
use crate::model::facts::Facts;
use crate::model::ids::SourceId;
use crate::model::journal::Entry;
use crate::model::names::{ConnectionName, ToolRef};
use crate::model::run::{RunRecord, RunStatus, Snapshot};
use crate::model::time::{LogicalMs, Now, Tick, WallMs};
use crate::model::turn::{Delivery, GuestEnd, LookupKind, Program, Turn, Yielded};
use calls::Call;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Everything that can happen to an attempt. A closed list.
#[derive(Debug, Clone)]
pub enum Input {
    /// The driver holds the run's lock and is ready.
    Begin {
        /// The build that drives this attempt.
        build: String,
        /// The wall time that expiry goes by.
        believed: WallMs,
    },
    /// Newer facts. Comes before the input that needed them.
    Facts(Arc<Facts>),
    /// The guest finished its step.
    Yielded {
        /// What it asked for.
        yielded: Yielded,
        /// Calls whose arguments carry a secret of the hub.
        secret_in: Vec<Seq>,
    },
    /// The guest is gone: killed at a limit, or crashed.
    GuestLost(Failure),
    /// The source of a call is ready, and its tools were compared with its manifest.
    Dialled {
        /// The call.
        seq: Seq,
        /// The listing that the ruling goes by, or why there is none.
        ready: Result<u64, ToolFailure>,
    },
    /// A call ended.
    Settled {
        /// The call.
        seq: Seq,
        /// How.
        reply: Reply,
        /// Milliseconds it took.
        ms: u64,
    },
    /// A lookup was answered.
    Found {
        /// The lookup.
        id: u32,
        /// Its text, or an error message.
        answer: Result<String, String>,
    },
    /// A time asked for with `WakeAt` has come.
    Woke,
    /// End early.
    Stop(StopBy),
    /// An append failed, and why; everything behind it was dropped.
    AppendFailed(Failure),
}

/// Who ends an attempt early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopBy {
    /// A person cancelled the run.
    Person,
    /// The client cancelled its request.
    Client,
    /// This process is about to end; the run stays, interrupted.
    Shutdown,
}

/// What an upstream made of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// An outcome, scrubbed.
    Outcome(Outcome),
    /// The bytes may have left and no answer came: why, in words without secrets.
    Lost(String),
}

/// Everything an attempt can ask for.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Append to the journal.
    Append {
        /// In order.
        entries: Vec<Entry>,
        /// Must they survive a crash before the next effect?
        durable: bool,
    },
    /// Keep bytes under their digest, durable.
    PutBlob {
        /// Their digest.
        digest: Digest,
        /// The bytes.
        text: String,
    },
    /// Make a guest.
    Open(Box<Program>),
    /// Run the guest until nothing in it is runnable.
    Step(Turn),
    /// Make the source of a call ready and compare its contracts.
    Dial {
        /// The call.
        seq: Seq,
        /// The source.
        source: SourceId,
        /// The connection of it that the call uses.
        connection: Option<ConnectionName>,
        /// List again if the last listing is old: the call is a write.
        fresh: bool,
    },
    /// Send one call.
    Call(Box<Outbound>),
    /// Nobody waits for this call any more.
    Abandon(Seq),
    /// Answer a lookup.
    Lookup {
        /// The lookup.
        id: u32,
        /// Which of the two.
        kind: LookupKind,
        /// Its argument object, JSON.
        arguments: String,
    },
    /// Send `Woke` at this time; replaces the one before.
    WakeAt(Tick),
    /// The attempt is over.
    Finish {
        /// Where the run stands.
        status: RunStatus,
        /// What the caller gets.
        envelope: Box<Envelope>,
    },
}

/// One call on its way out.
#[derive(Debug, Clone, PartialEq)]
pub struct Outbound {
    /// Its number.
    pub seq: Seq,
    /// The tool.
    pub tool: ToolRef,
    /// The connection it uses.
    pub connection: Option<ConnectionName>,
    /// The arguments, keys sorted: the bytes that were digested.
    pub arguments: Value,
    /// The listing its ruling went by; a source that has another by then sends nothing.
    pub listing: u64,
    /// What the tool claimed to be in it.
    pub contract: Digest,
    /// Is it not a reviewed read? Then it is sent at most once, ever.
    pub write: bool,
    /// Milliseconds it may take without progress.
    pub timeout_ms: u64,
    /// Bytes its result may have.
    pub result_bytes_max: u64,
}

/// Why an attempt ends early, and how the run's status is named.
#[derive(Debug, Clone, PartialEq)]
struct Stop {
    /// `None` leaves the run interrupted.
    status: Option<RunStatus>,
    failure: Option<Failure>,
}

/// One attempt of one run.
#[derive(Debug)]
pub struct Engine {
    record: RunRecord,
    snapshot: Arc<Snapshot>,
    facts: Arc<Facts>,
    checkers: BTreeMap<Digest, Arc<Checker>>,
    blobs: BTreeMap<Digest, Outcome>,
    entries: Vec<Entry>,

    replay: Replay,
    docket: Docket,
    decisions: DecisionsOnRecord,
    clock: Clock,
    began: Tick,
    live: bool,

    calls: BTreeMap<Seq, Call>,
    timers: BTreeMap<u32, LogicalMs>,
    lookups_open: BTreeMap<u32, Digest>,
    /// Asked again in replay; the journal delivers their answers.
    lookups_known: BTreeSet<u32>,
    lookups_made: u32,
    /// Journaled and not yet delivered, each with the clock of its entry.
    inbox: VecDeque<(Delivery, LogicalMs)>,
    stepping: bool,
    /// The clock the guest reads in its step: what timers set in it count from.
    step_clock: LogicalMs,
    guest_gone: bool,
    ended: Option<GuestEnd>,
    stop: Option<Stop>,
    done: bool,

    logs: Vec<String>,
    logs_dropped: u64,
    /// Numbers the guest has given out so far; it counts, so the next is always one more.
    last_call: u32,
    last_timer: u32,
    last_lookup: u32,
    cost_fresh_us: u64,
    cost_replayed_us: u64,
    cost_unrecorded_us: u64,
    step_is_fresh: bool,
}

impl Engine {
    /// An engine for the next attempt of a run. `entries` is its whole journal, `blobs` the outcomes
    /// that the journal keeps elsewhere.
    #[must_use]
    pub fn new(
        record: RunRecord,
        snapshot: Arc<Snapshot>,
        facts: Arc<Facts>,
        entries: Vec<Entry>,
        blobs: BTreeMap<Digest, Outcome>,
    ) -> Engine {
        let mut decisions = DecisionsOnRecord::default();
        let mut questions = BTreeMap::new();
        for entry in &entries {
            match entry {
                Entry::Question(question) => {
                    questions.insert(question.seq, question.binding.clone());
                }
                Entry::Decided { seqs, choice, .. } => {
                    for seq in seqs {
                        if let Some(binding) = questions.get(seq) {
                            decisions.record(*seq, binding, *choice);
                        }
                    }
                }
                Entry::Asked { .. }
                | Entry::Sent { .. }
                | Entry::Settled { .. }
                | Entry::Timer { .. }
                | Entry::Lookup { .. }
                | Entry::Paused { .. }
                | Entry::Resumed { .. }
                | Entry::Ended { .. } => {}
            }
        }
        let start = LogicalMs(record.started.0);
        Engine {
            replay: Replay::of(&entries),
            docket: Docket::of(&entries),
            clock: Clock::new(start),
            record,
            snapshot,
            facts,
            checkers: BTreeMap::new(),
            blobs,
            entries,
            decisions,
            began: Tick::default(),
            live: false,
            calls: BTreeMap::new(),
            timers: BTreeMap::new(),
            lookups_open: BTreeMap::new(),
            lookups_known: BTreeSet::new(),
            lookups_made: 0,
            inbox: VecDeque::new(),
            stepping: false,
            step_clock: start,
            guest_gone: false,
            ended: None,
            stop: None,
            done: false,
            logs: Vec::new(),
            logs_dropped: 0,
            last_call: 0,
            last_timer: 0,
            last_lookup: 0,
            cost_fresh_us: 0,
            cost_replayed_us: 0,
            cost_unrecorded_us: 0,
            step_is_fresh: false,
        }
    }

    /// Takes one input and adds what should happen to `out`, in order.
    pub fn handle(&mut self, now: Now, input: Input, out: &mut Vec<Effect>) {
        // What ends an attempt is an append, too: until that has succeeded, nothing has ended.
        if self.done && !matches!(input, Input::AppendFailed(_)) {
            return;
        }
        self.clock.read(now.tick);
        match input {
            Input::Begin { build, believed } => self.begin(now, build, believed, out),
            Input::Facts(facts) => self.facts = facts,
            Input::Yielded { yielded, secret_in } => {
                self.stepping = false;
                self.take_yielded(yielded, &secret_in, out);
                self.progress(now, out);
            }
            Input::GuestLost(failure) => {
                self.stepping = false;
                self.lose_guest(failure);
                self.progress(now, out);
            }
            Input::Dialled { seq, ready } => {
                self.dialled(now, seq, ready, out);
                self.progress(now, out);
            }
            Input::Settled { seq, reply, ms } => {
                self.settled(seq, reply, ms, out);
                self.progress(now, out);
            }
            Input::Found { id, answer } => {
                self.found(id, answer, out);
                self.progress(now, out);
            }
            Input::Woke => self.progress(now, out),
            Input::Stop(by) => {
                self.stop_by(by);
                self.progress(now, out);
            }
            Input::AppendFailed(failure) => self.append_failed(failure, out),
        }
    }

    /// Milliseconds since 1970 on the run's clock.
    #[must_use]
    pub fn logical(&self) -> LogicalMs {
        self.clock.now()
    }

    fn deadline(&self) -> Tick {
        self.began.after(Duration::from_millis(self.record.limits.wall_ms))
    }

    /// Appends entries, joining an append that stands right before.
    fn append(&mut self, entries: Vec<Entry>, durable: bool, out: &mut Vec<Effect>) {
        self.entries.extend(entries.iter().cloned());
        match out.last_mut() {
            Some(Effect::Append { entries: before, durable: was_durable }) => {
                before.extend(entries);
                *was_durable |= durable;
            }
            Some(_) | None => out.push(Effect::Append { entries, durable }),
        }
    }

    /// Guest compute that no entry accounts for yet; from here on it is accounted for.
    fn take_cost(&mut self) -> u64 {
        std::mem::take(&mut self.cost_unrecorded_us)
    }
}
