//! The two clocks: ticks that never go back, and wall time that people read.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Time since the process started. Never goes back; for deadlines and budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Tick(pub Duration);

impl Tick {
    /// The tick `wait` later.
    #[must_use]
    pub fn after(self, wait: Duration) -> Tick {
        Tick(self.0.saturating_add(wait))
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Tick) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Milliseconds since 1970, UTC. May jump either way; for records that people read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WallMs(pub u64);

impl WallMs {
    /// The wall time `ms` milliseconds later.
    #[must_use]
    pub fn plus(self, ms: u64) -> WallMs {
        WallMs(self.0.saturating_add(ms))
    }
}

/// A run's own clock, in milliseconds since 1970: starts at the run's wall start and advances only
/// by what deliveries say has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LogicalMs(pub u64);

/// Both clocks, read once for one input.
#[derive(Debug, Clone, Copy, Default)]
pub struct Now {
    /// Monotonic.
    pub tick: Tick,
    /// What a person's watch shows.
    pub wall: WallMs,
}
