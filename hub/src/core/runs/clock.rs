//! A run's own clock: it advances only by what deliveries say has passed.

use crate::model::time::{LogicalMs, Tick};
use std::time::Duration;

/// Stands still during replay and while the run waits; never runs back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    now: LogicalMs,
    /// Set once an attempt has caught up with its journal: real time passes from here.
    live: Option<(Tick, LogicalMs)>,
}

impl Clock {
    /// A clock that stands at the run's start.
    #[must_use]
    pub fn new(start: LogicalMs) -> Clock {
        Clock { now: start, live: None }
    }

    /// What the guest reads.
    #[must_use]
    pub fn now(&self) -> LogicalMs {
        self.now
    }

    /// Moves to a recorded moment.
    pub fn set(&mut self, at: LogicalMs) {
        self.now = self.now.max(at);
    }

    /// From `tick` on, time passes.
    pub fn go_live(&mut self, tick: Tick) {
        self.live = Some((tick, self.now));
    }

    /// Reads real time into the clock, and returns it.
    pub fn read(&mut self, tick: Tick) -> LogicalMs {
        if let Some((since, from)) = self.live {
            let passed = u64::try_from(tick.since(since).as_millis()).unwrap_or(u64::MAX);
            self.now = self.now.max(LogicalMs(from.0.saturating_add(passed)));
        }
        self.now
    }

    /// The tick at which the clock will show `at`; `None` while it stands.
    #[must_use]
    pub fn tick_of(&self, at: LogicalMs) -> Option<Tick> {
        let (since, from) = self.live?;
        Some(since.after(Duration::from_millis(at.0.saturating_sub(from.0))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_until_it_is_live_and_never_runs_back() {
        let mut clock = Clock::new(LogicalMs(1000));
        assert_eq!(clock.read(Tick(Duration::from_secs(9))), LogicalMs(1000));
        clock.set(LogicalMs(1500));
        clock.set(LogicalMs(1200));
        clock.go_live(Tick(Duration::from_secs(10)));
        assert_eq!(clock.read(Tick(Duration::from_millis(10_250))), LogicalMs(1750));
        assert_eq!(clock.read(Tick(Duration::from_secs(10))), LogicalMs(1750));
        assert_eq!(clock.tick_of(LogicalMs(2500)), Some(Tick(Duration::from_secs(11))));
    }
}
