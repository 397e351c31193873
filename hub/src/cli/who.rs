//! Who is at the keyboard: a person at a terminal, or an agent's shell.

use super::output::Failed;
use crate::adapters::person::TerminalPerson;

/// Variables that agents set in the shells they start; a person's terminal has none of them.
pub const AGENT_VARIABLES: &[&str] = &[
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CURSOR_AGENT",
    "CURSOR_TRACE_ID",
    "GEMINI_CLI",
    "CODEX_SANDBOX",
    "CODEX_THREAD_ID",
    "OPENCODE",
    "OPENCODE_CLIENT",
    "GOOSE_TERMINAL",
    "QWEN_CODE",
    "AIDER",
    "CLINE_ACTIVE",
    "AUGMENT_AGENT",
    "COPILOT_CLI",
    "REPL_AGENT",
    "AGENT",
];

/// The variable that says an agent started this shell, if one does.
fn agent() -> Option<&'static str> {
    AGENT_VARIABLES
        .iter()
        .find(|name| super::wire::variable(name).is_some_and(|value| !value.is_empty()))
        .copied()
}

/// Refuses what widens authority in a shell that an agent started.
///
/// # Errors
/// Names the variable.
pub(super) fn no_agent(what: &str) -> Result<(), Failed> {
    match agent() {
        None => Ok(()),
        Some(name) => Err(Failed::refused(
            format!(
                "`{what}` is for a person, and this shell was started by an agent ({name} is set)"
            ),
            "run it yourself, in your own terminal",
        )),
    }
}

/// May this process ask a person at its terminal?
pub(super) fn can_ask(no_input: bool) -> bool {
    !no_input && agent().is_none() && TerminalPerson::is_reachable()
}
