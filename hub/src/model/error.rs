//! Every error code a program can see: stable, one line each, with what to do next.

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal, $hint:expr;)*) => {
        /// Stable code of an error. Never renamed, never reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum ErrorCode {
            $($(#[doc = $doc])* #[serde(rename = $text)] $name,)*
        }

        impl ErrorCode {
            /// Every code, in the order of the table in the README.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$name),*];

            /// The code as programs see it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$name => $text,)* }
            }

            /// One line on what the code means.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(ErrorCode::$name => concat!($($doc),*).trim_ascii(),)* }
            }

            /// What to do next, where the place that raises it knows nothing better.
            #[must_use]
            pub fn hint(self) -> &'static str {
                match self { $(ErrorCode::$name => $hint,)* }
            }
        }
    };
}

codes! {
    /// An argument of `search`, `describe` or `execute` is missing, unknown or out of range.
    InvalidInput = "invalid_input", "Correct the named field and call again.";
    /// The code is larger than `codeBytes`.
    CodeTooLarge = "code_too_large", "Send less code: pass data through tools instead of literals, or split the task over several runs.";
    /// The code does not parse.
    SyntaxError = "syntax_error", "Fix the shown line and send the whole code again. Nothing ran.";
    /// The code uses TypeScript or module syntax that has no plain JavaScript form here.
    UnsupportedSyntax = "unsupported_syntax", "Write plain JavaScript; type annotations are fine. Nothing ran.";
    /// The code contains a value that the hub keeps secret.
    SecretInCode = "secret_in_code", "Remove the credential from the code; the hub adds credentials to calls by itself. Nothing ran.";
    /// The code threw, and nothing in it caught that.
    UncaughtError = "uncaught_error", "Fix the code, or catch the error. Calls listed as made are not undone.";
    /// The code waits for a promise that nothing can settle.
    NeverSettles = "never_settles", "Await only calls, timers or promises that the code resolves itself.";
    /// The returned value cannot be written as JSON.
    ResultNotJson = "result_not_json", "Return plain data: objects, arrays, strings, numbers, booleans or null.";
    /// The code computed for longer than `computeMs`.
    ComputeLimit = "compute_limit", "Do less work per run: filter early, avoid quadratic loops, or split the task.";
    /// The attempt took longer than `wallMs`.
    WallLimit = "wall_limit", "Make fewer or faster calls per run, in parallel where they do not depend on each other.";
    /// The code used more memory than `memoryBytes`.
    MemoryLimit = "memory_limit", "Keep less at once: ask tools for smaller pages and keep only the fields you need.";
    /// The run made more calls than `maxCalls`.
    CallLimit = "call_limit", "Ask for larger pages, or split the task over several runs.";
    /// The run asked for more timers or lookups than it may have.
    RequestLimit = "request_limit", "Set fewer timers and make fewer `hub.search` and `hub.describe` lookups.";
    /// Replaying the journal computed for far longer than the first time.
    ReplayLimit = "replay_limit", "Start a new run with the same code; look at the calls already made first.";
    /// The sandbox died: the code crashed the JavaScript engine.
    SandboxCrashed = "sandbox_crashed", "Simplify the code and start a new run. Calls listed as made are not undone.";
    /// The sandbox could not be started.
    SandboxUnavailable = "sandbox_unavailable", "Run `capabilities hub doctor`. Nothing ran.";
    /// On resume the code asked for something else than its journal says.
    Divergence = "divergence", "Start a new run. `capabilities hub runs show <runId>` prints both paths.";
    /// No person decided before the question expired.
    RunExpired = "run_expired", "Start a new run if the task is still wanted.";
    /// The run was cancelled.
    RunCancelled = "run_cancelled", "Start a new run if the task is still wanted.";
    /// There is no run with this id.
    UnknownRun = "unknown_run", "Check the id; `capabilities hub runs` lists the runs that are kept.";
    /// A line of the run's journal is damaged, so nothing of it is run.
    JournalCorrupt = "journal_corrupt", "Start a new run. Keep the file for diagnosis; nothing is repaired silently.";
    /// The journal could not be written, so the run stopped.
    JournalWriteFailed = "journal_write_failed", "Check free space and permissions of the hub's folder, then look at which calls happened before trying again.";
    /// The run was made by a newer hub, or the store was upgraded while this process ran.
    HubUpgraded = "hub_upgraded", "Restart the client so that it starts the newer hub.";
    /// The hub's store could not be read or written.
    StoreFailed = "store_failed", "Run `capabilities hub doctor`; it names the file and what is wrong with it.";
    /// The arguments do not fit the tool's input schema.
    InvalidArguments = "invalid_arguments", "Correct the named argument; `describe` shows the exact types.";
    /// The arguments contain a value that the hub keeps secret.
    SecretInArguments = "secret_in_arguments", "Leave the credential out; the hub adds it by itself. Nothing was sent.";
    /// The named connection does not exist for this source.
    UnknownConnection = "unknown_connection", "Use a connection that `search` lists for the namespace, or leave the option out.";
    /// The credential that the source needs was never entered, or is gone.
    CredentialMissing = "credential_missing", "Ask the user to enter it in their own terminal with `capabilities hub auth`; never ask for it in chat. Nothing was sent.";
    /// The credential was entered for another origin or command than the source has now.
    CredentialElsewhere = "credential_elsewhere", "Ask the user to look at the source and to enter the credential anew with `capabilities hub auth`. Nothing was sent.";
    /// The place where credentials are kept is locked, or access to it was denied.
    KeychainLocked = "keychain_locked", "Ask the user to unlock their keychain, then try again. Nothing was sent.";
    /// The place where credentials are kept failed or did not answer.
    KeychainUnavailable = "keychain_unavailable", "Ask the user to run `capabilities hub doctor`. Nothing was sent.";
    /// A policy rule denies this tool.
    DeniedByPolicy = "denied_by_policy", "Do without this tool, or ask the user to change the rule.";
    /// A person denied this call.
    ApprovalDenied = "approval_denied", "Do not retry this call. Go on without it, or ask the user what they want instead.";
    /// The source no longer has this tool.
    ToolGone = "tool_gone", "Search again; the source may offer another tool for this.";
    /// The source was removed from the hub.
    SourceRemoved = "source_removed", "Use another source, or ask the user to add it again.";
    /// The source could not be started or reached; nothing was sent.
    SourceUnavailable = "source_unavailable", "Try again later, or use another source. Nothing was sent.";
    /// The tool answered that it failed.
    UpstreamError = "upstream_error", "Read the message; correct the arguments or use another tool.";
    /// The source wants credentials that the hub does not have, or no longer accepts them.
    UpstreamUnauthorized = "upstream_unauthorized", "Ask the user to give the hub credentials for this source; never ask for them in chat. Nothing was done.";
    /// The source refuses this call with the credentials it has.
    UpstreamForbidden = "upstream_forbidden", "Use another tool, or ask the user whether the hub's credentials should allow this. Nothing was done.";
    /// The source has had too many requests.
    UpstreamRateLimited = "upstream_rate_limited", "Make fewer calls, and wait as long as `headers['retry-after']` says before trying again. Nothing was done.";
    /// No usable answer to a read came in time.
    UpstreamTimeout = "upstream_timeout", "Try again with a smaller request.";
    /// The answer was lost: the call may or may not have happened.
    OutcomeUnknown = "outcome_unknown", "Do not repeat the call. Check with a read whether it happened, or ask the user.";
    /// The call's result is larger than `callResultBytes`.
    ResultTooLarge = "result_too_large", "Ask for less: a smaller page, a filter or fewer fields.";
    /// The call's result shows the page on which the user decides.
    ApprovalSurface = "approval_surface", "Leave that page to the user: ask them to decide on it. The call was made; its result is withheld.";
    /// The approval state is damaged, foreign, expired or used up.
    BadApprovalState = "bad_approval_state", "Call `execute` with the run id in `resume`.";
    /// Something inside the hub broke a promise of its own.
    Bug = "bug", "This is a fault of the hub. Please report it with the run id.";
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a run or a request failed: a code for programs, a sentence and a hint for readers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable.
    pub code: ErrorCode,
    /// One sentence.
    pub message: String,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hint: Option<String>,
}

impl Failure {
    /// A failure with its code's own hint.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), hint: Some(code.hint().to_owned()) }
    }

    /// The same failure with a better hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    #[test]
    fn every_code_has_a_meaning_and_a_hint() {
        let mut table = String::new();
        for code in ErrorCode::ALL {
            assert!(!code.meaning().is_empty() && !code.hint().is_empty(), "{code}");
            let json = serde_json::to_string(code).unwrap();
            assert_eq!(json, format!("\"{code}\""));
            writeln!(table, "{code}: {} {}", code.meaning(), code.hint()).unwrap();
        }
        insta::assert_snapshot!(table);
    }
}
