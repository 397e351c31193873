//! How an attempt ends: it pauses for a person, it stops early, or the run is over.

use super::calls::{State, unknown};
use super::envelope::{Draft, fit};
use super::{Asked, Effect, Engine, Stop, pending_envelope, preview};
use crate::core::contract::changes;
use crate::model::call::{Binding, Outcome, Seq};
use crate::model::envelope::{Envelope, EnvelopeStatus};
use crate::model::error::{ErrorCode, Failure};
use crate::model::journal::{Entry, Question};
use crate::model::json::parse_from_guest;
use crate::model::policy::Because;
use crate::model::run::RunStatus;
use crate::model::time::{Now, WallMs};
use crate::model::visible::{first_sentence, unmixed};
use serde_json::Value;

/// Characters of what a tool says about itself in a question.
const SAYS_CHARS: usize = 200;

impl Engine {
    /// Every pending call becomes a question, and the attempt ends. Questions are published after that,
    /// from the synced journal.
    pub(super) fn pause(&mut self, now: Now, out: &mut Vec<Effect>) {
        let mut questions = Vec::new();
        for seq in self.seqs(|state| matches!(state, State::NeedsPerson(_))) {
            questions.extend(self.question(seq, now.wall));
        }
        let mut entries: Vec<Entry> =
            questions.iter().map(|question| Entry::Question(Box::new(question.clone()))).collect();
        entries.push(Entry::Paused { at: self.clock.now(), cost_us: self.take_cost() });
        self.append(entries, true, out);
        self.done = true;
        let envelope =
            pending_envelope(&self.record, &questions, self.call_lines(), Asked::Unknown);
        out.push(Effect::Finish { status: RunStatus::AwaitingInput, envelope: Box::new(envelope) });
    }

    fn question(&self, seq: Seq, wall: WallMs) -> Option<Question> {
        let call = self.calls.get(&seq)?;
        let State::NeedsPerson(because) = &call.state else { return None };
        let source = self.facts.sources.get(&call.binding.tool.source)?;
        let tool = source.tools.get(&call.binding.tool.raw)?;
        let changes = if because.contains(&Because::Changed) {
            let reviewed = source.policy.pin(&call.binding.tool.raw).map(|pin| pin.contract);
            let old = reviewed.filter(|pin| *pin != tool.digest).unwrap_or(call.binding.contract);
            match self.facts.reviewed.get(&old) {
                Some(old) => {
                    changes(old, &tool.contract).iter().map(|line| unmixed(line)).collect()
                }
                None => vec!["the tool differs from what it was when this run began".to_owned()],
            }
        } else {
            Vec::new()
        };
        let (preview, hidden_bytes) = preview(&call.arguments);
        Some(Question {
            seq,
            binding: Binding { contract: tool.digest, ..call.binding.clone() },
            address: unmixed(&call.address),
            says: unmixed(&first_sentence(tool.contract.description(), SAYS_CHARS)),
            preview,
            hidden_bytes,
            because: because.clone(),
            changes,
            asked: wall,
            expires: wall.plus(self.record.limits.approval_ttl_ms),
            line: call.line,
        })
    }

    /// Nothing new leaves. Reads are dropped; writes on their way are waited for, or, once time is up,
    /// settled as unknown.
    pub(super) fn progress_to_stop(&mut self, now: Now, out: &mut Vec<Effect>) {
        let time_is_up = now.tick >= self.deadline();
        let mut waits = false;
        for seq in self.seqs(|state| matches!(state, State::InFlight { .. } | State::Dialling)) {
            let state = self.calls.get(&seq).map(|call| call.state.clone());
            if state == Some(State::InFlight { write: true }) {
                if !time_is_up {
                    waits = true;
                    continue;
                }
                let address =
                    self.calls.get(&seq).map(|call| call.address.clone()).unwrap_or_default();
                let failure =
                    unknown(&address, "the attempt ran out of time before the answer arrived");
                self.settle(seq, Outcome::Failed(failure), 0, true, out);
            } else {
                self.set_state(seq, State::Settled);
            }
            out.push(Effect::Abandon(seq));
        }
        if waits {
            out.push(Effect::WakeAt(self.deadline()));
            return;
        }
        self.end(now, out);
    }

    /// The attempt is over: with what the program returned, or with why it stopped.
    pub(super) fn end(&mut self, now: Now, out: &mut Vec<Effect>) {
        let stop = self.stop.take();
        self.done = true;
        let returned = match self.returned() {
            Some(Ok(json)) => Some(Ok(json.map(str::to_owned))),
            Some(Err(failure)) => Some(Err(failure)),
            None => None,
        };
        let (status, result, error) = match (stop, returned) {
            (Some(Stop { status: None, failure }), _) => {
                // The journal as it stands is enough to go on from.
                self.append(Vec::new(), true, out);
                let envelope = self.envelope(EnvelopeStatus::Running, None, failure);
                out.push(Effect::Finish {
                    status: RunStatus::Running,
                    envelope: Box::new(envelope),
                });
                return;
            }
            (Some(Stop { status: Some(status), failure }), _) => (status, None, failure),
            (None, Some(Ok(json))) => match json.as_deref().map(parse_from_guest).transpose() {
                // `undefined` is no result; anything else that does not parse is an error, not nothing.
                Ok(value) => (RunStatus::Completed, value, None),
                Err(error) => {
                    let message = format!("the returned value cannot be used: {error}");
                    let failure = Failure::new(ErrorCode::ResultNotJson, message);
                    (RunStatus::Failed, None, Some(failure))
                }
            },
            (None, Some(Err(failure))) => (RunStatus::Failed, None, Some(failure)),
            (None, None) => {
                let failure = Failure::new(ErrorCode::Bug, "the run ended without a reason");
                (RunStatus::Failed, None, Some(failure))
            }
        };
        let shown = match status {
            RunStatus::Completed => EnvelopeStatus::Completed,
            RunStatus::Cancelled => EnvelopeStatus::Cancelled,
            RunStatus::Failed
            | RunStatus::Expired
            | RunStatus::Running
            | RunStatus::AwaitingInput => EnvelopeStatus::Failed,
        };
        let envelope = Box::new(self.envelope(shown, result, error));
        let entry = Entry::Ended {
            status,
            envelope: envelope.clone(),
            wall: now.wall,
            cost_us: self.take_cost(),
        };
        self.append(vec![entry], true, out);
        out.push(Effect::Finish { status, envelope });
    }

    /// The journal can take no more: say what is known to have happened, and stop.
    pub(super) fn append_failed(&mut self, failure: Failure, out: &mut Vec<Effect>) {
        self.done = true;
        let envelope = Box::new(self.envelope(EnvelopeStatus::Failed, None, Some(failure)));
        out.push(Effect::Finish { status: RunStatus::Running, envelope });
    }

    fn envelope(
        &self,
        status: EnvelopeStatus,
        result: Option<Value>,
        error: Option<Failure>,
    ) -> Envelope {
        let summary = self.summary();
        let mut notices = self.record.notices.clone();
        if status != EnvelopeStatus::Completed {
            notices.extend(summary.notices());
        }
        fit(
            Draft {
                run_id: self.record.id.clone(),
                status,
                result,
                error,
                logs: self.logs.clone(),
                logs_dropped: self.logs_dropped > 0,
                calls: summary.calls,
                pending: Vec::new(),
                notices,
            },
            self.record.limits.inline_result_bytes,
        )
    }
}
