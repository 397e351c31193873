//! The journal comes before the call.

use super::{Calls, Oracle};
use crate::fakes::Seen;
use hub::model::call::Seq;
use hub::model::journal::Entry;
use std::collections::BTreeSet;

/// No write reaches its server before its `sent` would survive a crash.
#[derive(Debug, Default)]
pub struct SentBeforeCall {
    calls: Calls,
    sent: BTreeSet<Seq>,
}

impl Oracle for SentBeforeCall {
    fn name(&self) -> &'static str {
        "sent_is_synced_before_the_call"
    }

    fn see(&mut self, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Durable { entry, .. } => {
                self.calls.see(entry);
                if let Entry::Sent { seq, .. } = entry {
                    self.sent.insert(*seq);
                }
                Ok(())
            }
            Seen::Reached { tool, write: true, arguments } => {
                if self.calls.with(tool, arguments).any(|(seq, _)| self.sent.contains(&seq)) {
                    Ok(())
                } else {
                    Err(format!("{tool} {arguments} left without a synced `sent`"))
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
