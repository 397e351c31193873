//! Rules about the whole history, each under the name of what it watches.

mod allowed;
mod at_most_once;
mod deny_wins;
mod only_a_person;
mod sent_before_call;

pub use allowed::AllowOnRecord;
pub use at_most_once::AtMostOnce;
pub use deny_wins::DenyWins;
pub use only_a_person::OnlyAPerson;
pub use sent_before_call::SentBeforeCall;

use crate::fakes::Seen;
use hub::model::call::{Binding, Seq};
use hub::model::digest::Digest;
use hub::model::journal::Entry;
use std::collections::BTreeMap;

/// A rule, fed one event at a time.
pub trait Oracle {
    /// Its name.
    fn name(&self) -> &'static str;
    /// Looks at the next event.
    ///
    /// # Errors
    /// The rule was broken, and how.
    fn see(&mut self, seen: &Seen) -> Result<(), String>;
}

/// Every rule there is.
#[must_use]
pub fn all() -> Vec<Box<dyn Oracle>> {
    vec![
        Box::new(OnlyAPerson::default()),
        Box::new(AtMostOnce::default()),
        Box::new(SentBeforeCall::default()),
        Box::new(AllowOnRecord::default()),
        Box::new(DenyWins::default()),
    ]
}

/// Runs every rule over a history; what was broken, a line each. One violation does not hide another.
#[must_use]
pub fn judge(history: &[Seen]) -> Vec<String> {
    let mut broken = Vec::new();
    for mut oracle in all() {
        for (step, seen) in history.iter().enumerate() {
            if let Err(what) = oracle.see(seen) {
                broken.push(format!("{}: {what} (step {step})", oracle.name()));
                break;
            }
        }
    }
    broken
}

/// The calls a journal knows, as far as it would survive a crash.
#[derive(Debug, Default)]
pub(crate) struct Calls(BTreeMap<Seq, Binding>);

impl Calls {
    fn see(&mut self, entry: &Entry) {
        if let Entry::Asked { seq, binding, .. } = entry {
            self.0.insert(*seq, binding.clone());
        }
    }

    /// The calls of exactly these arguments.
    fn with(&self, tool: &str, arguments: &str) -> impl Iterator<Item = (Seq, &Binding)> {
        let digest = Digest::of(arguments.as_bytes());
        let tool = tool.to_owned();
        self.0
            .iter()
            .filter(move |(_, binding)| {
                binding.arguments == digest && binding.tool.raw.as_str() == tool
            })
            .map(|(seq, binding)| (*seq, binding))
    }
}
