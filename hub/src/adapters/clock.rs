//! The system's clocks.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the one place that reads the clock"
)]

use crate::model::time::{Tick, WallMs};
use crate::ports::clock::Clock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Real time, counted from when it was made.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock that starts now.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a default that reads the clock would surprise")]
    pub fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn tick(&self) -> Tick {
        Tick(self.start.elapsed())
    }

    fn wall(&self) -> WallMs {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    async fn sleep_until(&self, deadline: Tick) {
        let wait = deadline.since(self.tick());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}
