//! A question in words, the same on every channel.

use crate::model::journal::Question;
use crate::model::policy::{Because, Choice};
use crate::model::time::WallMs;

/// Every choice there is, mildest first.
pub(super) const CHOICES: [Choice; 4] = [Choice::Deny, Choice::Once, Choice::Run, Choice::Always];

/// A choice in a person's words.
pub(super) fn label(choice: Choice) -> &'static str {
    match choice {
        Choice::Once => "Allow once",
        Choice::Run => "Allow for this run",
        Choice::Always => "Always allow",
        Choice::Deny => "Deny",
    }
}

/// What a choice does, exactly.
pub(super) fn effect(choice: Choice, calls: usize) -> &'static str {
    match (choice, calls) {
        (Choice::Once, 0 | 1) => "this call runs",
        (Choice::Once, _) => "these calls run",
        (Choice::Run, _) => "this tool runs for the rest of the run",
        (Choice::Always, _) => "a rule, for as long as the tool stays what it is now",
        (Choice::Deny, 0 | 1) => "the call fails",
        (Choice::Deny, _) => "the calls fail",
    }
}

/// A choice as it crosses a form; a stable word.
pub(super) fn word(choice: Choice) -> &'static str {
    match choice {
        Choice::Once => "once",
        Choice::Run => "run",
        Choice::Always => "always",
        Choice::Deny => "deny",
    }
}

/// The choice of that word.
pub(super) fn choice_of(text: &str) -> Option<Choice> {
    CHOICES.into_iter().find(|choice| word(*choice) == text)
}

/// Does a choice reach beyond the calls that are shown?
pub(super) fn is_wide(choice: Choice) -> bool {
    match choice {
        Choice::Run | Choice::Always => true,
        Choice::Once | Choice::Deny => false,
    }
}

/// Why it asks, as one sentence's end.
pub(super) fn why(question: &Question) -> String {
    question.because.iter().map(Because::sentence).collect::<Vec<_>>().join("; ")
}

/// How long a question stays open, as `23 h 59 min`.
pub(super) fn open_for(question: &Question, now: WallMs) -> String {
    let minutes = question.expires.0.saturating_sub(now.0) / 60_000;
    match (minutes / 60, minutes % 60) {
        (0, 0) => "less than a minute".to_owned(),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// Questions about one tool, connection and contract: one decision may cover them all.
pub(super) fn groups(questions: &[Question]) -> Vec<Vec<&Question>> {
    let mut groups: Vec<Vec<&Question>> = Vec::new();
    for question in questions {
        let same = |group: &&mut Vec<&Question>| {
            group.first().is_some_and(|first| {
                let (a, b) = (&first.binding, &question.binding);
                a.tool == b.tool && a.connection == b.connection && a.contract == b.contract
            })
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(question),
            None => groups.push(vec![question]),
        }
    }
    groups
}
