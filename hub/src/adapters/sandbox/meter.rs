//! How long the guest has computed in this step.

use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;

/// What one poll of the engine counts for when compute is counted and not measured, in microseconds.
const POLL_US: u64 = 200;

/// Measures a step. The engine polls it every 10,000 calls and backward jumps.
#[derive(Debug)]
pub(super) struct Meter {
    kind: MeterKind,
    budget_us: Cell<u64>,
    since_us: Cell<u64>,
    polls: Cell<u64>,
    over: Cell<bool>,
}

/// What a meter goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MeterKind {
    /// The calling thread's CPU time.
    Cpu,
    /// The number of polls: the same in every repetition of a run.
    Polls,
}

impl Meter {
    pub(super) fn new(kind: MeterKind) -> Meter {
        Meter {
            kind,
            budget_us: Cell::new(0),
            since_us: Cell::new(0),
            polls: Cell::new(0),
            over: Cell::new(false),
        }
    }

    pub(super) fn start(&self, budget_us: u64) {
        self.budget_us.set(budget_us);
        self.polls.set(0);
        self.over.set(false);
        self.since_us.set(cpu_us());
    }

    /// Called by the engine: should the guest stop?
    pub(super) fn poll(&self) -> bool {
        self.polls.set(self.polls.get() + 1);
        self.check()
    }

    /// Is the budget used up? Once it is, it stays so until the next step.
    pub(super) fn check(&self) -> bool {
        if !self.over.get() && self.spent_us() > self.budget_us.get() {
            self.over.set(true);
        }
        self.over.get()
    }

    pub(super) fn spent_us(&self) -> u64 {
        match self.kind {
            MeterKind::Cpu => cpu_us().saturating_sub(self.since_us.get()),
            MeterKind::Polls => self.polls.get() * POLL_US,
        }
    }
}

fn cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000) + nanos / 1000
}
