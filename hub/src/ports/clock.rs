//! Time. Two clocks, because they answer different questions.

use crate::model::time::{Now, Tick, WallMs};
use std::future::Future;

/// Time, real or simulated.
pub trait Clock: Send + Sync + 'static {
    /// Time since the process started. Never goes back; for deadlines and budgets.
    fn tick(&self) -> Tick;

    /// Milliseconds since 1970, UTC. May jump either way; for records that people read.
    fn wall(&self) -> WallMs;

    /// Completes at or after `deadline`; at once if it has passed. Never fails.
    fn sleep_until(&self, deadline: Tick) -> impl Future<Output = ()> + Send;

    /// Both clocks at once.
    fn now(&self) -> Now {
        Now { tick: self.tick(), wall: self.wall() }
    }
}
