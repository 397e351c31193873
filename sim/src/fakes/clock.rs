//! Time as the runtime's paused clock tells it.

use hub::model::time::{Tick, WallMs};
use hub::ports::clock::Clock;
use tokio::time::Instant;

/// Where every simulation's wall clock starts: noon of some day.
pub const WALL_START: WallMs = WallMs(1_800_000_000_000);

/// A clock on the runtime's own time, which a test may pause.
#[derive(Debug, Clone, Copy)]
pub struct SimClock {
    start: Instant,
    wall: WallMs,
}

impl SimClock {
    /// A clock whose wall time starts at `wall`. Needs a runtime.
    #[must_use]
    pub fn new(wall: WallMs) -> SimClock {
        SimClock { start: Instant::now(), wall }
    }
}

impl Clock for SimClock {
    fn tick(&self) -> Tick {
        Tick(self.start.elapsed())
    }

    fn wall(&self) -> WallMs {
        self.wall
            .plus(u64::try_from(self.start.elapsed().as_millis()).expect("a simulation is short"))
    }

    async fn sleep_until(&self, deadline: Tick) {
        tokio::time::sleep_until(self.start + deadline.0).await;
    }
}
