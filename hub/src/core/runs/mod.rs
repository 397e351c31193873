//! One run's past: its journal folded, what a replay must meet again, its clock and its status.
//!
//! Belongs here: what follows from entries alone. Does not belong here: what to do next, which is
//! `engine`'s.

mod clock;
mod replay;
mod summary;

pub use clock::Clock;
pub use replay::{AskedBefore, Expected, Replay};
pub use summary::{Summary, address, summary};

use super::approvals::Docket;
use crate::model::journal::Entry;
use crate::model::run::RunStatus;

/// Where a run stands, from its journal alone. An empty journal is a run that has just begun.
#[must_use]
pub fn status(entries: &[Entry]) -> RunStatus {
    match entries.last() {
        Some(Entry::Ended { status, .. }) => *status,
        Some(_) if Docket::of(entries).undecided().next().is_some() => RunStatus::AwaitingInput,
        Some(_) | None => RunStatus::Running,
    }
}
