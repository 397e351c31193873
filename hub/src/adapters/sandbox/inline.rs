//! The guest in the calling thread: for the simulator and for tests, where every run must repeat exactly.

use super::guest::{Blank, Guest as InnerGuest};
use super::meter::MeterKind;
use super::values::STACK_BYTES_INLINE;
use crate::core::code::prepare;
use crate::model::error::Failure;
use crate::model::turn::{Prepared, Program, Turn, Yielded};
use crate::ports::sandbox::{Guest, Sandbox, SandboxError};
use std::cell::RefCell;
use std::collections::BTreeMap;

thread_local! {
    /// Guests cannot leave their thread, so a handle that can is a number.
    static GUESTS: RefCell<(u64, BTreeMap<u64, InnerGuest>)> = const { RefCell::new((0, BTreeMap::new())) };
}

/// Runs guests in the calling thread. Compute is counted in polls, not measured.
#[derive(Debug, Clone, Copy, Default)]
pub struct InlineSandbox;

/// A guest of the thread that opened it; on another it is lost.
#[derive(Debug)]
pub struct InlineGuest(u64);

impl Sandbox for InlineSandbox {
    type Guest = InlineGuest;

    async fn prepare(&self, text: &str) -> Result<Result<Prepared, Failure>, SandboxError> {
        Ok(prepare(text))
    }

    async fn open(&self, program: Program) -> Result<InlineGuest, SandboxError> {
        let guest = Blank::new(STACK_BYTES_INLINE)
            .and_then(|blank| blank.open(program, MeterKind::Polls))
            .map_err(|error| SandboxError::Unavailable(error.to_string()))?;
        let id = GUESTS.with_borrow_mut(|(count, guests)| {
            *count += 1;
            guests.insert(*count, guest);
            *count
        });
        Ok(InlineGuest(id))
    }
}

impl Guest for InlineGuest {
    async fn step(&mut self, turn: Turn) -> Result<Yielded, SandboxError> {
        GUESTS
            .with_borrow_mut(|(_, guests)| guests.get_mut(&self.0).map(|guest| guest.step(turn)))
            .ok_or_else(|| SandboxError::Crashed("the guest belongs to another thread".to_owned()))
    }
}

impl Drop for InlineGuest {
    fn drop(&mut self) {
        // Taken out first: dropping a guest while the table is borrowed could meet itself.
        let guest = GUESTS.try_with(|guests| guests.borrow_mut().1.remove(&self.0)).ok().flatten();
        if guest.as_ref().is_some_and(InnerGuest::is_spoiled) {
            std::mem::forget(guest);
        } else {
            drop(guest);
        }
    }
}
