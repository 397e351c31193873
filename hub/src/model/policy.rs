//! Rules, pins, rulings and the reasons for them.

use super::digest::Digest;
use super::names::{ConnectionName, RawToolName};
use super::time::WallMs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What becomes of a call. Mildest to strictest, so that `max` picks the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It runs.
    Allow,
    /// A person decides.
    Ask,
    /// It fails.
    Deny,
}

/// Why a ruling came out as it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// A rule says so.
    Rule {
        /// What the rule covers.
        scope: Scope,
        /// What it says.
        effect: Effect,
    },
    /// A person decided this very call.
    Decision,
    /// A person allowed this tool for the rest of the run.
    RunGrant,
    /// A person denied the same call earlier in this run.
    DeniedBefore,
    /// Nobody has reviewed this tool.
    NewTool,
    /// The tool differs from what was reviewed, or from what it was when the run began.
    Changed,
    /// The tool's reviewed contract declares it read-only.
    ReadOnly,
    /// The tool does not declare itself read-only.
    NotReadOnly,
    /// The source's policy file cannot be used, so everything of the source is denied.
    BrokenPolicy {
        /// File, line and key.
        detail: String,
    },
}

impl Because {
    /// The reason as a person reads it.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Because::Rule { scope, effect } => {
                let verb = match effect {
                    Effect::Allow => "allows",
                    Effect::Ask => "asks about",
                    Effect::Deny => "denies",
                };
                format!("a rule {verb} {}", scope.sentence())
            }
            Because::Decision => "a person decided this call".to_owned(),
            Because::RunGrant => "a person allowed this tool for this run".to_owned(),
            Because::DeniedBefore => "a person denied the same call earlier in this run".to_owned(),
            Because::NewTool => "nobody has reviewed this tool yet".to_owned(),
            Because::Changed => "the tool changed since it was reviewed".to_owned(),
            Because::ReadOnly => "the tool declares itself read-only".to_owned(),
            Because::NotReadOnly => "the tool does not declare itself read-only".to_owned(),
            Because::BrokenPolicy { detail } => {
                format!("the source's policy cannot be used: {detail}")
            }
        }
    }
}

/// A decision of the policy, with the reasons that led to it. Never without one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruling {
    /// What becomes of the call.
    pub effect: Effect,
    /// Why, most important first.
    pub because: Vec<Because>,
}

/// What a rule covers, within the source whose file it stands in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Scope {
    /// One tool, or every tool of the source.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<RawToolName>,
    /// Which calls of it, by connection.
    #[serde(default)]
    pub connection: ConnectionScope,
}

/// Which calls a rule covers, by the connection they use.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionScope {
    /// Every call.
    #[default]
    Any,
    /// Calls that use none. What a person allowed then does not cover a credential added later.
    Without,
    /// Calls that use this one.
    Named(ConnectionName),
}

impl ConnectionScope {
    /// The scope of exactly the connection a call uses.
    #[must_use]
    pub fn of(connection: Option<&ConnectionName>) -> ConnectionScope {
        connection.map_or(ConnectionScope::Without, |name| ConnectionScope::Named(name.clone()))
    }

    /// Does it cover a call on this connection?
    #[must_use]
    pub fn covers(&self, connection: Option<&ConnectionName>) -> bool {
        match self {
            ConnectionScope::Any => true,
            ConnectionScope::Without => connection.is_none(),
            ConnectionScope::Named(name) => Some(name) == connection,
        }
    }
}

impl Scope {
    /// How specific the scope is: tool and connection, tool, source and connection, source.
    #[must_use]
    pub fn rank(&self) -> u8 {
        u8::from(self.tool.is_some()) * 2 + u8::from(self.connection != ConnectionScope::Any)
    }

    fn sentence(&self) -> String {
        let what = if self.tool.is_some() { "this tool" } else { "this source" };
        match &self.connection {
            ConnectionScope::Any => what.to_owned(),
            ConnectionScope::Without => format!("{what} without a connection"),
            ConnectionScope::Named(name) => format!("{what} on connection `{name}`"),
        }
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What it covers.
    pub scope: Scope,
    /// What it says.
    pub effect: Effect,
    /// The contract it was made for; it does not apply to another. Only `allow` is ever pinned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub contract: Option<Digest>,
}

/// A tool's contract as a person reviewed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// Digest of the contract; the contract itself is the blob of that name.
    pub contract: Digest,
    /// When.
    pub reviewed: WallMs,
}

/// Version of the policy file this build writes.
pub const POLICY_VERSION: u32 = 1;

/// `policies/<source id>.json`: what a person said about one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Format.
    pub version: u32,
    /// Rules, in the order they were made.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// Reviewed tools.
    #[serde(default)]
    pub pins: BTreeMap<RawToolName, Pin>,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { version: POLICY_VERSION, rules: Vec::new(), pins: BTreeMap::new() }
    }
}

/// A person's answer to one pending call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// This call runs.
    Once,
    /// This tool, on this connection, runs for the rest of the run.
    Run,
    /// A rule pinned to the tool's contract is written.
    Always,
    /// The call fails with `approval_denied`.
    Deny,
}

/// Where a person's answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// `capabilities hub approve`, or the question `call` and `exec` ask.
    Terminal,
    /// The approval page.
    Page,
    /// The client's own prompt.
    Client,
}
