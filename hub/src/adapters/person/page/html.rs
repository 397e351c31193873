//! Draws the approval page. Every text in it is escaped by `maud`; nothing of it needs a script.

use super::desk::{Shown, Stage, digest_of};
use crate::adapters::person::words;
use crate::model::envelope::{CallLine, Envelope, EnvelopeStatus};
use crate::model::ids::RunId;
use crate::model::journal::Question;
use crate::model::json::cut;
use crate::model::time::WallMs;
use crate::model::visible::{one_line, visible};
use maud::{DOCTYPE, Markup, html};
use serde_json::Value;

/// Told when an address was used a second time.
pub(super) const TWICE: &str = "The address of this page was opened twice, so somebody else may have had it. The page is closed, and nothing can be decided on it any more.";
/// Told to a browser that was not let in.
pub(super) const NOT_YOURS: &str =
    "This page belongs to another browser, or to a hub that has ended. Nothing was decided.";
/// Bytes of arguments that are shown before the rest is folded.
const UNFOLDED_BYTES: usize = 1_200;
/// Lines of them.
const UNFOLDED_LINES: usize = 24;
/// Bytes that are not folded away alone.
const FOLDED_BYTES_MIN: usize = 120;
/// Bytes of a result that are shown.
const RESULT_BYTES: usize = 4_000;

/// What every page carries.
pub(super) struct View<'a> {
    pub(super) path: &'a str,
    pub(super) csrf: &'a str,
    pub(super) mark: &'a str,
    pub(super) version: u64,
    pub(super) now: WallMs,
}

/// The whole page.
pub(super) fn page(view: &View<'_>, runs: &[Shown]) -> String {
    let open: usize = runs.iter().map(open_calls).sum();
    let heading = match open {
        0 => "Nothing waits for you".to_owned(),
        1 => "One call waits for your decision".to_owned(),
        many => format!("{many} calls wait for your decision"),
    };
    let title = if open == 0 { "Nothing waits".to_owned() } else { format!("({open}) Decide") };
    let (waiting, over): (Vec<&Shown>, Vec<&Shown>) =
        runs.iter().partition(|shown| open_calls(shown) > 0);
    let body = html! {
        h1 { (heading) }
        @if open > 0 {
            p { "Code that an agent wrote asks for them. None of them has happened yet." }
        }
        @for shown in waiting { (run(view, shown)) }
        @for shown in over.iter().rev() { (run(view, shown)) }
        footer {
            p { "Mark of this page: " code { (view.mark) } ". What a tool answers with this mark in it is withheld, so that no tool reads this page to an agent." }
        }
    };
    let title = format!("{title} · capabilities · {}", view.mark);
    document(view.path, &title, Some(view.version), &body)
}

/// A page with nothing but a reason on it.
pub(super) fn closed(path: &str, why: &str) -> String {
    let body = html! {
        h1 { "Not here" }
        p { (why) }
        p { "You can always decide in your own terminal:" }
        pre { "capabilities hub approve" }
    };
    document(path, "Not here · capabilities", None, &body)
}

fn document(path: &str, title: &str, version: Option<u64>, body: &Markup) -> String {
    let events = version.map(|_| format!("{path}events"));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (title) }
                link rel="stylesheet" href=(format!("{path}page.css"));
                script src=(format!("{path}page.js")) defer {}
            }
            body data-events=[events] data-version=[version] {
                main { (body) }
                p #ended role="status" hidden {
                    "The hub that opened this page has ended. Decide in your own terminal: "
                    code { "capabilities hub approve" }
                }
            }
        }
    }
    .into_string()
}

fn open_calls(shown: &Shown) -> usize {
    if shown.stage == Stage::Waits { shown.waiting.questions.len() } else { 0 }
}

fn run(view: &View<'_>, shown: &Shown) -> Markup {
    let record = &shown.waiting.record;
    let id = record.id.as_str();
    html! {
        section.run aria-labelledby=(id) {
            h2 #(id) { "Run " code { (id) } }
            @if !shown.notes.is_empty() {
                div.notes role="status" { @for note in &shown.notes { p { (note) } } }
            }
            @match &shown.stage {
                Stage::Waits if shown.waiting.questions.is_empty() => {
                    p.state { "Decided. The agent can go on; this page says how the run ends." }
                }
                Stage::Waits => {
                    @for group in words::groups(&shown.waiting.questions) {
                        (decision(view, &record.id, &group))
                    }
                }
                Stage::Ended(envelope) => { (outcome(envelope)) }
                Stage::Gone => {
                    p.state { "This run is not decided here any more." }
                }
            }
            (program(shown))
            @if !matches!(shown.stage, Stage::Ended(_)) {
                (calls_made(&shown.waiting.calls))
            }
        }
    }
}

/// The pending calls of one tool and the choices about them.
fn decision(view: &View<'_>, run: &RunId, group: &[&Question]) -> Markup {
    let Some(first) = group.first() else { return html! {} };
    let many = group.len();
    let whole = group.iter().all(|question| question.hidden_bytes == 0);
    let name = format!("{run}-{}", first.seq);
    html! {
        article aria-labelledby=(name) {
            h3 #(name) {
                code { (visible(&first.address, false)) }
                @if let Some(connection) = &first.binding.connection { " on connection " code { (connection) } }
                @if many > 1 { " · " (many) " calls" }
            }
            @if !first.says.is_empty() {
                p.says { "The tool says of itself: " q { (visible(&first.says, false)) } }
            }
            p {
                "It asks because " (words::why(first)) ". "
                span.expires { "Open for " (words::open_for(first, view.now)) "." }
            }
            @if !first.changes.is_empty() {
                ul.changes { @for change in &first.changes { li { (visible(change, false)) } } }
            }
            @for question in group { (call(view, run, question, many > 1)) }
            (form(view, run, group, whole))
        }
    }
}

/// One pending call, with choices of its own where it is one of several.
fn call(view: &View<'_>, run: &RunId, question: &Question, alone: bool) -> Markup {
    let (shown, folded) = fold(&question.preview);
    html! {
        div.call {
            h4 {
                "Call " (question.seq)
                @if let Some(line) = question.line { " · line " (line) }
            }
            pre.arguments { (shown) }
            @if !folded.is_empty() {
                details {
                    summary { "The rest of it: " (folded.len()) " bytes" }
                    pre.arguments { (folded) }
                }
            }
            @if question.hidden_bytes > 0 {
                p.cut { (question.hidden_bytes) " more bytes are not shown, so only single calls can be allowed." }
            }
            @if alone { (single(view, run, question)) }
        }
    }
}

fn hidden_fields(view: &View<'_>, run: &RunId, questions: &[Question], alone: bool) -> Markup {
    html! {
        input type="hidden" name="csrf" value=(view.csrf);
        input type="hidden" name="run" value=(run);
        input type="hidden" name="shown" value=(digest_of(run, questions, alone));
    }
}

/// Deny or allow just this one.
fn single(view: &View<'_>, run: &RunId, question: &Question) -> Markup {
    let what = format!("call {} alone", question.seq);
    html! {
        form.single method="post" action=(format!("{}decide", view.path)) {
            (hidden_fields(view, run, std::slice::from_ref(question), true))
            div.choices {
                button.deny name="choice" value="deny" { "Deny " (what) }
                button name="choice" value="once" { "Allow " (what) }
            }
        }
    }
}

/// The four choices; two, where not everything is shown.
fn form(view: &View<'_>, run: &RunId, group: &[&Question], whole: bool) -> Markup {
    let questions: Vec<Question> = group.iter().map(|&question| question.clone()).collect();
    let all = if group.len() > 1 { format!(" (all {})", group.len()) } else { String::new() };
    let choices = words::CHOICES.into_iter().filter(|choice| whole || !words::is_wide(*choice));
    html! {
        form method="post" action=(format!("{}decide", view.path)) {
            (hidden_fields(view, run, &questions, false))
            div.choices {
                @for choice in choices {
                    @let word = words::word(choice);
                    button.(word) name="choice" value=(word) {
                        strong { (words::label(choice)) @if !words::is_wide(choice) { (all) } }
                        " "
                        span { (words::effect(choice, group.len())) }
                    }
                }
            }
        }
    }
}

/// The code as it runs, with the places where calls wait.
fn program(shown: &Shown) -> Markup {
    let record = &shown.waiting.record;
    // The first line is the hub's own.
    let lines = record.program.split('\n').skip(1).enumerate();
    let waits_at = |number: usize| -> Vec<String> {
        let here = |question: &&Question| {
            question.line.and_then(|line| usize::try_from(line).ok()) == Some(number)
        };
        if shown.stage != Stage::Waits {
            return Vec::new();
        }
        shown.waiting.questions.iter().filter(here).map(|q| q.seq.to_string()).collect()
    };
    let label = format!("The code of {}", record.id);
    html! {
        details.program open[shown.stage == Stage::Waits] {
            summary { "The code" }
            @for notice in &record.notices { p { (notice) } }
            pre.code tabindex="0" role="region" aria-label=(label) {
                @for (at, line) in lines {
                    @let waits = waits_at(at + 1);
                    @let number = format!("{:>4}  ", at + 1);
                    @if waits.is_empty() {
                        span.number aria-hidden="true" { (number) } (visible(line, true)) "\n"
                    } @else {
                        span.waits { "   ↓  " (waits.join(", ")) @if waits.len() == 1 { " waits here" } @else { " wait here" } }
                        "\n"
                        mark {
                            span.number aria-hidden="true" { (number) }
                            (visible(line, true))
                        }
                        "\n"
                    }
                }
            }
        }
    }
}

fn calls_made(calls: &[CallLine]) -> Markup {
    if calls.is_empty() {
        return html! {};
    }
    html! {
        details.made {
            summary { "Calls it made already (" (calls.len()) ")" }
            ul {
                @for call in calls {
                    li {
                        code { (one_line(&call.address, 120)) } " "
                        @if let Some(count) = call.count { (count) " times, " }
                        @if call.ok { "done" } @else { "failed" }
                        " in " (call.ms) " ms"
                    }
                }
            }
        }
    }
}

/// How a run ended.
fn outcome(envelope: &Envelope) -> Markup {
    let how = match envelope.status {
        EnvelopeStatus::Completed => "The run is over: it completed.",
        EnvelopeStatus::Cancelled => "The run is over: it was cancelled.",
        EnvelopeStatus::Failed
        | EnvelopeStatus::Running
        | EnvelopeStatus::AwaitingApproval
        | EnvelopeStatus::AwaitingConnection => "The run is over: it failed.",
    };
    let result = envelope.result.as_ref().map(|result| match result {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            serde_json::to_string_pretty(result).unwrap_or_default()
        }
    });
    html! {
        div.state {
            p { (how) }
            @if let Some(error) = &envelope.error {
                p { (visible(&error.to_string(), true)) }
            }
            @for notice in &envelope.notices { p { (visible(notice, true)) } }
        }
        @if let Some(result) = result {
            details {
                summary { "What it returned" }
                pre.arguments { (visible(cut(&result, RESULT_BYTES), true)) }
                @if result.len() > RESULT_BYTES { p { "The rest is not shown." } }
            }
        }
        (calls_made(&envelope.calls))
    }
}

/// The beginning of a long text, and the rest.
fn fold(text: &str) -> (&str, &str) {
    let lines: usize = text.split_inclusive('\n').take(UNFOLDED_LINES).map(str::len).sum();
    let end = cut(text, lines.min(UNFOLDED_BYTES)).len();
    // What would be folded is not worth it.
    if text.len() - end < FOLDED_BYTES_MIN {
        return (text, "");
    }
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_folded_and_loses_nothing() {
        let lines = |count: usize| "a line\n".repeat(count);
        for (text, unfolded) in [
            (String::new(), 0),
            (lines(24), 168),
            (lines(26), 182),
            (lines(100), 168),
            (format!("{}\nb", "x".repeat(5_000)), 1_200),
            (format!("{{\n{}\n}}", "é".repeat(5_000)), 1_200),
        ] {
            let (shown, folded) = fold(&text);
            assert_eq!(format!("{shown}{folded}"), text);
            assert_eq!(shown.len(), unfolded);
        }
    }
}
