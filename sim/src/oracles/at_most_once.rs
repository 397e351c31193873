//! I6: resume never repeats a call.

use super::{Calls, Oracle};
use crate::fakes::Seen;
use hub::model::call::Seq;
use hub::model::journal::Entry;
use std::collections::BTreeSet;

/// A write reaches its server at most once, ever; a read whose outcome is on record not again.
#[derive(Debug, Default)]
pub struct AtMostOnce {
    calls: Calls,
    settled: BTreeSet<Seq>,
    written: BTreeSet<(String, String)>,
}

impl Oracle for AtMostOnce {
    fn name(&self) -> &'static str {
        "i6_resume_never_repeats_a_call"
    }

    fn see(&mut self, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Durable { entry, .. } => {
                self.calls.see(entry);
                if let Entry::Settled { seq, .. } = entry {
                    self.settled.insert(*seq);
                }
                Ok(())
            }
            Seen::Reached { tool, write, arguments } => {
                if *write && !self.written.insert((tool.clone(), arguments.clone())) {
                    return Err(format!("{tool} {arguments} reached its server twice"));
                }
                let known: Vec<Seq> =
                    self.calls.with(tool, arguments).map(|(seq, _)| seq).collect();
                if !known.is_empty() && known.iter().all(|seq| self.settled.contains(seq)) {
                    return Err(format!(
                        "{tool} {arguments} was sent although its outcome is on record"
                    ));
                }
                Ok(())
            }
            Seen::Answered { .. }
            | Seen::Published { .. }
            | Seen::Forbidden { .. }
            | Seen::Crashed
            | Seen::Started => Ok(()),
        }
    }
}
