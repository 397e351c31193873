//! Credentials through the real binary: entered, sent where they belong, removed, and never seen again.

mod canary;
mod connections;

use crate::support::TestHub;
use sim::answer::Unattended;

/// A credential with every character that some encoding changes.
pub(crate) const CANARY: &str = "s3cr3t/t0k+n\"<&'~9Zq";

/// Enters a credential over standard input.
pub(crate) fn enter(hub: &TestHub, arguments: &[&str], value: &str) -> Unattended {
    let mut command = hub.command(["auth", "--stdin"]);
    command.args(arguments);
    hub.run_with(&command, &format!("{value}\n"))
}

/// As [`enter`], which must succeed.
#[track_caller]
pub(crate) fn entered(hub: &TestHub, arguments: &[&str], value: &str) -> String {
    let ended = enter(hub, arguments, value);
    assert_eq!(ended.status, 0, "{ended:#?}");
    ended.stdout
}
