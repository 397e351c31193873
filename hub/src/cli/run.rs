//! `exec`, `call`, `runs`, `runs show`.
#![expect(clippy::disallowed_methods, reason = "waits for Ctrl-C beside the run")]

use super::args::{CallArguments, ExecArguments, RunsArguments, RunsCommand};
use super::output::{Done, Failed, Output};
use super::who;
use super::wire::{AttendedHub, attended, unattended};
use crate::adapters::person::Preselected;
use crate::driver::{Code, RunView, StopSignal};
use crate::model::envelope::{Envelope, EnvelopeStatus};
use crate::model::ids::RunId;
use crate::model::journal::{Entry, StoredOutcome};
use crate::model::names::Address;
use crate::model::time::WallMs;
use crate::model::visible::{one_line, visible};
use crate::ports::Ports as _;
use crate::ports::clock::Clock as _;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Read as _;

pub(super) async fn exec(
    output: &Output,
    arguments: ExecArguments,
    no_input: bool,
) -> Result<Done, Failed> {
    check_profile(&arguments.profile)?;
    let text = if arguments.code == "-" {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failed::internal(&format!("standard input: {error}")))?;
        text
    } else {
        arguments.code
    };
    run(output, Code { text, profile: arguments.profile }, no_input).await
}

pub(super) async fn call(
    output: &Output,
    arguments: CallArguments,
    no_input: bool,
) -> Result<Done, Failed> {
    check_profile(&arguments.profile)?;
    let address: Address =
        arguments.address.parse().map_err(|error: crate::model::names::NameError| {
            Failed::usage(error.to_string(), "`capabilities hub list` shows the namespaces")
        })?;
    let value: Value = serde_json::from_str(&arguments.arguments).map_err(|error| {
        Failed::usage(
            format!("the arguments are not JSON: {error}"),
            "write one object, such as '{\"name\": 1}'",
        )
    })?;
    if !value.is_object() {
        return Err(Failed::usage(
            "the arguments must be one JSON object",
            "write one object, such as '{\"name\": 1}'",
        ));
    }
    let options = match &arguments.connection {
        Some(name) => format!(", {{ connection: {} }}", Value::String(name.clone())),
        None => String::new(),
    };
    let text = format!("return await {address}({}{options});", literal(&value));
    run(output, Code { text, profile: arguments.profile }, no_input).await
}

/// A value as JavaScript source: JSON, but with integers that a number would round as `BigInt`.
fn literal(value: &Value) -> String {
    const SAFE: u64 = (1 << 53) - 1;
    match value {
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(small), _) if small.unsigned_abs() > SAFE => format!("{small}n"),
            (None, Some(large)) => format!("{large}n"),
            (_, _) => number.to_string(),
        },
        Value::Array(items) => {
            format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(","))
        }
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                // In brackets `__proto__` is a key like any other.
                .map(|(key, member)| {
                    format!("[{}]:{}", Value::String(key.clone()), literal(member))
                })
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.to_string(),
    }
}

pub(super) fn check_profile(profile: &str) -> Result<(), Failed> {
    if profile == "default" {
        return Ok(());
    }
    let message = format!("there is no profile `{}`", one_line(profile, 60));
    Err(Failed::usage(message, "named profiles are planned; the only one is `default`"))
}

async fn run(output: &Output, code: Code, no_input: bool) -> Result<Done, Failed> {
    if code.text.trim().is_empty() {
        return Err(Failed::usage(
            "the code is empty",
            "give the body of an async function, such as 'return 1 + 1'",
        ));
    }
    let hub = attended(Preselected::default())?;
    let mut envelope = hub.execute(code, interrupted()).await?;
    if envelope.status == EnvelopeStatus::AwaitingApproval && who::can_ask(no_input) {
        envelope = ask_and_go_on(&hub, envelope).await?;
    }
    let done = print_envelope(output, &envelope);
    hub.shut_down().await;
    Ok(done)
}

/// Asks the person until nothing of the run waits any more, or they leave it open.
pub(super) async fn ask_and_go_on(
    hub: &AttendedHub,
    mut envelope: Envelope,
) -> Result<Envelope, Failed> {
    while envelope.status == EnvelopeStatus::AwaitingApproval {
        match hub.put_to_person(&envelope.run_id).await? {
            crate::driver::Decided::All | crate::driver::Decided::NothingWaits => {}
            crate::driver::Decided::Some => {
                // What is left to decide is fewer than before, perhaps.
                return Ok(hub.resume(&envelope.run_id.clone(), interrupted()).await?);
            }
        }
        envelope = hub.resume(&envelope.run_id.clone(), interrupted()).await?;
    }
    Ok(envelope)
}

/// Ctrl-C cancels the run, once its writes have settled.
pub(super) fn interrupted() -> StopSignal {
    let (raise, signal) = StopSignal::new();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            raise.send_replace(Some(crate::core::engine::StopBy::Person));
        }
    });
    signal
}

/// The result to standard output, everything else to standard error.
pub(super) fn print_envelope(output: &Output, envelope: &Envelope) -> Done {
    if !output.json {
        for line in &envelope.logs {
            output.say(&visible(line, true));
        }
        for notice in &envelope.notices {
            output.say(&format!("note: {}", visible(notice, true)));
        }
        if let Some(error) = &envelope.error {
            output.say(&format!("error: {}", visible(&error.to_string(), true)));
            if let Some(hint) = &error.hint {
                output.say(&format!("  {}", visible(hint, true)));
            }
        }
        for pending in &envelope.pending {
            output.say(&format!("waits for you: {} {}", pending.id, pending.summary));
        }
    }
    let text = match &envelope.result {
        Some(Value::String(text)) => visible(text, true),
        Some(value) => serde_json::to_string_pretty(value).unwrap_or_default(),
        None => String::new(),
    };
    output.result(&text, || serde_json::to_value(envelope).unwrap_or(Value::Null));
    match envelope.status {
        EnvelopeStatus::Completed => Done::Ok,
        EnvelopeStatus::Failed | EnvelopeStatus::Cancelled => Done::Failed,
        EnvelopeStatus::AwaitingApproval | EnvelopeStatus::AwaitingConnection => {
            output.say(&format!("Decide with: capabilities hub approve {}", envelope.run_id));
            Done::WaitsForPerson
        }
        EnvelopeStatus::Running => {
            output.say(&format!("The run {} is still being driven elsewhere.", envelope.run_id));
            Done::Ok
        }
    }
}

pub(super) async fn runs(output: &Output, arguments: RunsArguments) -> Result<Done, Failed> {
    let hub = unattended()?;
    if let Some(RunsCommand::Show { run }) = arguments.command {
        let view = hub.show_run(&run_id(&run)?).await?;
        output.result(&shown(&view), || view_json(&view));
        return Ok(Done::Ok);
    }
    let now = hub.ports().clock().wall();
    let listed = hub.list_runs().await?;
    let listed: Vec<_> = listed
        .into_iter()
        .filter(|(_, status)| {
            arguments.status.as_deref().is_none_or(|wanted| wanted == status.as_str())
        })
        .collect();
    let mut text = String::new();
    for (record, status) in &listed {
        let first = record.code.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
        let _ = writeln!(
            text,
            "{}  {:<14}  {:>8}  {}",
            record.id,
            status.as_str(),
            ago(now, record.started),
            one_line(first, 60)
        );
    }
    if listed.is_empty() {
        text.push_str("No runs.");
    }
    output.result(&text, || {
        let runs: Vec<_> = listed
            .iter()
            .map(|(record, status)| json!({ "id": record.id, "status": status, "started": record.started, "code": record.code }))
            .collect();
        json!({ "runs": runs })
    });
    Ok(Done::Ok)
}

pub(super) fn run_id(text: &str) -> Result<RunId, Failed> {
    text.parse().map_err(|error: crate::model::ids::IdError| {
        Failed::usage(error.to_string(), "`capabilities hub runs` lists the runs that are kept")
    })
}

fn ago(now: WallMs, then: WallMs) -> String {
    let seconds = now.0.saturating_sub(then.0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A run as a person reads it: code, calls in order, what waits, how it ended.
fn shown(view: &RunView) -> String {
    let record = &view.record;
    let mut text = format!("{}  {}\n\n", record.id, view.status.as_str());
    for (number, line) in (1..).zip(record.code.lines()) {
        let _ = writeln!(text, "{number:>4} | {}", visible(line, false));
    }
    text.push('\n');
    for entry in &view.entries {
        if let Some(line) = entry_line(entry) {
            let _ = writeln!(text, "  {line}");
        }
    }
    for refused in &view.refused {
        let call = refused.seq.map(|seq| format!("{seq} ")).unwrap_or_default();
        let channel = format!("{:?}", refused.channel).to_lowercase();
        let _ = writeln!(text, "  {call}an answer by {channel} decided nothing: {}", refused.why);
    }
    for question in &view.undecided {
        let _ = writeln!(
            text,
            "\nwaits for a person: {} {}\n{}",
            question.seq, question.address, question.preview
        );
    }
    if let Some(Entry::Ended { envelope, .. }) = view.entries.last() {
        if let Some(error) = &envelope.error {
            let _ = writeln!(text, "\n{}", visible(&error.to_string(), true));
        }
        if let Some(result) = &envelope.result {
            let _ = writeln!(
                text,
                "\nresult\n{}",
                serde_json::to_string_pretty(result).unwrap_or_default()
            );
        }
    }
    text
}

fn entry_line(entry: &Entry) -> Option<String> {
    Some(match entry {
        Entry::Asked { seq, binding, verdict } => {
            let verdict = match verdict {
                crate::model::journal::Verdict::Ruled(ruling) => {
                    let why: Vec<String> = ruling
                        .because
                        .iter()
                        .map(crate::model::policy::Because::sentence)
                        .collect();
                    format!("{:?}: {}", ruling.effect, why.join("; ")).to_lowercase()
                }
                crate::model::journal::Verdict::Refused(code) => format!("refused: {code}"),
            };
            format!("{seq} asked    {} ({verdict})", one_line(binding.tool.raw.as_str(), 60))
        }
        Entry::Sent { seq, .. } => format!("{seq} sent"),
        Entry::Settled { seq, outcome, ms, .. } => {
            let how = match outcome {
                StoredOutcome::Inline(crate::model::call::Outcome::Failed(failure)) => {
                    format!("failed: {} {}", failure.code, one_line(&failure.message, 80))
                }
                StoredOutcome::Inline(_) => "ok".to_owned(),
                StoredOutcome::Blob(_) => "ok, large".to_owned(),
            };
            format!("{seq} settled  {how} ({ms} ms)")
        }
        Entry::Question(question) => format!("{} question {}", question.seq, question.address),
        Entry::Decided { seqs, choice, channel, .. } => {
            let seqs: Vec<String> = seqs.iter().map(ToString::to_string).collect();
            format!("{} decided  {choice:?} by {channel:?}", seqs.join(" ")).to_lowercase()
        }
        Entry::Paused { .. } => "paused".to_owned(),
        Entry::Resumed { build, .. } => format!("resumed by build {build}"),
        Entry::Ended { status, .. } => format!("ended {}", status.as_str()),
        Entry::Timer { .. } | Entry::Lookup { .. } => return None,
    })
}

fn view_json(view: &RunView) -> Value {
    json!({
        "record": view.record,
        "status": view.status,
        "entries": view.entries,
        "undecided": view.undecided,
        "refused": view.refused,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_keeps_integers_whole_and_keys_plain() {
        let value = json!({"id": 1_915_883_588_174_806_058_i64, "__proto__": [1, "a\u{2028}"], "u": u64::MAX});
        assert_eq!(
            literal(&value),
            "{[\"id\"]:1915883588174806058n,[\"__proto__\"]:[1,\"a\u{2028}\"],[\"u\"]:18446744073709551615n}"
        );
    }
}
