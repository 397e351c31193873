//! What a journal says happened, in the order in which it must happen again.

use crate::model::call::{Binding, Seq};
use crate::model::digest::Digest;
use crate::model::journal::{Entry, StoredOutcome};
use crate::model::time::LogicalMs;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A call that an earlier attempt asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedBefore {
    /// What it was.
    pub binding: Binding,
    /// Did it leave?
    pub sent: bool,
    /// How it ended, if that is known.
    pub settled: Option<(StoredOutcome, u64)>,
}

/// The next thing an earlier attempt delivered to the guest.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// A call's outcome.
    Call(Seq),
    /// A timer.
    Timer(u32),
    /// A lookup's answer.
    Lookup {
        /// Which.
        id: u32,
        /// What the guest got.
        answer: Result<String, String>,
    },
}

/// A journal, folded for one attempt.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    asked: BTreeMap<Seq, AskedBefore>,
    lookups: BTreeMap<u32, Digest>,
    /// Deliveries not yet made again, with the run's clock at each.
    left: VecDeque<(Expected, LogicalMs)>,
    /// Asked in the journal and not yet by the guest.
    unmet: BTreeSet<Seq>,
    /// Where the run's clock stood at the end.
    at: Option<LogicalMs>,
    cost_us: u64,
}

impl Replay {
    /// Folds a journal.
    #[must_use]
    pub fn of(entries: &[Entry]) -> Replay {
        let mut replay = Replay::default();
        for entry in entries {
            replay.note(entry);
        }
        replay
    }

    /// Takes one entry into account, as the newest.
    pub fn note(&mut self, entry: &Entry) {
        match entry {
            Entry::Asked { seq, binding, .. } => {
                let asked = AskedBefore { binding: binding.clone(), sent: false, settled: None };
                self.asked.insert(*seq, asked);
                self.unmet.insert(*seq);
            }
            Entry::Sent { seq, .. } => {
                if let Some(asked) = self.asked.get_mut(seq) {
                    asked.sent = true;
                }
            }
            Entry::Settled { seq, outcome, at, ms, cost_us } => {
                if let Some(asked) = self.asked.get_mut(seq) {
                    asked.settled = Some((outcome.clone(), *ms));
                }
                self.deliver(Expected::Call(*seq), *at, *cost_us);
            }
            Entry::Timer { id, at, cost_us } => self.deliver(Expected::Timer(*id), *at, *cost_us),
            Entry::Lookup { id, request, answer, at, cost_us } => {
                self.lookups.insert(*id, *request);
                self.deliver(Expected::Lookup { id: *id, answer: answer.clone() }, *at, *cost_us);
            }
            Entry::Paused { at, cost_us } => {
                self.at = self.at.max(Some(*at));
                self.cost_us = self.cost_us.saturating_add(*cost_us);
            }
            Entry::Ended { cost_us, .. } => self.cost_us = self.cost_us.saturating_add(*cost_us),
            Entry::Question(_) | Entry::Decided { .. } | Entry::Resumed { .. } => {}
        }
    }

    fn deliver(&mut self, expected: Expected, at: LogicalMs, cost_us: u64) {
        self.left.push_back((expected, at));
        self.at = self.at.max(Some(at));
        self.cost_us = self.cost_us.saturating_add(cost_us);
    }

    /// The call of this number as an earlier attempt asked for it; from here on it counts as met.
    pub fn meet(&mut self, seq: Seq) -> Option<&AskedBefore> {
        self.unmet.remove(&seq);
        self.asked.get(&seq)
    }

    /// The last call that any earlier attempt asked for.
    #[must_use]
    pub fn last_asked(&self) -> Option<Seq> {
        self.asked.keys().next_back().copied()
    }

    /// Digest of what the lookup of this number asked.
    #[must_use]
    pub fn lookup(&self, id: u32) -> Option<Digest> {
        self.lookups.get(&id).copied()
    }

    /// Takes the next delivery.
    pub fn next_delivery(&mut self) -> Option<(Expected, LogicalMs)> {
        self.left.pop_front()
    }

    /// Deliveries left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left.len()
    }

    /// The first call in the journal that the guest has not asked for again.
    #[must_use]
    pub fn first_unmet(&self) -> Option<(Seq, &Binding)> {
        let seq = *self.unmet.first()?;
        self.asked.get(&seq).map(|asked| (seq, &asked.binding))
    }

    /// Writes that left and whose outcome is not known, by number.
    pub fn in_doubt(&self) -> impl Iterator<Item = (Seq, &AskedBefore)> {
        self.asked
            .iter()
            .filter(|(_, asked)| asked.sent && asked.settled.is_none())
            .map(|(seq, asked)| (*seq, asked))
    }

    /// Where the run's clock stood at the last entry that says so.
    #[must_use]
    pub fn at(&self) -> Option<LogicalMs> {
        self.at
    }

    /// Guest compute that the journal accounts for, in microseconds.
    #[must_use]
    pub fn cost_us(&self) -> u64 {
        self.cost_us
    }
}
