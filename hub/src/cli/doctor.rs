//! `doctor`: checks the store, the sandbox and every source, and says what to do about each finding.

use super::output::{Done, Failed, Output};
use super::wire::{browser, hub_folder, unattended};
use crate::adapters::sandbox::Layer;
use crate::core::concerns::concerns;
use crate::core::validate::Checker;
use crate::model::connection::Destination;
use crate::model::facts::{SourceFacts, SourcePolicy};
use crate::model::ids::HubId;
use crate::model::source::Transport;
use crate::model::time::LogicalMs;
use crate::model::turn::{Delivery, GuestEnd, Program, Turn};
use crate::ports::Ports as _;
use crate::ports::sandbox::{Guest as _, Sandbox as _};
use crate::ports::secrets::Secrets;
use crate::ports::store::{LockName, Store, StoreError};
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One line of a diagnosis.
struct Finding {
    fine: bool,
    what: String,
    text: String,
}

#[derive(Default)]
struct Diagnosis(Vec<Finding>);

impl Diagnosis {
    fn fine(&mut self, what: &str, text: impl Into<String>) {
        self.0.push(Finding { fine: true, what: what.to_owned(), text: text.into() });
    }

    fn bad(&mut self, what: &str, text: impl Into<String>) {
        self.0.push(Finding { fine: false, what: what.to_owned(), text: text.into() });
    }
}

pub(super) async fn doctor(output: &Output) -> Result<Done, Failed> {
    let hub = unattended()?;
    let mut diagnosis = Diagnosis::default();
    let folder = hub_folder()?;
    let settings = hub.ports().store().settings().await?;
    diagnosis.fine("store", format!("{} (format {})", folder.display(), settings.version));
    permissions(&folder, &mut diagnosis);
    locks_and_runs(hub.ports().store(), &mut diagnosis).await;
    match hub.limits().await {
        Ok(_) => {}
        Err(error) => diagnosis.bad("settings", error.to_string()),
    }
    match sandbox(hub.ports().sandbox()).await {
        Ok(text) => diagnosis.fine("sandbox", text),
        Err(why) => diagnosis.bad("sandbox", why),
    }
    let secrets = hub.ports().secrets();
    diagnosis
        .fine("keychain", format!("keys and credentials are kept in {}", secrets.whereabouts()));
    let file = folder.with_file_name(".env");
    if is_open(&file) {
        let file = file.display();
        diagnosis.bad("keychain", format!("{file} is open to other users: chmod 600 {file}"));
    }
    match browser() {
        Some(browser) => {
            let program = browser.program().display();
            diagnosis.fine("approval page", format!("{program} opens it"));
        }
        None => diagnosis.fine(
            "approval page",
            "there is no browser here: decide in a terminal, with capabilities hub approve",
        ),
    }
    for source in hub.ports().store().sources().await? {
        if let Err(error) = source {
            diagnosis.bad("source", error.to_string());
        }
    }
    let facts = hub.facts().await?;
    let records: Vec<_> = facts.visible().into_iter().map(|source| source.record.clone()).collect();
    let reached = futures::future::join_all(records.iter().map(|record| hub.refresh(record))).await;
    let facts = hub.facts().await?;
    let mut sources: Vec<_> = facts.sources.values().collect();
    sources.sort_by(|a, b| a.record.namespace.cmp(&b.record.namespace));
    for source in sources {
        let name = source.record.namespace.to_string();
        let at = records.iter().position(|record| record.id == source.record.id);
        match at.and_then(|at| reached.get(at)) {
            None => diagnosis
                .bad(&name, format!("nobody agreed to run it: capabilities hub review {name}")),
            Some(Ok(refreshed)) => diagnosis.fine(&name, format!("{} tools", refreshed.tools)),
            Some(Err(error)) => {
                // The line begins with the name already.
                let why = error.to_string();
                let own = format!("{name}: ");
                diagnosis.bad(&name, why.strip_prefix(&own).unwrap_or(&why));
            }
        }
        source_findings(&name, source, &mut diagnosis);
        credentials(secrets, facts.hub.as_ref(), source, &mut diagnosis).await;
        for concern in concerns(&source.record, source.tools.keys(), &folder) {
            diagnosis.bad(&name, concern);
        }
    }
    let waiting = hub.to_review(None).await?.len();
    if waiting > 0 {
        diagnosis.bad(
            "review",
            format!("{waiting} tools ask until you review them: capabilities hub review"),
        );
    }
    hub.shut_down().await;
    let lines: Vec<String> = diagnosis
        .0
        .iter()
        .map(|finding| {
            format!(
                "{} {}: {}",
                if finding.fine { "ok  " } else { "look" },
                finding.what,
                finding.text
            )
        })
        .collect();
    output.result(&lines.join("\n"), || {
        let findings: Vec<_> = diagnosis
            .0
            .iter()
            .map(|f| json!({ "ok": f.fine, "what": f.what, "text": f.text }))
            .collect();
        json!({ "findings": findings })
    });
    Ok(if diagnosis.0.iter().all(|finding| finding.fine) { Done::Ok } else { Done::Failed })
}

fn source_findings(name: &str, source: &SourceFacts, diagnosis: &mut Diagnosis) {
    for notice in &source.notices {
        diagnosis.bad(name, notice.clone());
    }
    if let Transport::Stdio(command) = &source.record.transport
        && let Some(warning) = super::add::unpinned(command)
    {
        diagnosis.bad(name, warning);
    }
    match &source.policy {
        SourcePolicy::Broken(detail) => {
            diagnosis.bad(name, format!("everything of it is denied: {detail}"));
        }
        SourcePolicy::Usable(policy) => {
            for rule in &policy.rules {
                if let Some(raw) =
                    rule.scope.tool.as_ref().filter(|raw| !source.tools.contains_key(*raw))
                {
                    diagnosis
                        .bad(name, format!("a rule is about `{raw}`, which it does not offer"));
                }
            }
        }
    }
    for tool in source.tools.values() {
        if let Some(why) = Checker::compile(tool.contract.input_schema()).unchecked()
            && tool.contract.input_schema().is_some()
        {
            diagnosis.bad(name, format!("arguments of `{}` are not checked: {why}", tool.name));
        }
    }
}

/// Can every credential of a source be had, and does none stand in what its tools say?
async fn credentials<S: Secrets>(
    secrets: &S,
    hub: Option<&HubId>,
    source: &SourceFacts,
    diagnosis: &mut Diagnosis,
) {
    let name = source.record.namespace.as_str();
    let destination = Destination::of(&source.record.transport);
    for connection in source.connections.connections.keys() {
        let Some(used) = source.used(hub, connection) else { continue };
        for reference in used.references(&source.record.id) {
            if let Err(error) = secrets.release(&reference, &destination).await {
                let how = format!("capabilities hub auth {name} --connection {connection}");
                diagnosis.bad(name, format!("{error}: {how}"));
            } else if !reference.place.fits(&source.record.transport) {
                let place = &reference.place;
                diagnosis
                    .bad(name, format!("`{place}` of {connection} is not used by such a source"));
            }
        }
    }
    for tool in source.tools.values() {
        if secrets.carries_secret(&tool.contract.canonical()) {
            let tool = &tool.name;
            diagnosis.bad(name, format!("a secret of this hub occurs in what `{tool}` says of itself, and is taken out wherever it is shown: choose a longer or another secret, or remove the source"));
        }
    }
}

/// Can the store lock, and can every run in it be read?
async fn locks_and_runs<S: Store>(store: &S, diagnosis: &mut Diagnosis) {
    match store.lock(LockName::Hub, Duration::ZERO).await {
        // Somebody holds it: then it can be held.
        Ok(_) | Err(StoreError::Busy(_)) => {}
        Err(error) => diagnosis.bad("locks", error.to_string()),
    }
    match store.runs().await {
        Err(error) => diagnosis.bad("runs", error.to_string()),
        Ok(runs) => {
            for (record, _) in runs {
                if let Err(error) = store.journal(&record.id).await {
                    let text = format!("{} cannot go on: {error}", record.id);
                    diagnosis.bad("runs", text);
                }
            }
        }
    }
}

/// What of the hub's folder is open to other users: the folder itself, or what lies directly in it.
pub(super) fn open_to_others(folder: &Path) -> Option<PathBuf> {
    let inside = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut looked = std::iter::once(folder.to_owned()).chain(inside.map(|entry| entry.path()));
    looked.find(|path| is_open(path))
}

fn is_open(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

fn permissions(folder: &Path, diagnosis: &mut Diagnosis) {
    let mut open = Vec::new();
    let mut look = vec![folder.to_owned()];
    while let Some(path) = look.pop() {
        if is_open(&path) {
            open.push(path.display().to_string());
        }
        if std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir()) {
            look.extend(
                std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()),
            );
        }
    }
    match open.first() {
        None => diagnosis.fine("permissions", "only you can read the hub's files"),
        Some(first) => diagnosis.bad(
            "permissions",
            format!(
                "{} files are open to other users, first {first}: chmod -R go= {}",
                open.len(),
                folder.display()
            ),
        ),
    }
}

async fn sandbox(sandbox: &crate::adapters::sandbox::WorkerSandbox) -> Result<String, String> {
    let program = Program {
        body: "\nreturn 6 * 7".to_owned(),
        seed: [0; 32],
        started: LogicalMs(0),
        sources: Vec::new(),
        memory_bytes: 8 << 20,
        value_bytes_max: 1024,
    };
    let mut guest = sandbox.open(program).await.map_err(|error| error.to_string())?;
    let turn = Turn { delivery: Delivery::Start, at: LogicalMs(0), budget_us: 1_000_000 };
    let yielded = guest.step(turn).await.map_err(|error| error.to_string())?;
    if yielded.end != Some(GuestEnd::Returned(Some("42".to_owned()))) {
        return Err("a worker starts and computes nonsense".to_owned());
    }
    if guest.missing().is_empty() {
        let layers: Vec<&str> = Layer::ALL.iter().map(|layer| layer.name()).collect();
        Ok(format!("a worker computes, locked down by {}", layers.join(", ")))
    } else {
        let missing = guest.missing().join(", ");
        Err(format!(
            "a worker computes, and this system does not have {missing} to lock it down with; the other layers hold"
        ))
    }
}
