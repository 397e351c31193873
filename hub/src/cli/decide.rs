//! `approve` and `cancel`.

use super::args::ApproveArguments;
use super::output::{Done, Failed, Output};
use super::run::{ask_and_go_on, print_envelope, run_id};
use super::who;
use super::wire::{attended, unattended};
use crate::adapters::person::{Preselected, TerminalPerson};
use crate::driver::StopSignal;
use crate::model::call::Seq;
use crate::model::ids::RunId;
use crate::model::policy::Choice;
use crate::model::run::RunStatus;
use serde_json::json;

pub(super) async fn approve(
    output: &Output,
    arguments: ApproveArguments,
    no_input: bool,
) -> Result<Done, Failed> {
    who::no_agent("hub approve")?;
    if no_input || !TerminalPerson::is_reachable() {
        return Err(Failed::needs_person(
            "a decision needs a person at a terminal",
            "run `capabilities hub approve` in your own terminal",
        ));
    }
    let choice = [
        (arguments.once, Choice::Once),
        (arguments.for_run, Choice::Run),
        (arguments.always, Choice::Always),
        (arguments.deny, Choice::Deny),
    ];
    let choice = choice.into_iter().find(|(given, _)| *given).map(|(_, choice)| choice);
    let call = arguments.call.as_deref().map(call_number).transpose()?;
    let hub = attended(Preselected { choice, call })?;
    let runs: Vec<RunId> = match &arguments.run {
        Some(run) => vec![run_id(run)?],
        None => {
            let listed = hub.list_runs().await?;
            // Whoever has waited longest comes first.
            listed
                .into_iter()
                .rev()
                .filter(|(_, status)| *status == RunStatus::AwaitingInput)
                .map(|(record, _)| record.id)
                .collect()
        }
    };
    if runs.is_empty() {
        output.result("Nothing waits for you.", || json!({ "runs": [] }));
        return Ok(Done::Ok);
    }
    let mut done = Done::Ok;
    for run in runs {
        let view = hub.show_run(&run).await?;
        if view.undecided.is_empty() && !view.status.is_final() {
            output.say(&format!("Nothing of {run} waits for a decision; it goes on."));
        }
        if !view.undecided.is_empty() {
            output.say(&format!("Run {run}"));
        }
        let envelope = hub.resume(&run, StopSignal::never()).await?;
        let envelope = ask_and_go_on(&hub, envelope).await?;
        done = worse(done, print_envelope(output, &envelope));
    }
    hub.shut_down().await;
    Ok(done)
}

/// Over several runs the exit status is that of the worst: failed, then waiting, then done.
fn worse(a: Done, b: Done) -> Done {
    match (a, b) {
        (Done::Failed, _) | (_, Done::Failed) => Done::Failed,
        (Done::WaitsForPerson, _) | (_, Done::WaitsForPerson) => Done::WaitsForPerson,
        (Done::Ok, Done::Ok) => Done::Ok,
    }
}

fn call_number(text: &str) -> Result<Seq, Failed> {
    let digits = text.strip_prefix('c').unwrap_or(text);
    digits.parse().map(Seq).map_err(|_| {
        Failed::usage(format!("`--call {text}` is not a call"), "calls are numbered c1, c2, …")
    })
}

pub(super) async fn cancel(output: &Output, run: &str) -> Result<Done, Failed> {
    let hub = unattended()?;
    let run = run_id(run)?;
    let status = hub.cancel(&run).await?;
    let text = if status == RunStatus::Cancelled {
        format!("Cancelled {run}.")
    } else {
        format!("{run} is over already: {}.", status.as_str())
    };
    output.result(&text, || json!({ "run": run, "status": status }));
    Ok(Done::Ok)
}
