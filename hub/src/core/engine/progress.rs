//! What happens next: replay first, then deliveries, questions, calls, timers and the end.

use super::calls::{State, unknown};
use super::{Asked, Effect, Engine, Stop, StopBy};
use crate::core::runs::Expected;
use crate::model::call::{Outcome, Seq};
use crate::model::error::{ErrorCode, Failure};
use crate::model::journal::{Entry, StoredOutcome};
use crate::model::run::RunStatus;
use crate::model::time::{LogicalMs, Now, WallMs};
use crate::model::turn::{Delivery, GuestEnd, Program, Turn};

/// Replaying may take this many times what the journal says, plus [`REPLAY_SPARE_US`].
const REPLAY_FACTOR: u64 = 4;
const REPLAY_SPARE_US: u64 = 1_000_000;
/// Calls that an error names at most.
const CALLS_NAMED: usize = 3;

impl Engine {
    /// The first input of an attempt.
    pub(super) fn begin(
        &mut self,
        now: Now,
        build: String,
        believed: WallMs,
        out: &mut Vec<Effect>,
    ) {
        self.began = now.tick;
        if let Some(Entry::Ended { status, envelope, .. }) = self.entries.last() {
            self.done = true;
            out.push(Effect::Finish { status: *status, envelope: envelope.clone() });
            return;
        }
        if self.docket.is_expired(believed) {
            let asked: Vec<String> = self
                .docket
                .undecided()
                .map(|question| format!("{} `{}`", question.seq, question.address))
                .take(CALLS_NAMED)
                .collect();
            let asked = asked.join(", ");
            let message = format!("nobody decided about {asked} before the question expired");
            let failure = Failure::new(ErrorCode::RunExpired, message);
            self.stop = Some(Stop { status: Some(RunStatus::Expired), failure: Some(failure) });
            self.end(now, out);
            return;
        }
        if self.docket.undecided().next().is_some() {
            self.done = true;
            let questions: Vec<_> = self.docket.undecided().cloned().collect();
            let calls = self.call_lines();
            let envelope = super::pending_envelope(&self.record, &questions, calls, Asked::Unknown);
            out.push(Effect::Finish {
                status: RunStatus::AwaitingInput,
                envelope: Box::new(envelope),
            });
            return;
        }
        if !self.entries.is_empty() {
            self.append(vec![Entry::Resumed { build, wall: now.wall }], false, out);
        }
        self.settle_in_doubt(out);
        out.push(Effect::Open(Box::new(self.program())));
        self.step(Delivery::Start, out);
        out.push(Effect::WakeAt(self.deadline()));
    }

    /// Writes that left in an attempt that then died: whether they happened is not known, and that is
    /// synced before the guest, or anyone, sees it.
    fn settle_in_doubt(&mut self, out: &mut Vec<Effect>) {
        let at = self.replay.at().unwrap_or(LogicalMs(self.record.started.0));
        let in_doubt: Vec<(Seq, String)> = self
            .replay
            .in_doubt()
            .map(|(seq, asked)| (seq, asked.binding.tool.raw.to_string()))
            .collect();
        for (seq, raw) in in_doubt {
            let failure = unknown(&raw, "the hub stopped before the answer arrived");
            let outcome = StoredOutcome::Inline(Outcome::Failed(failure));
            let entry = Entry::Settled { seq, outcome, at, ms: 0, cost_us: 0 };
            self.replay.note(&entry);
            self.docket.note(&entry);
            self.append(vec![entry], true, out);
        }
    }

    fn program(&self) -> Program {
        let sources = self.snapshot.sources.iter().map(|source| {
            let tools = source.tools.iter().map(|tool| tool.name.to_string()).collect();
            (source.namespace.to_string(), tools)
        });
        Program {
            body: self.record.program.clone(),
            seed: seed_bytes(&self.record.seed.to_string()),
            started: LogicalMs(self.record.started.0),
            sources: sources.collect(),
            memory_bytes: self.record.limits.memory_bytes,
            value_bytes_max: self.record.limits.call_result_bytes,
        }
    }

    /// One step, with what it may compute.
    pub(super) fn step(&mut self, delivery: Delivery, out: &mut Vec<Effect>) {
        self.step_at(delivery, self.clock.now(), out);
    }

    fn step_at(&mut self, delivery: Delivery, at: LogicalMs, out: &mut Vec<Effect>) {
        self.step_clock = at;
        // The step that makes the last old delivery may go on beyond it, so it counts as new.
        self.step_is_fresh = self.live || self.replay.left() == 0;
        let budget_us = if self.step_is_fresh {
            let limit = self.record.limits.compute_ms.saturating_mul(1000);
            limit.saturating_sub(self.cost_fresh_us)
        } else {
            let limit =
                self.replay.cost_us().saturating_mul(REPLAY_FACTOR).saturating_add(REPLAY_SPARE_US);
            limit.saturating_sub(self.cost_replayed_us)
        };
        self.stepping = true;
        out.push(Effect::Step(Turn { delivery, at, budget_us }));
    }

    /// Decides what happens next. Called after every input.
    pub(super) fn progress(&mut self, now: Now, out: &mut Vec<Effect>) {
        if self.done {
            return;
        }
        if now.tick >= self.deadline()
            && self.stop.as_ref().is_none_or(|stop| stop.status.is_none())
        {
            let (most, waits) = (self.record.limits.wall_ms, self.waits_for());
            let message = format!("the attempt took longer than {most} ms{waits}");
            self.stop = Some(Stop {
                status: Some(RunStatus::Failed),
                failure: Some(Failure::new(ErrorCode::WallLimit, message)),
            });
        }
        if self.stop.is_some() {
            self.progress_to_stop(now, out);
            return;
        }
        if self.stepping {
            return;
        }
        if self.replay.left() > 0 {
            self.replay_next(now, out);
            return;
        }
        if !self.live {
            if let Some((seq, binding)) = self.replay.first_unmet() {
                let what = format!(
                    "call {seq} of `{}` was made before and is not made again",
                    binding.tool.raw
                );
                self.diverge(&what);
                self.progress_to_stop(now, out);
                return;
            }
            self.live = true;
            if let Some(at) = self.replay.at() {
                self.clock.set(at);
            }
            self.clock.go_live(now.tick);
        }
        self.progress_live(now, out);
    }

    fn progress_live(&mut self, now: Now, out: &mut Vec<Effect>) {
        if self.ended.is_some() {
            self.drop_what_the_end_drops(out);
        }
        let failing: Vec<Seq> = self.seqs(|state| matches!(state, State::Failing(_)));
        for seq in failing {
            if let Some(State::Failing(failure)) =
                self.calls.get(&seq).map(|call| call.state.clone())
            {
                self.settle(seq, Outcome::Failed(failure), 0, false, out);
            }
        }
        if let Some((delivery, at)) = self.inbox.pop_front() {
            // The guest reads the clock of the entry, as it will when this is replayed.
            self.step_at(delivery, at, out);
            return;
        }
        // The guest is quiet: nothing in it can run until something is delivered.
        let busy = self.in_flight() > 0 || !self.lookups_open.is_empty();
        if self.needs_person() {
            if !busy {
                self.pause(now, out);
            }
            return;
        }
        for seq in self.seqs(|state| *state == State::Ready) {
            if self.in_flight() as u64 >= self.record.limits.concurrent_max {
                break;
            }
            self.dial(seq, out);
        }
        if self.fire_timer(out) {
            return;
        }
        if self.in_flight() > 0 || !self.lookups_open.is_empty() || !self.timers.is_empty() {
            self.wake_for_timer(out);
            return;
        }
        if self.ended.is_none() {
            let message = "the code waits for a promise that nothing can settle";
            self.end_with(Failure::new(ErrorCode::NeverSettles, message));
        }
        self.end(now, out);
    }

    /// Once the program's own promise has settled, reads and timers left are dropped; writes are not.
    fn drop_what_the_end_drops(&mut self, out: &mut Vec<Effect>) {
        self.timers.clear();
        self.lookups_open.clear();
        let open = self.seqs(|state| !matches!(state, State::Settled | State::Known));
        for seq in open {
            let state = self.calls.get(&seq).map(|call| call.state.clone());
            // What left as a write stays one, whatever a review made of the tool since.
            if self.is_write(seq) || state == Some(State::InFlight { write: true }) {
                continue;
            }
            if let Some(State::InFlight { .. } | State::Dialling) =
                self.calls.get(&seq).map(|call| &call.state)
            {
                out.push(Effect::Abandon(seq));
            }
            self.set_state(seq, State::Settled);
        }
    }

    /// Fires the earliest timer that is due.
    fn fire_timer(&mut self, out: &mut Vec<Effect>) -> bool {
        let now = self.clock.now();
        let Some((due, id)) = self.timers.iter().map(|(id, due)| (*due, *id)).min() else {
            return false;
        };
        if due > now {
            return false;
        }
        self.timers.remove(&id);
        let entry = Entry::Timer { id, at: now, cost_us: self.take_cost() };
        self.append(vec![entry], false, out);
        self.step(Delivery::Timer { id }, out);
        true
    }

    fn wake_for_timer(&mut self, out: &mut Vec<Effect>) {
        let next = self.timers.values().min().and_then(|due| self.clock.tick_of(*due));
        let wake = next.map_or(self.deadline(), |tick| tick.min(self.deadline()));
        out.push(Effect::WakeAt(wake));
    }

    /// Delivers what the journal says came next.
    fn replay_next(&mut self, now: Now, out: &mut Vec<Effect>) {
        let Some((expected, at)) = self.replay.next_delivery() else { return };
        self.clock.set(at);
        let delivery = match expected {
            Expected::Call(seq) => match self.replayed_outcome(seq) {
                Ok(outcome) => Delivery::Call { seq, answer: self.answer(seq, outcome) },
                Err(what) => return self.diverged(now, &what, out),
            },
            Expected::Timer(id) => {
                if self.timers.remove(&id).is_none() {
                    return self.diverged(
                        now,
                        &format!("timer {id} fired before and is not set again"),
                        out,
                    );
                }
                Delivery::Timer { id }
            }
            Expected::Lookup { id, answer } => {
                if !self.lookups_known.remove(&id) {
                    let what = format!("lookup {id} was answered before and is not asked again");
                    return self.diverged(now, &what, out);
                }
                Delivery::Lookup { id, answer }
            }
        };
        self.step(delivery, out);
    }

    fn diverged(&mut self, now: Now, what: &str, out: &mut Vec<Effect>) {
        self.diverge(what);
        self.progress_to_stop(now, out);
    }

    fn replayed_outcome(&mut self, seq: Seq) -> Result<Outcome, String> {
        let Some(before) = self.replay.meet(seq).cloned() else {
            return Err(format!("call {seq} ended without ever having been made"));
        };
        if !self.calls.contains_key(&seq) {
            return Err(format!(
                "call {seq} of `{}` was made before and is not made again",
                before.binding.tool.raw
            ));
        };
        let Some((stored, _)) = before.settled else {
            return Err(format!("call {seq} ended without an outcome"));
        };
        let outcome = match stored {
            StoredOutcome::Inline(outcome) => outcome,
            StoredOutcome::Blob(digest) => match self.blobs.get(&digest) {
                Some(outcome) => outcome.clone(),
                None => return Err(format!("the outcome of call {seq} is missing from the store")),
            },
        };
        self.set_state(seq, State::Settled);
        Ok(outcome)
    }

    /// What the attempt was waiting for, as the end of a sentence.
    fn waits_for(&self) -> String {
        let calls = self.seqs(|state| matches!(state, State::InFlight { .. } | State::Dialling));
        let named: Vec<String> = calls
            .iter()
            .filter_map(|seq| self.calls.get(seq))
            .map(|call| format!("`{}`", call.address))
            .take(CALLS_NAMED)
            .collect();
        if !named.is_empty() {
            format!(", and was waiting for {}", named.join(", "))
        } else if !self.timers.is_empty() {
            ", and was waiting for a timer".to_owned()
        } else {
            String::new()
        }
    }

    /// Is anyone's answer needed before the run can go on?
    pub(super) fn needs_person(&self) -> bool {
        self.calls.values().any(|call| matches!(call.state, State::NeedsPerson(_)))
    }

    /// Does nothing new leave: the run is about to pause or to stop?
    pub(super) fn holds_back(&self) -> bool {
        self.stop.is_some() || self.needs_person()
    }

    /// Calls that left or are about to.
    pub(super) fn in_flight(&self) -> usize {
        self.seqs(|state| matches!(state, State::InFlight { .. } | State::Dialling)).len()
    }

    pub(super) fn seqs(&self, wanted: impl Fn(&State) -> bool) -> Vec<Seq> {
        self.calls.iter().filter(|(_, call)| wanted(&call.state)).map(|(seq, _)| *seq).collect()
    }

    /// A lookup was answered.
    pub(super) fn found(&mut self, id: u32, answer: Result<String, String>, out: &mut Vec<Effect>) {
        let Some(request) = self.lookups_open.remove(&id) else { return };
        let (at, cost_us) = (self.clock.now(), self.take_cost());
        self.append(
            vec![Entry::Lookup { id, request, answer: answer.clone(), at, cost_us }],
            false,
            out,
        );
        self.inbox.push_back((Delivery::Lookup { id, answer }, at));
    }

    pub(super) fn stop_by(&mut self, by: StopBy) {
        let (status, message) = match by {
            StopBy::Person => (Some(RunStatus::Cancelled), "a person cancelled the run"),
            StopBy::Client => (Some(RunStatus::Cancelled), "the client cancelled its request"),
            StopBy::Shutdown => (None, "the hub was shut down; the run can be resumed"),
        };
        let failure = Failure::new(ErrorCode::RunCancelled, message);
        self.stop.get_or_insert(Stop { status, failure: Some(failure) });
    }

    /// The value the program returned, if it returned one.
    pub(super) fn returned(&self) -> Option<Result<Option<&str>, Failure>> {
        match self.ended.as_ref()? {
            GuestEnd::Returned(json) => Some(Ok(json.as_deref())),
            GuestEnd::Threw { message, hint } => {
                let failure = Failure::new(ErrorCode::UncaughtError, message.clone());
                Some(Err(match hint {
                    Some(hint) => failure.with_hint(hint.clone()),
                    None => failure,
                }))
            }
            GuestEnd::NotJson(why) => {
                Some(Err(Failure::new(ErrorCode::ResultNotJson, why.clone())))
            }
            GuestEnd::Syntax(why) => Some(Err(Failure::new(ErrorCode::SyntaxError, why.clone()))),
            GuestEnd::Limit(_) => None,
        }
    }
}

/// The 32 bytes behind a digest's 64 digits.
fn seed_bytes(hex: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = hex.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()).unwrap_or(0);
    }
    bytes
}
