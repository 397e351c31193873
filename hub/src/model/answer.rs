//! Answers that decided nothing, and why. They are kept beside a run and never decide anything.

use super::call::Seq;
use super::digest::Digest;
use super::policy::{Channel, Choice};
use super::time::WallMs;
use serde::{Deserialize, Serialize};

/// Refused answers kept of one run, at most. Forged ones apart. A run that has so many takes none from a client any more:
/// what is not written down could be tried again.
pub const REFUSED_KEPT: usize = 200;
/// Forged answers kept of one run, at most; whoever forges must not use up the rest.
pub const FORGED_KEPT: usize = 50;
/// An answer that comes sooner after its question was first sent is no person's.
pub const PERSON_MS_MIN: u64 = 1_000;

/// Why an answer decides nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotDecided {
    /// No such call waits.
    #[error("no call with this number waits for a decision")]
    NotPending,
    /// Somebody was faster.
    #[error("this call is already decided")]
    AlreadyDecided,
    /// Too late.
    #[error("the question has expired")]
    Expired,
    /// What waits is not what was shown.
    #[error("the call that waits differs from the one that was shown")]
    Differs,
    /// Part of the arguments was not shown.
    #[error("part of the arguments was not shown, so only this one call can be allowed")]
    CutPreview,
    /// It came within a second of the question: a program answered.
    #[error("the answer came faster than a person can read")]
    TooFast,
    /// The same answer was given before.
    #[error("this answer was used before")]
    Used,
    /// The client's prompts are off: by setting, or since a program answered one.
    #[error("answers from this client are not taken")]
    NotHeard,
    /// It names none of the choices.
    #[error("the answer is none of the choices")]
    Unreadable,
    /// It was not made from what the hub sent.
    #[error("the answer is forged")]
    Forged,
}

/// An answer that decided nothing, as it is kept in `runs/<id>.refused.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedAnswer {
    /// The call it named, if it named one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seq: Option<Seq>,
    /// What it chose, if that could be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub choice: Option<Choice>,
    /// Where it came from.
    pub channel: Channel,
    /// Why it decided nothing.
    pub why: NotDecided,
    /// When.
    pub wall: WallMs,
    /// The single-use number it carried: used up, whatever became of the answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub nonce: Option<Digest>,
}

impl RefusedAnswer {
    /// Is it kept after `before`? There is an end to it, so that nobody can fill the store.
    #[must_use]
    pub fn is_kept_after(&self, before: &[RefusedAnswer]) -> bool {
        let forged = before.iter().filter(|one| one.why == NotDecided::Forged).count();
        match self.why {
            NotDecided::Forged => forged < FORGED_KEPT,
            NotDecided::NotPending
            | NotDecided::AlreadyDecided
            | NotDecided::Expired
            | NotDecided::Differs
            | NotDecided::CutPreview
            | NotDecided::TooFast
            | NotDecided::Used
            | NotDecided::NotHeard
            | NotDecided::Unreadable => before.len() - forged < REFUSED_KEPT,
        }
    }
}
