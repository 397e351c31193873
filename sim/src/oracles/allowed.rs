//! Nothing leaves without an allow on record for exactly these arguments.

use super::{Calls, Oracle};
use crate::fakes::Seen;
use hub::model::call::{Binding, Seq};
use hub::model::journal::{Entry, Verdict};
use hub::model::names::{ConnectionName, ToolRef};
use hub::model::policy::{Because, Choice, Effect};
use std::collections::{BTreeMap, BTreeSet};

/// What an answer for the rest of a run covers: the tool on the connection that was shown.
type Granted = (ToolRef, Option<ConnectionName>);

fn granted(binding: &Binding) -> Granted {
    (binding.tool.clone(), binding.connection.clone())
}

/// A write reaches its server only if policy allowed that call, or a person allowed it or its tool.
#[derive(Debug, Default)]
pub struct AllowOnRecord {
    calls: Calls,
    allowed: BTreeSet<Seq>,
    asked: BTreeMap<Seq, Granted>,
    granted: BTreeSet<Granted>,
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
                    self.allowed.contains(&seq) || self.granted.contains(&granted(binding))
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
            | Seen::Forbidden { .. }
            | Seen::Crashed
            | Seen::Started => Ok(()),
        }
    }
}

impl AllowOnRecord {
    fn note(&mut self, entry: &Entry) {
        match entry {
            // A rule or a review allows by itself; that a person did is looked up, not believed.
            Entry::Asked { seq, verdict: Verdict::Ruled(ruling), .. }
                if ruling.effect == Effect::Allow
                    && !ruling.because.contains(&Because::RunGrant)
                    && !ruling.because.contains(&Because::Decision) =>
            {
                self.allowed.insert(*seq);
            }
            Entry::Question(question) => {
                self.asked.insert(question.seq, granted(&question.binding));
            }
            Entry::Decided { seqs, choice, .. } if *choice != Choice::Deny => {
                for seq in seqs {
                    self.allowed.insert(*seq);
                    if matches!(choice, Choice::Run | Choice::Always)
                        && let Some(shown) = self.asked.get(seq)
                    {
                        self.granted.insert(shown.clone());
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
