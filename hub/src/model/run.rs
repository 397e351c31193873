//! A run's record and what it can see, both written once at its start.

use super::digest::Digest;
use super::ids::{RunId, SourceId};
use super::limits::Limits;
use super::names::{ConnectionName, JsName, Namespace, RawToolName};
use super::time::WallMs;
use serde::{Deserialize, Serialize};

/// Version of the run record and journal format this build writes.
pub const RUN_VERSION: u32 = 1;

/// Where a run stands. The last four are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Driven by a process, or interrupted if its lock is free.
    Running,
    /// Waiting for a person.
    AwaitingInput,
    /// Returned.
    Completed,
    /// Ended with an error.
    Failed,
    /// Ended by a person or its client.
    Cancelled,
    /// Nobody decided in time.
    Expired,
}

impl RunStatus {
    /// Is the run over?
    #[must_use]
    pub fn is_final(self) -> bool {
        match self {
            RunStatus::Running | RunStatus::AwaitingInput => false,
            RunStatus::Completed
            | RunStatus::Failed
            | RunStatus::Cancelled
            | RunStatus::Expired => true,
        }
    }

    /// The status as people and `--status` spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RunStatus::Running => "running",
            RunStatus::AwaitingInput => "awaiting_input",
            RunStatus::Completed => "completed",
            RunStatus::Failed => "failed",
            RunStatus::Cancelled => "cancelled",
            RunStatus::Expired => "expired",
        }
    }
}

/// `runs/<id>.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// Format of this record and of the journal beside it.
    pub version: u32,
    /// Its id.
    pub id: RunId,
    /// The code as it was given.
    pub code: String,
    /// The code as it runs, after the rewrites in `notices`.
    pub program: String,
    /// One line per rewrite.
    pub notices: Vec<String>,
    /// What `Math.random` and `crypto` draw from.
    pub seed: Digest,
    /// When the run began; its own clock starts here.
    pub started: WallMs,
    /// The limits it runs under.
    pub limits: Limits,
    /// The profile it was started in.
    pub profile: String,
    /// The build that started it.
    pub build: String,
    /// Digest of the [`Snapshot`], which is kept as a blob.
    pub snapshot: Digest,
}

/// What one run can see, frozen at its start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// Ordered by namespace.
    pub sources: Vec<SnapshotSource>,
}

/// One source of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotSource {
    /// Which source.
    pub id: SourceId,
    /// What it is called in code.
    pub namespace: Namespace,
    /// Its connections.
    pub connections: Vec<ConnectionName>,
    /// The connection of a call that names none.
    pub default_connection: Option<ConnectionName>,
    /// Ordered by name.
    pub tools: Vec<SnapshotTool>,
}

/// One tool of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotTool {
    /// What it is called in code.
    pub name: JsName,
    /// What its source calls it.
    pub raw: RawToolName,
    /// What it claimed to be.
    pub contract: Digest,
}
