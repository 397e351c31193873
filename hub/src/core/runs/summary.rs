//! What a journal says happened: the calls in the order they ended, and which writes happened or may have.

use crate::model::call::{Outcome, Seq};
use crate::model::digest::Digest;
use crate::model::envelope::CallLine;
use crate::model::error::ErrorCode;
use crate::model::journal::{Entry, StoredOutcome};
use crate::model::names::ToolRef;
use crate::model::run::Snapshot;
use std::collections::{BTreeMap, BTreeSet};

/// What is known to have happened in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// One line per call that ended.
    pub calls: Vec<CallLine>,
    happened: BTreeMap<String, u32>,
    perhaps: BTreeMap<String, u32>,
}

/// Folds a journal. `blobs` holds outcomes that are kept elsewhere; one that is not there counts as fine.
#[must_use]
pub fn summary(
    entries: &[Entry],
    snapshot: &Snapshot,
    blobs: &BTreeMap<Digest, Outcome>,
) -> Summary {
    let mut summary = Summary::default();
    let mut addresses: BTreeMap<Seq, String> = BTreeMap::new();
    let mut open_writes: BTreeSet<Seq> = BTreeSet::new();
    for entry in entries {
        match entry {
            Entry::Asked { seq, binding, .. } => {
                addresses.insert(*seq, address(snapshot, &binding.tool));
            }
            Entry::Sent { seq, .. } => {
                open_writes.insert(*seq);
            }
            Entry::Settled { seq, outcome, ms, .. } => {
                let address = addresses.get(seq).cloned().unwrap_or_else(|| seq.to_string());
                let outcome = match outcome {
                    StoredOutcome::Inline(outcome) => Some(outcome),
                    StoredOutcome::Blob(digest) => blobs.get(digest),
                };
                summary.settle(address, outcome, *ms, open_writes.remove(seq));
            }
            Entry::Timer { .. }
            | Entry::Lookup { .. }
            | Entry::Question(_)
            | Entry::Decided { .. }
            | Entry::Paused { .. }
            | Entry::Resumed { .. }
            | Entry::Ended { .. } => {}
        }
    }
    for seq in open_writes {
        let address = addresses.get(&seq).cloned().unwrap_or_else(|| seq.to_string());
        *summary.perhaps.entry(address).or_default() += 1;
    }
    summary
}

impl Summary {
    fn settle(&mut self, address: String, outcome: Option<&Outcome>, ms: u64, write: bool) {
        let failure = outcome.and_then(|outcome| match outcome {
            Outcome::Failed(failure) => Some(failure.code),
            Outcome::Value(_) | Outcome::ParsedText(_) => None,
        });
        let ok = failure.is_none();
        // Two failures are about what came back of a call that was made.
        let made =
            ok || matches!(failure, Some(ErrorCode::ResultTooLarge | ErrorCode::StoreFailed));
        if write && failure == Some(ErrorCode::OutcomeUnknown) {
            *self.perhaps.entry(address.clone()).or_default() += 1;
        } else if write && made {
            *self.happened.entry(address.clone()).or_default() += 1;
        }
        self.calls.push(CallLine { address, ok, ms, count: None });
    }

    /// What a reader of a run that did not complete must know before doing anything again.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let listed = |writes: &BTreeMap<String, u32>| {
            let lines: Vec<String> = writes
                .iter()
                .map(|(address, count)| match count {
                    1 => address.clone(),
                    many => format!("{address} ({many} times)"),
                })
                .collect();
            lines.join(", ")
        };
        let mut notices = Vec::new();
        if !self.happened.is_empty() {
            let happened = listed(&self.happened);
            notices.push(format!("These writes happened and are not undone: {happened}."));
        }
        if !self.perhaps.is_empty() {
            notices.push(format!(
                "These writes may have happened; check before repeating them: {}.",
                listed(&self.perhaps)
            ));
        }
        notices
    }
}

/// `<namespace>.<tool>` of a tool that the snapshot has, else its own name.
#[must_use]
pub fn address(snapshot: &Snapshot, tool: &ToolRef) -> String {
    let source = snapshot.sources.iter().find(|source| source.id == tool.source);
    let found = source.and_then(|source| source.tools.iter().find(|one| one.raw == tool.raw));
    match (source, found) {
        (Some(source), Some(found)) => format!("{}.{}", source.namespace, found.name),
        (Some(_) | None, _) => tool.raw.to_string(),
    }
}
