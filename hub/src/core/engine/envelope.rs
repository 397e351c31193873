//! Fits an answer into its budget: `inlineResultBytes` bounds the envelope's JSON as sent, whole.

use super::Engine;
use crate::core::runs::{Summary, summary};
use crate::model::envelope::{CallLine, Envelope, EnvelopeStatus, Pending, PendingKind, Truncated};
use crate::model::error::Failure;
use crate::model::ids::RunId;
use crate::model::journal::Question;
use crate::model::json::cut;
use crate::model::limits::{
    CALLS_LISTED, LOG_BYTES_SENT, Limits, NOTICE_BYTES_SENT, PENDING_BYTES_SENT,
};
use crate::model::run::RunRecord;
use crate::model::visible::one_line;
use serde_json::Value;

/// Bytes of call lines in one envelope.
const CALL_BYTES_SENT: usize = 4 * 1024;
/// What a list has beyond its members with a comma each.
const BRACKET_BYTES: usize = 1;
/// Characters of arguments in a pending call's summary.
const SUMMARY_CHARS: usize = 200;

/// An envelope before it is cut.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) run_id: RunId,
    pub(super) status: EnvelopeStatus,
    pub(super) result: Option<Value>,
    pub(super) error: Option<Failure>,
    pub(super) logs: Vec<String>,
    pub(super) logs_dropped: bool,
    pub(super) calls: Vec<CallLine>,
    pub(super) pending: Vec<Pending>,
    pub(super) notices: Vec<String>,
}

/// Cuts a draft so that its JSON has at most `bytes_max` bytes. Each part has its own share; what they
/// leave is the result's.
pub(super) fn fit(draft: Draft, bytes_max: u64) -> Envelope {
    let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let whole = usize::try_from(Limits::default().inline_result_bytes).unwrap_or(usize::MAX);
    let share = |part: usize| part.saturating_mul(bytes_max.min(whole)) / whole;
    let Draft {
        run_id,
        status,
        result,
        error,
        mut logs,
        logs_dropped,
        calls,
        pending,
        mut notices,
    } = draft;

    let mut truncated = Truncated { result: false, logs: logs_dropped };
    truncated.logs |= keep_last(&mut logs, share(LOG_BYTES_SENT));
    let mut notice_bytes = share(NOTICE_BYTES_SENT);
    let error = error.map(|error| fit_failure(error, notice_bytes * 3 / 4));
    notice_bytes = notice_bytes.saturating_sub(error.as_ref().map_or(0, json_len));
    let (pending, left_out) = fit_pending(pending, share(PENDING_BYTES_SENT));
    if left_out > 0 {
        notices.insert(0, format!("{left_out} more calls wait for the same decision."));
    }
    let calls = fit_calls(calls, share(CALL_BYTES_SENT));
    let mut envelope = Envelope {
        run_id,
        status,
        result: None,
        error,
        logs,
        calls,
        pending,
        truncated: None,
        notices,
    };

    // The notice that a cut result needs has its place kept, whether it is used or not.
    const CUT_NOTICE_BYTES: usize = 240;
    keep_first(&mut envelope.notices, notice_bytes.saturating_sub(CUT_NOTICE_BYTES));
    if let Some(result) = result {
        let text = result.to_string();
        envelope.truncated = Some(Truncated { result: true, logs: true });
        let room = bytes_max.saturating_sub(json_len(&envelope) + ",\"result\":".len());
        if text.len() <= room {
            envelope.result = Some(result);
        } else {
            let shown = cut_for_string(&text, room.saturating_sub(CUT_NOTICE_BYTES));
            envelope.notices.push(format!(
                "The result has {} bytes; the first {} are shown, as a string. Return less: pick fields, filter or summarise in code.",
                text.len(),
                shown.len()
            ));
            envelope.result = Some(Value::String(shown.to_owned()));
            truncated.result = true;
        }
    }
    envelope.truncated = (truncated != Truncated::default()).then_some(truncated);
    envelope
}

fn json_len<T: serde::Serialize>(value: &T) -> usize {
    serde_json::to_string(value).map_or(usize::MAX / 4, |text| text.len())
}

/// The longest start of `text` whose JSON string has at most `room` bytes.
fn cut_for_string(text: &str, room: usize) -> &str {
    let mut used = 2;
    for (at, c) in text.char_indices() {
        used += match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            c if c < ' ' => 6,
            c => c.len_utf8(),
        };
        if used > room {
            return cut(text, at);
        }
    }
    text
}

/// Keeps the newest lines that fit; a line that does not fit alone is cut. Was anything left out?
fn keep_last(lines: &mut Vec<String>, bytes_max: usize) -> bool {
    let mut used = BRACKET_BYTES;
    let mut kept: Vec<String> = Vec::new();
    let mut left_out = false;
    for line in lines.iter().rev() {
        let room = bytes_max.saturating_sub(used);
        let bytes = json_len(line) + 1;
        if bytes <= room {
            kept.push(line.clone());
            used += bytes;
            continue;
        }
        left_out = true;
        if kept.is_empty() {
            kept.push(cut_for_string(line, room.saturating_sub(1)).to_owned());
        }
        break;
    }
    kept.reverse();
    *lines = kept;
    left_out
}

/// Keeps the first lines that fit, cut ones included.
fn keep_first(lines: &mut Vec<String>, bytes_max: usize) {
    let mut used = BRACKET_BYTES;
    let mut kept = Vec::new();
    for line in lines.iter() {
        let room = bytes_max.saturating_sub(used);
        let line = if json_len(line) < room {
            line.as_str()
        } else {
            cut_for_string(line, room.saturating_sub(1))
        };
        if line.is_empty() {
            break;
        }
        used += json_len(&line) + 1;
        kept.push(line.to_owned());
    }
    *lines = kept;
}

fn fit_failure(mut failure: Failure, bytes_max: usize) -> Failure {
    let spare = bytes_max.saturating_sub(64);
    let hint = failure.hint.take().map(|hint| cut_for_string(&hint, spare / 2).to_owned());
    let room = spare.saturating_sub(hint.as_ref().map_or(0, json_len));
    failure.message = cut_for_string(&failure.message, room).to_owned();
    failure.hint = hint;
    failure
}

fn fit_pending(pending: Vec<Pending>, bytes_max: usize) -> (Vec<Pending>, usize) {
    let all = pending.len();
    let mut used = BRACKET_BYTES;
    let mut kept = Vec::new();
    for one in pending {
        used += json_len(&one) + 1;
        if used > bytes_max && !kept.is_empty() {
            break;
        }
        kept.push(one);
    }
    let left_out = all - kept.len();
    (kept, left_out)
}

/// Many calls become one line per tool, then the last ones; at most `bytes_max` bytes.
fn fit_calls(calls: Vec<CallLine>, bytes_max: usize) -> Vec<CallLine> {
    let mut lines = if calls.len() > CALLS_LISTED {
        let mut per_tool: Vec<CallLine> = Vec::new();
        for call in &calls {
            match per_tool.iter_mut().find(|line| line.address == call.address) {
                Some(line) => {
                    line.ok &= call.ok;
                    line.ms = line.ms.saturating_add(call.ms);
                    line.count = line.count.map(|count| count + 1);
                }
                None => per_tool.push(CallLine { count: Some(1), ..call.clone() }),
            }
        }
        per_tool.extend(calls.into_iter().rev().take(CALLS_LISTED).rev());
        per_tool
    } else {
        calls
    };
    while json_len(&lines) > bytes_max && !lines.is_empty() {
        lines.remove(0);
    }
    lines
}

/// How the person learns of a run's questions, which decides what the model tells them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// On a page that opened in their browser.
    Page,
    /// Nowhere yet: a page could not be opened.
    NoPage,
    /// By another process, on whatever channel it has.
    Elsewhere,
    /// It is not said; whoever drives the run knows.
    Unknown,
}

impl Asked {
    /// What the model is told: never an address, never a token.
    fn message(self, id: &RunId, hours: u64) -> String {
        let terminal = format!("in their own terminal, with `capabilities hub approve {id}`");
        let where_to = match self {
            Asked::Page => format!(
                "A page opened in the user's browser. Ask the user to decide there within {hours} h, or {terminal}"
            ),
            Asked::NoPage => format!(
                "No page could be opened here. Ask the user to decide within {hours} h, {terminal}"
            ),
            Asked::Elsewhere => format!(
                "The user was asked already. Ask them to decide within {hours} h, where they were asked or {terminal}"
            ),
            Asked::Unknown => format!("Ask the user to decide within {hours} h, {terminal}"),
        };
        format!("{where_to}; then call execute with {{\"resume\": \"{id}\"}}.")
    }
}

/// The envelope of a run that waits for a person.
#[must_use]
pub fn pending_envelope(
    record: &RunRecord,
    questions: &[Question],
    calls: Vec<CallLine>,
    asked: Asked,
) -> Envelope {
    let id = &record.id;
    let pending = questions.iter().enumerate().map(|(at, question)| {
        let connection =
            question.binding.connection.as_ref().map(|c| format!(" on `{c}`")).unwrap_or_default();
        let arguments = one_line(&question.preview, SUMMARY_CHARS);
        let message = (at == 0).then(|| {
            // The same at every resume: what is left of the time is `expires` minus the reader's own.
            let hours = question.expires.0.saturating_sub(question.asked.0).div_ceil(3_600_000);
            asked.message(id, hours)
        });
        Pending {
            id: question.seq.to_string(),
            kind: PendingKind::Approval,
            address: Some(one_line(&question.address, 120)),
            summary: format!("{}{connection} {arguments}", one_line(&question.address, 120)),
            message,
            expires: Some(question.expires),
        }
    });
    fit(
        Draft {
            run_id: id.clone(),
            status: EnvelopeStatus::AwaitingApproval,
            result: None,
            error: None,
            logs: Vec::new(),
            logs_dropped: false,
            calls,
            pending: pending.collect(),
            notices: record.notices.clone(),
        },
        record.limits.inline_result_bytes,
    )
}

/// The envelope of a run that another process drives.
#[must_use]
pub fn running_envelope(record: &RunRecord) -> Envelope {
    let notice =
        "The run is being driven by another process; resume it again in a moment.".to_owned();
    Envelope {
        run_id: record.id.clone(),
        status: EnvelopeStatus::Running,
        result: None,
        error: None,
        logs: Vec::new(),
        calls: Vec::new(),
        pending: Vec::new(),
        truncated: None,
        notices: vec![notice],
    }
}

impl Engine {
    /// What the journal, with what this attempt added, says happened.
    pub(super) fn summary(&self) -> Summary {
        summary(&self.entries, &self.snapshot, &self.blobs)
    }

    /// The calls of this run, in the order they settled.
    pub(super) fn call_lines(&self) -> Vec<CallLine> {
        self.summary().calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::error::ErrorCode;
    use proptest::prelude::*;

    fn draft(result: Option<Value>) -> Draft {
        Draft {
            run_id: RunId::from_random([0; 10]),
            status: EnvelopeStatus::Completed,
            result,
            error: None,
            logs: Vec::new(),
            logs_dropped: false,
            calls: Vec::new(),
            pending: Vec::new(),
            notices: Vec::new(),
        }
    }

    #[test]
    fn a_result_that_does_not_fit_becomes_its_first_bytes_and_says_so() {
        let envelope = fit(draft(Some(Value::String("x".repeat(100_000)))), 24 * 1024);
        assert!(json_len(&envelope) <= 24 * 1024);
        assert!(json_len(&envelope) > 23 * 1024, "the budget is used");
        assert_eq!(envelope.truncated, Some(Truncated { result: true, logs: false }));
        assert!(
            envelope.notices[0].starts_with("The result has 100002 bytes"),
            "{}",
            envelope.notices[0]
        );
    }

    #[test]
    fn null_is_a_result_and_none_is_not() {
        let text = serde_json::to_string(&fit(draft(Some(Value::Null)), 24 * 1024)).unwrap();
        assert!(text.contains("\"result\":null"));
        assert_eq!(serde_json::from_str::<Envelope>(&text).unwrap().result, Some(Value::Null));
        let text = serde_json::to_string(&fit(draft(None), 24 * 1024)).unwrap();
        assert!(!text.contains("\"result\""));
    }

    #[test]
    fn many_calls_are_counted_per_tool_and_the_last_ones_listed() {
        let line =
            |n: u64| CallLine { address: format!("a.t{}", n % 2), ok: n != 3, ms: 1, count: None };
        let calls = fit_calls((0..50).map(line).collect(), CALL_BYTES_SENT);
        assert_eq!(calls.len(), 22);
        assert_eq!(
            calls[0],
            CallLine { address: "a.t0".into(), ok: true, ms: 25, count: Some(25) }
        );
        assert_eq!(
            calls[1],
            CallLine { address: "a.t1".into(), ok: false, ms: 25, count: Some(25) }
        );
    }

    proptest! {
        #[test]
        fn nothing_ever_exceeds_the_budget(
            result in proptest::option::of("(?s).{0,200}"), times in 1usize..150, limit in 8u64 * 1024..24 * 1024,
            logs in proptest::collection::vec("(?s).{0,80}", 0..6), message in "(?s).{0,300}", calls in 0usize..80, pending in 0usize..60,
        ) {
            let mut draft = draft(result.map(|text| Value::String(text.repeat(times))));
            draft.logs = logs.iter().map(|line| line.repeat(times)).collect();
            draft.error = Some(Failure::new(ErrorCode::UncaughtError, message.repeat(times)));
            draft.notices = vec![message.repeat(times); 4];
            draft.calls = (0..calls).map(|n| CallLine { address: format!("{message}.t{n}"), ok: true, ms: 1, count: None }).collect();
            draft.pending = (0..pending).map(|n| Pending {
                id: n.to_string(), kind: PendingKind::Approval, address: Some("a.b".into()),
                summary: one_line(&message, 300), message: None, expires: None,
            }).collect();
            let envelope = fit(draft, limit);
            prop_assert!(json_len(&envelope) as u64 <= limit, "{} over {limit}", json_len(&envelope));
            // Each part keeps its share, whatever the others leave.
            let share = |part: usize| part * usize::try_from(limit).unwrap() / (24 * 1024);
            let error = envelope.error.as_ref().map_or(0, json_len);
            for (part, bytes, bytes_max) in [
                ("logs", json_len(&envelope.logs), share(LOG_BYTES_SENT)),
                ("error and notices", error + json_len(&envelope.notices), share(NOTICE_BYTES_SENT)),
                ("pending", json_len(&envelope.pending), share(PENDING_BYTES_SENT)),
                ("calls", json_len(&envelope.calls), share(CALL_BYTES_SENT)),
            ] {
                prop_assert!(bytes <= bytes_max, "{part}: {bytes} over {bytes_max}");
            }
            prop_assert!(envelope.calls.iter().filter(|line| line.count.is_none()).count() <= CALLS_LISTED);
        }
    }
}
