//! `review`: three classes, one keystroke accepts, or tool by tool.

use super::add::ask_consent;
use super::args::ReviewArguments;
use super::output::{Done, Failed, Output};
use super::setup::what_runs;
use super::who;
use super::wire::{UnattendedHub, hub_folder, unattended};
use crate::adapters::person::TerminalPerson;
use crate::core::concerns::concerns;
use crate::core::contract::Class;
use crate::driver::{ReviewItem, Reviewed};
use crate::model::policy::Effect;
use crate::model::source::SourceRecord;
use crate::model::visible::{first_sentence, one_line};
use crate::ports::Ports as _;
use crate::ports::store::Store as _;
use serde_json::json;
use std::fmt::Write as _;

/// Names listed per class before the rest is counted.
const NAMES_SHOWN: usize = 12;

pub(super) async fn review(
    output: &Output,
    arguments: ReviewArguments,
    no_input: bool,
) -> Result<Done, Failed> {
    who::no_agent("hub review")?;
    let can_ask = who::can_ask(no_input);
    let hub = unattended()?;
    let mut records: Vec<SourceRecord> = match &arguments.namespace {
        Some(name) => vec![hub.source(name).await?],
        None => hub.ports().store().sources().await?.into_iter().flatten().collect(),
    };
    records.sort_by(|a, b| a.namespace.cmp(&b.namespace));
    if !can_ask && !arguments.accept {
        return Err(Failed::needs_person(
            "a review needs a person at a terminal",
            "run it in your own terminal, or pass `--accept` to take every proposal",
        ));
    }
    let (mut reviewed, mut failed) = (0, false);
    for record in records {
        let record = if record.is_consented() {
            record
        } else {
            output.say(&format!("Source {}\n{}", record.namespace, what_runs(&record)));
            if !(arguments.accept || ask_consent(&record.transport)) {
                output.say("It stays as it is; nothing of it runs.");
                continue;
            }
            let record = hub.consent(&record).await?;
            if let Err(error) = hub.refresh(&record).await {
                output.say(&format!("! {error}"));
                failed = true;
                continue;
            }
            record
        };
        reviewed += review_source(output, &hub, &record, arguments.accept, can_ask).await?;
    }
    let left = hub.to_review(None).await?.len();
    hub.shut_down().await;
    let text = match (reviewed, left) {
        (0, 0) => "Nothing to review.".to_owned(),
        (_, 0) => format!("{reviewed} tools reviewed; none is left."),
        (_, _) => format!("{reviewed} tools reviewed; {left} left."),
    };
    output.result(&text, || json!({ "reviewed": reviewed, "left": left }));
    Ok(if failed { Done::Failed } else { Done::Ok })
}

/// Reviews what is new or changed in one source; how many tools were reviewed.
pub(super) async fn review_source(
    output: &Output,
    hub: &UnattendedHub,
    record: &SourceRecord,
    accept: bool,
    can_ask: bool,
) -> Result<usize, Failed> {
    let items = hub.to_review(Some(&record.id)).await?;
    if items.is_empty() {
        return Ok(0);
    }
    output.say(&summary(record, &items));
    for concern in concerns(record, items.iter().map(|item| &item.raw), &hub_folder()?) {
        output.say(&format!("! {}: {concern}\n", record.namespace));
    }
    let reviewed = if accept {
        items.into_iter().map(|item| Reviewed { item, rule: None }).collect()
    } else if can_ask {
        match TerminalPerson::key(
            "[a] accept the proposal   [t] tool by tool   [s] skip\r\n> ",
            "ats",
            None,
        ) {
            Some('a') => items.into_iter().map(|item| Reviewed { item, rule: None }).collect(),
            Some('t') => tool_by_tool(items),
            Some(_) | None => Vec::new(),
        }
    } else {
        Vec::new()
    };
    Ok(hub.review(&reviewed).await?)
}

/// The proposal, class by class.
fn summary(record: &SourceRecord, items: &[ReviewItem]) -> String {
    let mut text = format!("{}: {} tools to review\n", record.namespace, items.len());
    for (class, title) in [
        (Class::ReadOnly, "Read-only    run without asking"),
        (Class::Writes, "Writes       ask each time"),
        (Class::Destructive, "Destructive  ask each time, deletes or overwrites"),
    ] {
        let of_class: Vec<&ReviewItem> = items.iter().filter(|item| item.class == class).collect();
        if of_class.is_empty() {
            continue;
        }
        let _ = writeln!(text, "  {title} ({})", of_class.len());
        let names: Vec<&str> =
            of_class.iter().take(NAMES_SHOWN).map(|item| item.name.as_str()).collect();
        let more = of_class.len().saturating_sub(NAMES_SHOWN);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let _ = writeln!(text, "    {}{more}", names.join(", "));
    }
    for item in items.iter().filter(|item| item.changes.is_some()) {
        let _ = writeln!(text, "  Changed since you reviewed it: {}", item.name);
        for change in item.changes.iter().flatten() {
            let _ = writeln!(text, "    {change}");
        }
    }
    text
}

fn tool_by_tool(items: Vec<ReviewItem>) -> Vec<Reviewed> {
    let mut reviewed = Vec::new();
    let all = items.len();
    for (at, item) in items.into_iter().enumerate() {
        let proposal = match item.class {
            Class::ReadOnly => "run",
            Class::Writes => "ask",
            Class::Destructive => "ask, destructive",
        };
        let mut text = format!(
            "\n{} of {all}  {}.{}   proposed: {proposal}\n",
            at + 1,
            item.namespace,
            item.name
        );
        let says = first_sentence(item.contract.description(), 200);
        if !says.is_empty() {
            let _ = writeln!(text, "  the tool says: \"{says}\"");
        }
        if item.raw.as_str() != item.name.as_str() {
            let _ = writeln!(text, "  its own name: {}", one_line(item.raw.as_str(), 80));
        }
        for change in item.changes.iter().flatten() {
            let _ = writeln!(text, "  changed: {change}");
        }
        text.push_str(
            "[Enter] as proposed   [r] run   [a] ask   [d] deny   [s] skip   [q] stop\n> ",
        );
        let rule = match TerminalPerson::key(&text.replace('\n', "\r\n"), "radsqp", Some('p')) {
            Some('p') => None,
            Some('r') => Some(Effect::Allow),
            Some('a') => Some(Effect::Ask),
            Some('d') => Some(Effect::Deny),
            Some('s') => continue,
            Some(_) | None => break,
        };
        reviewed.push(Reviewed { item, rule });
    }
    reviewed
}
