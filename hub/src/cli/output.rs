//! Results to standard output, everything else to standard error, and the exit status.

use crate::driver::HubError;
use crate::model::error::Failure;
use crate::ports::store::StoreError;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::ExitCode;

/// How results are printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    pub(super) json: bool,
}

/// How a command that did not break ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    Ok,
    Failed,
    WaitsForPerson,
}

/// Why a command broke: what, and what to do next.
#[derive(Debug)]
pub(super) struct Failed {
    code: String,
    message: String,
    hint: Option<String>,
    status: u8,
}

impl Failed {
    pub(super) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failed {
        Failed {
            code: "usage".to_owned(),
            message: message.into(),
            hint: Some(hint.into()),
            status: 2,
        }
    }

    pub(super) fn refused(message: impl Into<String>, hint: impl Into<String>) -> Failed {
        Failed {
            code: "refused".to_owned(),
            message: message.into(),
            hint: Some(hint.into()),
            status: 1,
        }
    }

    /// A person is needed and cannot be asked here.
    pub(super) fn needs_person(message: impl Into<String>, hint: impl Into<String>) -> Failed {
        Failed {
            code: "needs_person".to_owned(),
            message: message.into(),
            hint: Some(hint.into()),
            status: 3,
        }
    }

    pub(super) fn internal(message: &str) -> Failed {
        Failed { code: "internal".to_owned(), message: message.to_owned(), hint: None, status: 1 }
    }
}

impl From<HubError> for Failed {
    fn from(error: HubError) -> Failed {
        let code = match &error {
            HubError::Store(error) => Failure::from(error).code.to_string(),
            HubError::Secrets(error) => crate::driver::secret_code(error).to_string(),
            HubError::Settings(_)
            | HubError::NoSource(_)
            | HubError::NamespaceTaken(_)
            | HubError::NotConsented(_)
            | HubError::Unauthorized { .. }
            | HubError::NoConnection { .. }
            | HubError::Unreachable { .. } => "hub".to_owned(),
        };
        Failed { code, message: error.to_string(), hint: error.hint(), status: 1 }
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Failed {
        HubError::from(error).into()
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        Failed {
            code: failure.code.to_string(),
            message: failure.message,
            hint: failure.hint,
            status: 1,
        }
    }
}

impl Output {
    /// Prints a result: `text` for people, `value` with `--json`.
    pub(super) fn result(&self, text: &str, value: impl FnOnce() -> Value) {
        let line = if self.json { value().to_string() } else { text.trim_end().to_owned() };
        if !line.is_empty() {
            // A reader that went away, such as `head`, is no failure.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }

    /// Says something beside the result.
    #[expect(clippy::unused_self, reason = "reads as what it is: the output says it")]
    pub(super) fn say(&self, text: &str) {
        complain(text.trim_end());
    }

    /// Prints why a command broke, and its exit status.
    pub(super) fn failed(&self, failed: &Failed) -> ExitCode {
        if self.json {
            let error = json!({ "error": { "code": failed.code, "message": failed.message, "hint": failed.hint } });
            let _ = writeln!(std::io::stdout(), "{error}");
        } else {
            complain(&format!("error: {}", failed.message.trim_end()));
            if let Some(hint) = &failed.hint {
                complain(&format!("  {}", hint.trim_end()));
            }
        }
        ExitCode::from(failed.status)
    }
}

/// One line of error output. When even that cannot be written, the exit status has to be enough.
fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
