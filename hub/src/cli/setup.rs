//! `init`, `list`, `remove`, `refresh`.

use super::output::{Done, Failed, Output};
use super::wire::{hub_folder, unattended, variable};
use crate::core::concerns::concerns;
use crate::model::facts::SourcePolicy;
use crate::model::http::{AddressClass, HttpEndpoint};
use crate::model::ids::{HubId, ID_BYTES};
use crate::model::source::{Settings, SourceRecord, Transport, shell_word};
use crate::ports::Ports as _;
use crate::ports::entropy::Entropy as _;
use crate::ports::store::{LockName, Store as _, StoreError};
use serde_json::json;
use std::fmt::Write as _;
use std::time::Duration;

pub(super) async fn init(output: &Output) -> Result<Done, Failed> {
    let hub = unattended()?;
    let store = hub.ports().store();
    let folder = hub_folder()?;
    let connect = connect_line();
    match store.settings().await {
        Ok(settings) => {
            let text = format!(
                "The hub at {} is there already.\n\nConnect an agent:\n  {connect}",
                folder.display()
            );
            output.result(&text, || json!({ "hub": settings.id, "folder": folder, "made": false, "connect": connect }));
            return Ok(Done::Ok);
        }
        Err(StoreError::NoHub { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let _lock = store.lock(LockName::Hub, Duration::from_secs(10)).await?;
    // Two first commands may race; whoever comes second finds the other's hub.
    if store.settings().await.is_err() {
        let mut bytes = [0; ID_BYTES];
        hub.ports().entropy().fill(&mut bytes);
        store.write_settings(&Settings::new(HubId::from_random(bytes))).await?;
    }
    let settings = store.settings().await?;
    let text = format!(
        "Made the hub at {}.\n\nAdd a source:\n  capabilities hub add npx -y @modelcontextprotocol/server-memory@2026.8.31\n\nConnect an agent:\n  {connect}",
        folder.display()
    );
    output.result(
        &text,
        || json!({ "hub": settings.id, "folder": folder, "made": true, "connect": connect }),
    );
    Ok(Done::Ok)
}

/// The command that puts this hub into Claude Code; other clients take the same command.
pub(super) fn connect_line() -> String {
    let program = std::env::current_exe()
        .map_or_else(|_| "capabilities".to_owned(), |path| path.display().to_string());
    format!(
        "claude mcp add --scope user capabilities -- {program} hub serve --stdio --profile default"
    )
}

pub(super) async fn list(output: &Output) -> Result<Done, Failed> {
    let hub = unattended()?;
    let facts = hub.facts().await?;
    let broken: Vec<String> = hub
        .ports()
        .store()
        .sources()
        .await?
        .into_iter()
        .filter_map(|source| source.err().map(|error| error.to_string()))
        .collect();
    let waiting = hub.to_review(None).await?;
    let mut sources: Vec<_> = facts.sources.values().collect();
    sources.sort_by(|a, b| a.record.namespace.cmp(&b.record.namespace));
    let mut text = String::new();
    if sources.is_empty() && broken.is_empty() {
        text.push_str("No sources yet. Add one:\n  capabilities hub add npx -y @modelcontextprotocol/server-memory@2026.8.31");
    }
    let width = sources
        .iter()
        .map(|source| source.record.namespace.as_str().chars().count())
        .max()
        .unwrap_or(0);
    for source in &sources {
        let record = &source.record;
        let to_review = waiting.iter().filter(|item| item.source == record.id).count();
        let state = if !record.is_consented() {
            "not agreed to; nothing of it runs".to_owned()
        } else if let SourcePolicy::Broken(detail) = &source.policy {
            format!("everything of it is denied: {detail}")
        } else if to_review > 0 {
            format!("{} tools, {to_review} to review", source.tools.len())
        } else {
            format!("{} tools", source.tools.len())
        };
        let name = record.namespace.as_str();
        let gap = " ".repeat(width.saturating_sub(name.chars().count()) + 2);
        let _ = writeln!(
            text,
            "{name}{gap}{state}\n{}{}",
            " ".repeat(width + 2),
            record.transport.summary()
        );
    }
    for error in &broken {
        let _ = writeln!(text, "! {error}");
    }
    output.result(&text, || {
        let sources: Vec<_> = sources
            .iter()
            .map(|source| {
                json!({
                    "namespace": source.record.namespace,
                    "id": source.record.id,
                    "label": source.record.label,
                    "consented": source.record.is_consented(),
                    "transport": source.record.transport.shown(),
                    "tools": source.tools.len(),
                    "toReview": waiting.iter().filter(|item| item.source == source.record.id).count(),
                    "notices": source.notices,
                })
            })
            .collect();
        json!({ "sources": sources, "broken": broken })
    });
    Ok(Done::Ok)
}

pub(super) async fn remove(output: &Output, namespace: &str) -> Result<Done, Failed> {
    let hub = unattended()?;
    let record = hub.remove_source(namespace).await?;
    let text = format!("Removed {namespace}, with its rules, reviews and credentials.");
    output.result(&text, || json!({ "removed": record.namespace, "id": record.id }));
    Ok(Done::Ok)
}

pub(super) async fn refresh(output: &Output, namespace: Option<&str>) -> Result<Done, Failed> {
    let hub = unattended()?;
    let records: Vec<SourceRecord> = match namespace {
        Some(name) => vec![hub.source(name).await?],
        None => {
            let facts = hub.facts().await?;
            facts.visible().into_iter().map(|source| source.record.clone()).collect()
        }
    };
    let mut text = String::new();
    let mut values = Vec::new();
    let mut failed = false;
    // All at once: one slow or dead source must not hold up the others.
    let refreshed =
        futures::future::join_all(records.iter().map(|record| hub.refresh(record))).await;
    for (record, refreshed) in records.iter().zip(refreshed) {
        let name = &record.namespace;
        match refreshed {
            Ok(refreshed) => {
                let _ = writeln!(text, "{name}  {} tools", refreshed.tools);
                for (what, list) in [
                    ("new", &refreshed.added),
                    ("changed", &refreshed.changed),
                    ("gone", &refreshed.gone),
                ] {
                    if !list.is_empty() {
                        let _ = writeln!(text, "  {what}: {}", list.join(", "));
                    }
                }
                for notice in &refreshed.notices {
                    let _ = writeln!(text, "  ! {notice}");
                }
                values.push(json!({
                    "namespace": name, "tools": refreshed.tools, "added": refreshed.added,
                    "changed": refreshed.changed, "gone": refreshed.gone, "notices": refreshed.notices,
                }));
            }
            Err(error) => {
                failed = true;
                let _ = writeln!(text, "{name}  failed: {error}");
                values.push(json!({ "namespace": name, "error": error.to_string() }));
            }
        }
    }
    if records.is_empty() {
        text.push_str("No sources to refresh.");
    }
    let waiting = hub.to_review(None).await?.len();
    if waiting > 0 {
        let _ = writeln!(text, "{waiting} tools to review: capabilities hub review");
    }
    hub.shut_down().await;
    output.result(&text, || json!({ "sources": values, "toReview": waiting }));
    Ok(if failed { Done::Failed } else { Done::Ok })
}

/// What a person must see before they agree to a source: everything the agreement covers, in full.
pub(super) fn what_runs(record: &SourceRecord) -> String {
    let command = match &record.transport {
        Transport::Stdio(command) => command,
        Transport::Http(endpoint) => return what_is_reached(endpoint),
    };
    let (what, folder) = (record.transport.summary(), shell_word(&command.cwd));
    let mut text = format!("  runs    {what}\n  in      {folder}\n");
    for (name, value) in &command.set {
        let _ = writeln!(text, "  sets    {name}={}", shell_word(value));
    }
    if !command.pass.is_empty() {
        let _ = writeln!(text, "  passes  {} from your environment", command.pass.join(", "));
    }
    if variable("PATH").is_none_or(|path| path != command.path) {
        let path = shell_word(&command.path);
        let _ = writeln!(text, "  finds   other programs in {path}, which is not your own PATH");
    }
    if let Some(warning) = super::add::unpinned(command) {
        let _ = writeln!(text, "  !       {warning}");
    }
    for concern in hub_folder().map(|hub| concerns(record, [], &hub)).unwrap_or_default() {
        let _ = writeln!(text, "  !       {concern}");
    }
    text
}

fn what_is_reached(endpoint: &HttpEndpoint) -> String {
    let (url, reaches) = (&endpoint.url, endpoint.reaches);
    let mut text = format!("  reaches {}\n  in      {reaches}\n", url.shown());
    if url.has_query() {
        text.push_str("  sends   the query of the address as you gave it; it is never shown\n");
    }
    if !url.is_encrypted() && reaches != AddressClass::Loopback {
        text.push_str(
            "  !       not encrypted: whoever carries the traffic can read and change it\n",
        );
    }
    text
}
