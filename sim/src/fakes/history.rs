//! What the world saw: written by the fakes, read by the oracles. The hub never reports on itself.

use hub::model::ids::RunId;
use hub::model::journal::Entry;
use hub::model::policy::Choice;
use hub::model::time::WallMs;
use std::sync::{Arc, Mutex};

/// One thing the world saw.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// An entry survives every crash from here on.
    Durable {
        /// Whose journal.
        run: RunId,
        /// The entry.
        entry: Entry,
    },
    /// A call arrived at an upstream.
    Reached {
        /// The tool's own name.
        tool: String,
        /// Is it one that changes something?
        write: bool,
        /// Its arguments, as sent.
        arguments: String,
    },
    /// The person gave an answer.
    Answered {
        /// About which run.
        run: RunId,
        /// About which call.
        seq: u32,
        /// What they chose.
        choice: Choice,
        /// When, where the world knows.
        wall: Option<WallMs>,
    },
    /// The person forbade a tool while nothing of it was on its way.
    Forbidden {
        /// The tool's own name.
        tool: String,
    },
    /// A question was put to the person.
    Published {
        /// About which run.
        run: RunId,
        /// About which call.
        seq: u32,
    },
    /// The process died.
    Crashed,
    /// A new process began.
    Started,
}

/// Everything seen so far, in order.
#[derive(Debug, Clone, Default)]
pub struct History(Arc<Mutex<Vec<Seen>>>);

impl History {
    /// Adds what was seen.
    ///
    /// # Panics
    /// A thread panicked while it added.
    pub fn see(&self, seen: Seen) {
        self.0.lock().expect("not poisoned").push(seen);
    }

    /// A copy of everything.
    ///
    /// # Panics
    /// A thread panicked while it added.
    #[must_use]
    pub fn all(&self) -> Vec<Seen> {
        self.0.lock().expect("not poisoned").clone()
    }
}
