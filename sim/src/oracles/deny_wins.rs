//! What a person forbids does not happen any more.

use super::Oracle;
use crate::fakes::Seen;
use std::collections::BTreeSet;

/// No call of a tool reaches its server once the person forbade it, however far a run was by then.
#[derive(Debug, Default)]
pub struct DenyWins {
    forbidden: BTreeSet<String>,
}

impl Oracle for DenyWins {
    fn name(&self) -> &'static str {
        "a_rule_that_became_deny_wins"
    }

    fn see(&mut self, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Forbidden { tool } => {
                self.forbidden.insert(tool.clone());
                Ok(())
            }
            Seen::Reached { tool, arguments, .. } if self.forbidden.contains(tool) => {
                Err(format!("{tool} {arguments} left although the person forbade it"))
            }
            Seen::Reached { .. }
            | Seen::Durable { .. }
            | Seen::Answered { .. }
            | Seen::Published { .. }
            | Seen::Crashed
            | Seen::Started => Ok(()),
        }
    }
}
