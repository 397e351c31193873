//! What a step yielded: calls, timers, lookups, log lines and the program's end.

use super::{Effect, Engine, Stop};
use crate::model::call::Seq;
use crate::model::digest::Digest;
use crate::model::error::{ErrorCode, Failure};
use crate::model::limits::{LOG_BYTES_KEPT, LOOKUPS_MAX, TIMER_DELAY_MS_MAX, TIMERS_MAX};
use crate::model::run::RunStatus;
use crate::model::time::LogicalMs;
use crate::model::turn::{
    GuestCall, GuestEnd, GuestLimit, GuestLookup, GuestTimer, LookupKind, Yielded,
};

impl Engine {
    pub(super) fn take_yielded(
        &mut self,
        yielded: Yielded,
        secret_in: &[Seq],
        out: &mut Vec<Effect>,
    ) {
        let Yielded { calls, timers, cleared, lookups, logs, logs_dropped, end, cost_us } = yielded;
        if self.step_is_fresh {
            self.cost_fresh_us = self.cost_fresh_us.saturating_add(cost_us);
            self.cost_unrecorded_us = self.cost_unrecorded_us.saturating_add(cost_us);
        } else {
            self.cost_replayed_us = self.cost_replayed_us.saturating_add(cost_us);
        }
        self.keep_logs(logs, logs_dropped);
        for id in cleared {
            self.timers.remove(&id);
        }
        if !self.counts_on(&calls, &timers, &lookups) {
            let message = "the sandbox numbered its requests wrongly";
            self.lose_guest(Failure::new(ErrorCode::SandboxCrashed, message));
            return;
        }
        for timer in timers {
            let due = self.step_clock.0.saturating_add(timer.delay_ms.min(TIMER_DELAY_MS_MAX));
            self.timers.insert(timer.id, LogicalMs(due));
        }
        if self.timers.len() > TIMERS_MAX {
            self.end_with(too_many_requests());
        }
        for lookup in lookups {
            self.take_lookup(lookup, out);
        }
        for call in calls {
            let secret = secret_in.contains(&call.seq);
            self.take_call(&call, secret, out);
        }
        match end {
            None => {}
            Some(GuestEnd::Limit(limit)) => self.lose_guest(self.limit_failure(limit)),
            Some(end) => self.ended = Some(end),
        }
    }

    /// Are all numbers the next ones? A worker that repeats or skips one is not ours any more: decisions
    /// and outcomes hang on them.
    fn counts_on(
        &mut self,
        calls: &[GuestCall],
        timers: &[GuestTimer],
        lookups: &[GuestLookup],
    ) -> bool {
        let next = |last: &mut u32, number: u32, gaps: bool| {
            let fits = if gaps { number > *last } else { Some(number) == last.checked_add(1) };
            *last = number;
            fits
        };
        calls.iter().all(|call| next(&mut self.last_call, call.seq.0, false))
            // A timer set and cleared within one step is never heard of.
            && timers.iter().all(|timer| next(&mut self.last_timer, timer.id, true))
            && lookups.iter().all(|lookup| next(&mut self.last_lookup, lookup.id, false))
    }

    fn keep_logs(&mut self, logs: Vec<String>, dropped: u64) {
        self.logs_dropped = self.logs_dropped.saturating_add(dropped);
        let mut held: usize = self.logs.iter().map(String::len).sum();
        for line in logs {
            held += line.len();
            if held > LOG_BYTES_KEPT {
                self.logs_dropped += 1;
            } else {
                self.logs.push(line);
            }
        }
    }

    fn take_lookup(&mut self, lookup: GuestLookup, out: &mut Vec<Effect>) {
        let GuestLookup { id, kind, arguments } = lookup;
        let word = match kind {
            LookupKind::Search => "search",
            LookupKind::Describe => "describe",
        };
        let request = Digest::of(format!("{word}\n{arguments}").as_bytes());
        self.lookups_made += 1;
        if self.lookups_made > LOOKUPS_MAX {
            self.end_with(too_many_requests());
            return;
        }
        match self.replay.lookup(id) {
            // Answered before: the journal delivers it in its turn.
            Some(before) if before == request => {
                self.lookups_known.insert(id);
            }
            Some(_) => self.diverge(&format!(
                "lookup {id} asked for something else than `hub.{word}` did before"
            )),
            None => {
                self.lookups_open.insert(id, request);
                out.push(Effect::Lookup { id, kind, arguments });
            }
        }
    }

    /// The guest can go no further. Writes on their way are still waited for.
    pub(super) fn lose_guest(&mut self, failure: Failure) {
        self.guest_gone = true;
        self.timers.clear();
        self.lookups_open.clear();
        self.inbox.clear();
        self.end_with(failure);
    }

    /// The run fails with this, once its writes on their way have settled. The first reason stands.
    pub(super) fn end_with(&mut self, failure: Failure) {
        self.stop.get_or_insert(Stop { status: Some(RunStatus::Failed), failure: Some(failure) });
    }

    pub(super) fn diverge(&mut self, what: &str) {
        let message = format!("the code took another path than its journal: {what}");
        let hint = format!(
            "Start a new run. `capabilities hub runs show {}` prints what this one did.",
            self.record.id
        );
        self.end_with(Failure::new(ErrorCode::Divergence, message).with_hint(hint));
    }

    fn limit_failure(&self, limit: GuestLimit) -> Failure {
        let limits = &self.record.limits;
        match limit {
            GuestLimit::Compute if self.step_is_fresh => {
                let message = format!("the code computed for more than {} ms", limits.compute_ms);
                Failure::new(ErrorCode::ComputeLimit, message)
            }
            GuestLimit::Compute => Failure::new(
                ErrorCode::ReplayLimit,
                "replaying the journal took far longer than the first time",
            ),
            GuestLimit::Memory => {
                let message =
                    format!("the code used more than {} MB of memory", limits.memory_bytes >> 20);
                Failure::new(ErrorCode::MemoryLimit, message)
            }
            GuestLimit::Requests => too_many_requests(),
            GuestLimit::Calls => self.call_limit(),
        }
    }

    pub(super) fn call_limit(&self) -> Failure {
        let message = format!("the run made more than {} calls", self.record.limits.calls_max);
        Failure::new(ErrorCode::CallLimit, message)
    }
}

fn too_many_requests() -> Failure {
    let message = format!(
        "the code set more than {TIMERS_MAX} timers or made more than {LOOKUPS_MAX} lookups"
    );
    Failure::new(ErrorCode::RequestLimit, message)
}
