//! A tool as its source describes it.

use super::digest::Digest;
use super::json::canonical;
use super::names::RawToolName;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The members of a tool that make up its contract, in the order they are shown to people.
pub const CONTRACT_MEMBERS: &[&str] =
    &["name", "title", "description", "inputSchema", "outputSchema", "annotations"];

/// What a tool claims to be: name, title, description, schemas and annotations exactly as received,
/// so that an absent member and a null one differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Contract {
    members: Map<String, Value>,
}

impl Contract {
    /// Keeps the members of a listed tool that belong to its contract.
    #[must_use]
    pub fn from_listed(tool: &Map<String, Value>) -> Contract {
        let members = CONTRACT_MEMBERS
            .iter()
            .filter_map(|key| tool.get(*key).map(|value| ((*key).to_owned(), value.clone())))
            .collect();
        Contract { members }
    }

    /// One member, as received.
    #[must_use]
    pub fn member(&self, key: &str) -> Option<&Value> {
        self.members.get(key)
    }

    /// The raw name, if it is one.
    #[must_use]
    pub fn raw_name(&self) -> Option<RawToolName> {
        self.members.get("name")?.as_str()?.parse().ok()
    }

    /// The title a person reads: the tool's own, or its annotations'.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        let own = self.members.get("title").and_then(Value::as_str);
        own.or_else(|| self.annotation("title").and_then(Value::as_str))
            .filter(|t| !t.trim().is_empty())
    }

    /// What the tool says it does.
    #[must_use]
    pub fn description(&self) -> &str {
        self.members.get("description").and_then(Value::as_str).unwrap_or("")
    }

    /// Its input schema; a tool without one takes an empty object.
    #[must_use]
    pub fn input_schema(&self) -> Option<&Value> {
        self.members.get("inputSchema").filter(|schema| !schema.is_null())
    }

    /// Its output schema.
    #[must_use]
    pub fn output_schema(&self) -> Option<&Value> {
        self.members.get("outputSchema").filter(|schema| !schema.is_null())
    }

    /// Does it declare itself read-only?
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.declares("readOnlyHint")
    }

    /// Does it say that it deletes or overwrites? That means something only of a tool that writes.
    #[must_use]
    pub fn is_destructive(&self) -> bool {
        !self.is_read_only() && self.declares("destructiveHint")
    }

    /// The exact bytes the digest is over; also the blob a reviewed contract is kept in.
    #[must_use]
    pub fn canonical(&self) -> String {
        canonical(&Value::Object(self.members.clone()))
    }

    /// SHA-256 over [`Contract::canonical`].
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.canonical().as_bytes())
    }

    /// Is this annotation `true`, and nothing that only looks like it?
    fn declares(&self, key: &str) -> bool {
        self.annotation(key) == Some(&Value::Bool(true))
    }

    fn annotation(&self, key: &str) -> Option<&Value> {
        self.members.get("annotations")?.get(key)
    }
}
