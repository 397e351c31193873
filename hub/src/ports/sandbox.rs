//! Where a run's code computes: turn by turn, with nothing but what a turn delivers.

use crate::model::error::Failure;
use crate::model::turn::{GuestLimit, Prepared, Program, Turn, Yielded};
use std::future::Future;

/// Makes guests.
pub trait Sandbox: Send + Sync + 'static {
    /// One run's code, for one attempt.
    type Guest: Guest;

    /// Makes code as a model sends it ready to run; the inner error is the code's own fault.
    ///
    /// # Errors
    /// `Unavailable`, or the code took the parser down; nothing ran.
    fn prepare(
        &self,
        text: &str,
    ) -> impl Future<Output = Result<Result<Prepared, Failure>, SandboxError>> + Send;

    /// Makes a guest that has run nothing yet.
    ///
    /// # Errors
    /// `Unavailable`: nothing ran.
    fn open(
        &self,
        program: Program,
    ) -> impl Future<Output = Result<Self::Guest, SandboxError>> + Send;
}

/// One guest. Dropping it ends it, whatever it is doing.
pub trait Guest: Send {
    /// Delivers one thing and runs the guest until nothing in it is runnable.
    ///
    /// # Errors
    /// The guest is gone; no later step can succeed.
    fn step(&mut self, turn: Turn) -> impl Future<Output = Result<Yielded, SandboxError>> + Send;
}

/// Why there is no guest, or no longer one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// It could not be started.
    #[error("the sandbox could not be started: {0}")]
    Unavailable(String),
    /// It died, or spoke nonsense.
    #[error("the sandbox died: {0}")]
    Crashed(String),
    /// It was killed at a limit it did not keep by itself.
    #[error("the sandbox was killed at a limit")]
    Killed(GuestLimit),
}
