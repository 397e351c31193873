//! Nothing leaves without an allow on record for exactly these arguments.

use super::{Calls, Oracle};
use crate::fakes::Seen;
use hub::model::call::Seq;
use hub::model::digest::Digest;
use hub::model::journal::{Entry, Verdict};
use hub::model::names::ToolRef;
use hub::model::policy::{Choice, Effect};
use std::collections::{BTreeMap, BTreeSet};

/// A write reaches its server only if policy allowed that call, or a person allowed it or its tool.
#[derive(Debug, Default)]
pub struct AllowOnRecord {
    calls: Calls,
    allowed: BTreeSet<Seq>,
    asked: BTreeMap<Seq, (ToolRef, Digest)>,
    granted: BTreeSet<ToolRef>,
}

impl Oracle for AllowOnRecord {
    fn name(&self) -> &'static str {
        "nothing_leaves_without_an_allow_on_record"
    }

    fn see(&mut self, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Durable { entry, .. } => {
                self.calls.see(entry);
                self.note(entry);
                Ok(())
            }
            Seen::Reached { tool, write: true, arguments } => {
                let fine = self.calls.with(tool, arguments).any(|(seq, binding)| {
                    self.allowed.contains(&seq) || self.granted.contains(&binding.tool)
                });
                if fine {
                    Ok(())
                } else {
                    Err(format!("{tool} {arguments} left and nobody allowed it"))
                }
            }
            Seen::Reached { write: false, .. }
            | Seen::Answered { .. }
            | Seen::Published { .. }
            | Seen::Crashed
            | Seen::Started => Ok(()),
        }
    }
}

impl AllowOnRecord {
    fn note(&mut self, entry: &Entry) {
        match entry {
            Entry::Asked { seq, verdict: Verdict::Ruled(ruling), .. }
                if ruling.effect == Effect::Allow =>
            {
                self.allowed.insert(*seq);
            }
            Entry::Question(question) => {
                self.asked.insert(
                    question.seq,
                    (question.binding.tool.clone(), question.binding.arguments),
                );
            }
            Entry::Decided { seqs, choice, .. } if *choice != Choice::Deny => {
                for seq in seqs {
                    self.allowed.insert(*seq);
                    if matches!(choice, Choice::Run | Choice::Always)
                        && let Some((tool, _)) = self.asked.get(seq)
                    {
                        self.granted.insert(tool.clone());
                    }
                }
            }
            Entry::Asked { .. }
            | Entry::Sent { .. }
            | Entry::Settled { .. }
            | Entry::Timer { .. }
            | Entry::Lookup { .. }
            | Entry::Decided { .. }
            | Entry::Paused { .. }
            | Entry::Resumed { .. }
            | Entry::Ended { .. } => {}
        }
    }
}
