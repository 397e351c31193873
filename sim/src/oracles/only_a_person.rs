//! I2: only a person records a decision.

use super::Oracle;
use crate::fakes::Seen;
use hub::model::call::{Binding, Seq};
use hub::model::ids::RunId;
use hub::model::journal::Entry;
use hub::model::policy::Choice;
use hub::model::time::WallMs;
use std::collections::BTreeMap;

/// Every decision in a journal was an answer of the person first, given before its question expired, and
/// covers nothing that differs in tool, connection or contract from what they saw.
#[derive(Debug, Default)]
pub struct OnlyAPerson {
    answered: BTreeMap<(RunId, u32, Choice), Vec<Option<WallMs>>>,
    asked: BTreeMap<(RunId, u32), (WallMs, Binding)>,
}

/// May one answer for the rest of the run cover both?
fn alike(a: &Binding, b: &Binding) -> bool {
    a.tool == b.tool && a.connection == b.connection && a.contract == b.contract
}

impl Oracle for OnlyAPerson {
    fn name(&self) -> &'static str {
        "i2_only_a_person_records_a_decision"
    }

    fn see(&mut self, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Answered { run, seq, choice, wall } => {
                self.answered.entry((run.clone(), *seq, *choice)).or_default().push(*wall);
                Ok(())
            }
            Seen::Durable { run, entry: Entry::Question(question) } => {
                let asked = (question.expires, question.binding.clone());
                self.asked.insert((run.clone(), question.seq.0), asked);
                Ok(())
            }
            Seen::Durable { run, entry: Entry::Decided { seqs, choice, .. } } => {
                let wide = matches!(choice, Choice::Run | Choice::Always);
                let asked = |seq: &Seq| self.asked.get(&(run.clone(), seq.0));
                let given = |seq: &Seq| {
                    let expires = asked(seq).map(|(expires, _)| *expires);
                    let in_time = |wall: &Option<WallMs>| {
                        wall.zip(expires).is_none_or(|(wall, expires)| wall < expires)
                    };
                    let answers = self.answered.get(&(run.clone(), seq.0, *choice));
                    answers.is_some_and(|answers| answers.iter().any(in_time))
                };
                let covers = |by: &Seq| {
                    let by = asked(by).map(|(_, binding)| binding);
                    seqs.iter().all(|seq| {
                        by.zip(asked(seq)).is_some_and(|(by, (_, binding))| alike(by, binding))
                    })
                };
                let covered = if wide {
                    seqs.iter().filter(|seq| given(seq)).any(covers)
                } else {
                    seqs.iter().all(given)
                };
                if covered && !seqs.is_empty() {
                    Ok(())
                } else {
                    Err(format!(
                        "{choice:?} of {seqs:?} is on record and no person gave it in time"
                    ))
                }
            }
            Seen::Durable { .. }
            | Seen::Reached { .. }
            | Seen::Forbidden { .. }
            | Seen::Published { .. }
            | Seen::Crashed
            | Seen::Started => Ok(()),
        }
    }
}
