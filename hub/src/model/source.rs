//! A source, its consent and its tools, as stored.

use super::contract::Contract;
use super::digest::Digest;
use super::http::HttpEndpoint;
use super::ids::{HubId, SourceId};
use super::limits::LoweredLimits;
use super::names::{JsName, Namespace, RawToolName};
use super::time::WallMs;
use super::visible::visible;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the store this build writes.
pub const STORE_VERSION: u32 = 1;

/// Characters of the mark on an approval page: far too many to be met by chance.
const PAGE_MARK_CHARS: usize = 20;

/// `hub.json`: settings of one hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Format of the whole store.
    pub version: u32,
    /// Which hub this is.
    pub id: HubId,
    /// Limits the host lowered.
    #[serde(default)]
    pub limits: LoweredLimits,
    /// Days a finished run is kept, 1 to 90.
    #[serde(rename = "retentionDays", default = "retention_days_default")]
    pub retention_days: u32,
    /// Whether a client's own prompt may carry a question.
    #[serde(rename = "clientPrompts", default = "yes")]
    pub client_prompts: bool,
}

fn retention_days_default() -> u32 {
    7
}

fn yes() -> bool {
    true
}

impl Settings {
    /// Are all values in their ranges?
    ///
    /// # Errors
    /// The key that is not, and what it may be.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        if let Err(error) = self.limits.apply() {
            return Err((error.name, error.to_string()));
        }
        if !(1..=90).contains(&self.retention_days) {
            let days = self.retention_days;
            return Err(("retentionDays", format!("`retentionDays` is {days}; it may be 1 to 90")));
        }
        Ok(())
    }

    /// What every approval page of this hub carries, so that a source which reads such a page gives itself
    /// away. The same for every process; no secret.
    #[must_use]
    pub fn page_mark(&self) -> String {
        let digest = Digest::of(format!("approval page of {}", self.id).as_bytes()).to_string();
        digest.chars().take(PAGE_MARK_CHARS).collect()
    }

    /// The settings a new hub starts with.
    #[must_use]
    pub fn new(id: HubId) -> Settings {
        Settings {
            version: STORE_VERSION,
            id,
            limits: LoweredLimits::default(),
            retention_days: retention_days_default(),
            client_prompts: true,
        }
    }
}

/// `sources/<id>.json`: where one source's tools come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRecord {
    /// Its random id; rules, pins, grants and secrets are keyed by it.
    pub id: SourceId,
    /// What it is called in code.
    pub namespace: Namespace,
    /// What a person typed about it for the inventory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub label: Option<String>,
    /// How it is reached.
    pub transport: Transport,
    /// What a person agreed to; nothing of a source runs without it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub consent: Option<Consent>,
    /// When it was added.
    pub added: WallMs,
}

impl SourceRecord {
    /// May anything of this source run? Only what a person agreed to, exactly.
    #[must_use]
    pub fn is_consented(&self) -> bool {
        self.consent.as_ref().is_some_and(|consent| consent.transport == self.transport.digest())
    }
}

/// How a source is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Transport {
    /// A local MCP server, spoken to over its standard streams.
    Stdio(StdioCommand),
    /// A remote MCP server, spoken to over HTTP.
    Http(HttpEndpoint),
}

/// The exact command of a local server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StdioCommand {
    /// Absolute path, resolved when the source was added.
    pub program: String,
    /// Arguments, exact.
    #[serde(default)]
    pub args: Vec<String>,
    /// Working directory, absolute.
    pub cwd: String,
    /// The search path of that moment, so that a package runner finds the same programs later.
    pub path: String,
    /// Plain settings for the child's environment.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Names whose values are taken from the environment of the hub when the child is started.
    #[serde(default)]
    pub pass: Vec<String>,
}

impl Transport {
    /// Digest of everything a person agrees to.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let value = serde_json::to_value(self).unwrap_or(serde_json::Value::Null);
        Digest::of(super::json::canonical(&value).as_bytes())
    }

    /// The source as one line that a person can check.
    #[must_use]
    pub fn summary(&self) -> String {
        match self {
            Transport::Stdio(command) => {
                let mut words = vec![shell_word(&command.program)];
                words.extend(command.args.iter().map(|arg| shell_word(arg)));
                words.join(" ")
            }
            Transport::Http(endpoint) => endpoint.url.shown(),
        }
    }

    /// The source as data that may be shown: the query of an address may be a credential.
    #[must_use]
    pub fn shown(&self) -> serde_json::Value {
        match self {
            Transport::Stdio(_) => serde_json::to_value(self).unwrap_or_default(),
            Transport::Http(endpoint) => {
                serde_json::json!({ "http": { "url": endpoint.url.shown(), "reaches": endpoint.reaches } })
            }
        }
    }
}

/// `text` as one word of a POSIX shell command line, with everything that hides written out.
#[must_use]
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", visible(text, false).replace('\'', r"'\''"))
}

/// A person's agreement to run or reach exactly one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consent {
    /// Digest of the transport agreed to; another command or origin is not covered.
    pub transport: Digest,
    /// When.
    pub given: WallMs,
}

/// Version of the manifest file this build writes.
pub const MANIFEST_VERSION: u32 = 1;

/// `manifests/<source id>.json`: the last good list of one source's tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Format.
    pub version: u32,
    /// When it was read.
    pub listed: WallMs,
    /// Who the server says it is; shown to people, never to the model.
    #[serde(default)]
    pub server: String,
    /// The protocol version spoken.
    #[serde(default)]
    pub protocol: String,
    /// Its tools, by raw name.
    pub tools: Vec<ManifestTool>,
    /// Every JavaScript name ever given, with the raw name that holds it; retired names stay.
    pub names: BTreeMap<JsName, RawToolName>,
    /// What was dropped and why, a line each.
    #[serde(default)]
    pub notices: Vec<String>,
}

/// One tool of a manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestTool {
    /// What it is called in code.
    pub name: JsName,
    /// What its source calls it.
    pub raw: RawToolName,
    /// Digest of `contract`, so that reading a manifest never has to hash.
    pub digest: Digest,
    /// What it claims to be.
    pub contract: Contract,
}
