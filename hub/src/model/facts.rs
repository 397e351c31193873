//! What the hub knows at one moment: an immutable snapshot of sources, manifests and policies.

use super::connection::{Connections, UsedConnection};
use super::contract::Contract;
use super::digest::Digest;
use super::ids::{HubId, SourceId};
use super::names::{ConnectionName, JsName, Namespace, RawToolName};
use super::policy::{Pin, Policy};
use super::run::{Snapshot, SnapshotSource, SnapshotTool};
use super::source::{Manifest, ManifestTool, SourceRecord};
use std::collections::BTreeMap;

/// The policy of one source, or why it cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourcePolicy {
    /// As a person left it.
    Usable(Policy),
    /// The file does not parse: file, line and key. Everything of the source is denied.
    Broken(String),
}

impl SourcePolicy {
    /// What a person reviewed of one tool.
    #[must_use]
    pub fn pin(&self, raw: &RawToolName) -> Option<&Pin> {
        match self {
            SourcePolicy::Usable(policy) => policy.pins.get(raw),
            SourcePolicy::Broken(_) => None,
        }
    }
}

/// Everything that rulings, search and runs are based on.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The store's counter when this was read.
    pub generation: u64,
    /// Which hub this is of; secrets are kept under its name.
    pub hub: Option<HubId>,
    /// By id.
    pub sources: BTreeMap<SourceId, SourceFacts>,
    /// Reviewed contracts that the current manifests differ from, for saying what changed.
    pub reviewed: BTreeMap<Digest, Contract>,
}

/// One source at that moment.
#[derive(Debug, Clone)]
pub struct SourceFacts {
    /// As stored.
    pub record: SourceRecord,
    /// Its tools, by raw name. Empty until it was listed once.
    pub tools: BTreeMap<RawToolName, ManifestTool>,
    /// What was dropped from its last listing.
    pub notices: Vec<String>,
    /// Its rules and pins.
    pub policy: SourcePolicy,
    /// Its connections.
    pub connections: Connections,
}

impl SourceFacts {
    /// A source from its stored parts.
    #[must_use]
    pub fn new(
        record: SourceRecord,
        manifest: Option<Manifest>,
        policy: SourcePolicy,
    ) -> SourceFacts {
        let (tools, notices) = match manifest {
            Some(manifest) => (manifest.tools, manifest.notices),
            None => (Vec::new(), Vec::new()),
        };
        let tools = tools.into_iter().map(|tool| (tool.raw.clone(), tool)).collect();
        SourceFacts { record, tools, notices, policy, connections: Connections::default() }
    }

    /// Is this tool read-only in the contract a person reviewed? Nothing else counts as a read.
    #[must_use]
    pub fn is_reviewed_read(&self, raw: &RawToolName) -> bool {
        match (self.tools.get(raw), self.policy.pin(raw)) {
            (Some(tool), Some(pin)) => tool.digest == pin.contract && tool.contract.is_read_only(),
            (Some(_) | None, _) => false,
        }
    }

    /// The connection of this name as calls use it.
    #[must_use]
    pub fn used(&self, hub: Option<&HubId>, name: &ConnectionName) -> Option<UsedConnection> {
        self.connections.used(hub?, name)
    }

    /// The tool of this JavaScript name.
    #[must_use]
    pub fn tool_named(&self, name: &str) -> Option<&ManifestTool> {
        self.tools.values().find(|tool| tool.name.as_str() == name)
    }
}

impl Facts {
    /// Sources that a person agreed to, in the order of their namespaces.
    #[must_use]
    pub fn visible(&self) -> Vec<&SourceFacts> {
        let mut visible: Vec<&SourceFacts> =
            self.sources.values().filter(|source| source.record.is_consented()).collect();
        visible.sort_by(|a, b| a.record.namespace.cmp(&b.record.namespace));
        visible
    }

    /// The consented source of this namespace.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> Option<&SourceFacts> {
        self.sources.values().find(|source| {
            source.record.is_consented() && source.record.namespace.as_str() == namespace
        })
    }

    /// What a run that starts at this moment can see.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let sources = self.visible().into_iter().map(|source| {
            let mut tools: Vec<SnapshotTool> = source
                .tools
                .values()
                .map(|tool| SnapshotTool {
                    name: tool.name.clone(),
                    raw: tool.raw.clone(),
                    contract: tool.digest,
                })
                .collect();
            tools.sort_by(|a: &SnapshotTool, b| a.name.cmp(&b.name));
            SnapshotSource {
                id: source.record.id.clone(),
                namespace: source.record.namespace.clone(),
                connections: source.connections.connections.keys().cloned().collect(),
                default_connection: source.connections.default.clone(),
                tools,
            }
        });
        Snapshot { sources: sources.collect() }
    }
}

/// A tool found by its address.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// Its source.
    pub source: &'a SourceFacts,
    /// The tool.
    pub tool: &'a ManifestTool,
}

impl Facts {
    /// The tool of this namespace and JavaScript name.
    #[must_use]
    pub fn find(&self, namespace: &Namespace, name: &JsName) -> Option<Found<'_>> {
        let source = self.namespace(namespace.as_str())?;
        source.tool_named(name.as_str()).map(|tool| Found { source, tool })
    }
}
