//! I2: only a person records a decision.

use super::Oracle;
use crate::fakes::Seen;
use hub::model::ids::RunId;
use hub::model::journal::Entry;
use hub::model::policy::Choice;
use std::collections::BTreeSet;

/// Every decision in a journal was an answer of the person first.
#[derive(Debug, Default)]
pub struct OnlyAPerson {
    answered: BTreeSet<(RunId, u32, Choice)>,
}

impl Oracle for OnlyAPerson {
    fn name(&self) -> &'static str {
        "i2_only_a_person_records_a_decision"
    }

    fn see(&mut self, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Answered { run, seq, choice } => {
                self.answered.insert((run.clone(), *seq, *choice));
                Ok(())
            }
            Seen::Durable { run, entry: Entry::Decided { seqs, choice, .. } } => {
                let wide = matches!(choice, Choice::Run | Choice::Always);
                let given = |seq: &hub::model::call::Seq| {
                    self.answered.contains(&(run.clone(), seq.0, *choice))
                };
                let covered = if wide { seqs.iter().any(given) } else { seqs.iter().all(given) };
                if covered && !seqs.is_empty() {
                    Ok(())
                } else {
                    Err(format!("{choice:?} of {seqs:?} is on record and no person gave it"))
                }
            }
            Seen::Durable { .. }
            | Seen::Reached { .. }
            | Seen::Published { .. }
            | Seen::Crashed
            | Seen::Started => Ok(()),
        }
    }
}
