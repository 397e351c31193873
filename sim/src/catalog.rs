//! A hub with very many sources, written straight into its store: nothing has to be started for it.

use anyhow::anyhow;
use hub::adapters::store::FileStore;
use hub::model::contract::Contract;
use hub::model::ids::{HubId, SourceId};
use hub::model::policy::{Pin, Policy};
use hub::model::source::{
    Consent, MANIFEST_VERSION, Manifest, ManifestTool, Settings, SourceRecord, StdioCommand,
    Transport,
};
use hub::model::time::WallMs;
use hub::ports::store::Store as _;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

const VERBS: [&str; 10] =
    ["create", "update", "delete", "list", "search", "read", "archive", "export", "merge", "watch"];
const THINGS: [&str; 10] = [
    "issue", "label", "message", "channel", "invoice", "customer", "file", "folder", "event",
    "contact",
];

/// Tools of one service: up to a hundred, reads among them.
///
/// # Errors
/// None of these names is refused.
pub fn tools(service: &str, count: usize) -> anyhow::Result<Vec<ManifestTool>> {
    let pairs = VERBS.iter().flat_map(|verb| THINGS.iter().map(move |thing| (verb, thing)));
    pairs
        .take(count)
        .map(|(verb, thing)| {
            let reads = matches!(*verb, "list" | "search" | "read");
            let listed = json!({
                "name": format!("{verb}_{thing}"),
                "description": format!("{verb} a {thing} of the user's {service} workspace."),
                "annotations": { "readOnlyHint": reads },
                "inputSchema": { "type": "object", "properties": {
                    "id": { "type": "string", "description": format!("Id of the {thing}.") },
                    "limit": { "type": "integer" } } },
            });
            let members = listed.as_object().ok_or_else(|| anyhow!("an object"))?;
            let contract = Contract::from_listed(members);
            let raw = contract.raw_name().ok_or_else(|| anyhow!("a name"))?;
            let name = hub::core::addresses::identifier(raw.as_str()).parse()?;
            Ok(ManifestTool { name, raw, digest: contract.digest(), contract })
        })
        .collect()
}

/// A program without arguments or surroundings, for sources that nobody starts.
#[must_use]
pub fn command(program: &str) -> Transport {
    Transport::Stdio(StdioCommand {
        program: program.to_owned(),
        args: Vec::new(),
        cwd: "/".to_owned(),
        path: String::new(),
        set: BTreeMap::new(),
        pass: Vec::new(),
    })
}

/// The record of one service. Nothing of it can be started.
///
/// # Errors
/// The name is no namespace.
pub fn record(service: &str, number: u8) -> anyhow::Result<SourceRecord> {
    let transport = command("/nonexistent/server");
    Ok(SourceRecord {
        id: SourceId::from_random([number; 10]),
        namespace: service.parse()?,
        label: None,
        consent: Some(Consent { transport: transport.digest(), given: WallMs(0) }),
        transport,
        added: WallMs(0),
    })
}

/// Makes a hub in `folder` with this many sources of this many tools, each reviewed.
///
/// # Errors
/// The store cannot be written.
pub async fn fill(folder: &Path, sources: u8, tools_each: usize) -> anyhow::Result<()> {
    let store = FileStore::new(folder.to_owned());
    store.write_settings(&Settings::new(HubId::from_random([1; 10]))).await?;
    for number in 0..sources {
        let service = format!("service{number}");
        let record = record(&service, number)?;
        let tools = tools(&service, tools_each)?;
        let pins = tools
            .iter()
            .map(|tool| (tool.raw.clone(), Pin { contract: tool.digest, reviewed: WallMs(0) }));
        let policy = Policy { pins: pins.collect(), ..Policy::default() };
        let manifest = Manifest {
            version: MANIFEST_VERSION,
            listed: WallMs(0),
            server: service,
            protocol: "2025-11-25".to_owned(),
            names: tools.iter().map(|tool| (tool.name.clone(), tool.raw.clone())).collect(),
            tools,
            notices: Vec::new(),
        };
        store.write_source(&record).await?;
        store.write_manifest(&record.id, &manifest).await?;
        store.write_policy(&record.id, &policy).await?;
    }
    Ok(())
}
