//! The durable record: settings, sources, manifests, policies, runs, journals and blobs of one hub.

use crate::model::answer::RefusedAnswer;
use crate::model::connection::Connections;
use crate::model::digest::Digest;
use crate::model::facts::SourcePolicy;
use crate::model::ids::{RunId, SourceId};
use crate::model::journal::Entry;
use crate::model::names::ConnectionName;
use crate::model::policy::Policy;
use crate::model::run::{RunRecord, RunStatus};
use crate::model::source::{Manifest, Settings, SourceRecord};
use crate::model::time::WallMs;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

/// What can be locked, in the order in which locks may be taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockName {
    /// Everything but runs: held by whoever changes sources, policies or settings.
    Hub,
    /// The attempt of one run, or whoever appends a decision or a cancellation to it.
    Run(RunId),
    /// Says that the process which began a run lives and will drive it on.
    Owner(RunId),
}

/// One hub's store. Every write is all or nothing and survives a crash once it returned `Ok`, except for
/// appends that are not durable yet.
pub trait Store: Send + Sync + 'static {
    /// A lock that is held until it is dropped.
    type Lock: Send + Sync + 'static;

    /// Takes a lock, waiting at most `wait`.
    ///
    /// # Errors
    /// `Busy` when somebody else holds it for that long; `Unlockable` when the store cannot lock.
    fn lock(
        &self,
        name: LockName,
        wait: Duration,
    ) -> impl Future<Output = Result<Self::Lock, StoreError>> + Send;

    /// A number that every change to sources, manifests, policies and connections moves.
    ///
    /// # Errors
    /// It cannot be read.
    fn generation(&self) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// The settings.
    ///
    /// # Errors
    /// `NoHub` if there is none; `Malformed` with file, line and key.
    fn settings(&self) -> impl Future<Output = Result<Settings, StoreError>> + Send;

    /// Writes the settings; the first write makes the hub.
    ///
    /// # Errors
    /// Nothing was written.
    fn write_settings(
        &self,
        settings: &Settings,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Every source; a file that does not parse is an error in its place, and hides no other.
    ///
    /// # Errors
    /// They cannot be listed at all.
    fn sources(
        &self,
    ) -> impl Future<Output = Result<Vec<Result<SourceRecord, StoreError>>, StoreError>> + Send;

    /// Writes a source under the hub's lock.
    ///
    /// # Errors
    /// Nothing was written.
    fn write_source(
        &self,
        source: &SourceRecord,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Removes a source with its manifest, policy and connections.
    ///
    /// # Errors
    /// The source may still be there; removing it again is safe.
    fn remove_source(
        &self,
        source: &SourceId,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The last good manifest of a source.
    ///
    /// # Errors
    /// It does not parse.
    fn manifest(
        &self,
        source: &SourceId,
    ) -> impl Future<Output = Result<Option<Manifest>, StoreError>> + Send;

    /// Writes a manifest.
    ///
    /// # Errors
    /// The old one stays.
    fn write_manifest(
        &self,
        source: &SourceId,
        manifest: &Manifest,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The policy of a source; one that does not parse comes back as broken, which denies.
    fn policy(&self, source: &SourceId) -> impl Future<Output = SourcePolicy> + Send;

    /// Writes a policy under the hub's lock.
    ///
    /// # Errors
    /// The old one stays.
    fn write_policy(
        &self,
        source: &SourceId,
        policy: &Policy,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The connections of a source.
    ///
    /// # Errors
    /// They do not parse.
    fn connections(
        &self,
        source: &SourceId,
    ) -> impl Future<Output = Result<Connections, StoreError>> + Send;

    /// Writes the connections of a source under the hub's lock.
    ///
    /// # Errors
    /// The old ones stay.
    fn write_connections(
        &self,
        source: &SourceId,
        connections: &Connections,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// When each connection of a source was used last, as far as is known.
    fn last_used(
        &self,
        source: &SourceId,
    ) -> impl Future<Output = BTreeMap<ConnectionName, WallMs>> + Send;

    /// Notes that a connection was used. Best effort, and moves no generation.
    fn note_used(
        &self,
        source: &SourceId,
        connection: &ConnectionName,
        wall: WallMs,
    ) -> impl Future<Output = ()> + Send;

    /// Writes a run's record, once.
    ///
    /// # Errors
    /// There is no run of this id afterwards.
    fn create_run(&self, run: &RunRecord) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// A run's record.
    ///
    /// # Errors
    /// `NoRun`, or it does not parse.
    fn run(&self, run: &RunId) -> impl Future<Output = Result<RunRecord, StoreError>> + Send;

    /// Every run that is kept, newest first, with the status kept beside it.
    ///
    /// # Errors
    /// They cannot be listed.
    fn runs(&self) -> impl Future<Output = Result<Vec<(RunRecord, RunStatus)>, StoreError>> + Send;

    /// Keeps a run's status beside its record, for listing. It can be recomputed from the journal.
    ///
    /// # Errors
    /// The old one stays.
    fn write_status(
        &self,
        run: &RunId,
        status: RunStatus,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Reads a journal whole. A torn last line is not part of it.
    ///
    /// # Errors
    /// `Corrupt` when any other line is damaged.
    fn journal(&self, run: &RunId) -> impl Future<Output = Result<Vec<Entry>, StoreError>> + Send;

    /// How many bytes a journal has, or another number that moves whenever it grows.
    fn journal_bytes(&self, run: &RunId) -> impl Future<Output = u64> + Send;

    /// Appends `entries` behind the first `after` ones, under the run's lock. With `durable`, `Ok` means
    /// that these and all before them survive a crash.
    ///
    /// # Errors
    /// The entries may or may not be there: read the journal again before acting.
    fn append(
        &self,
        run: &RunId,
        after: u64,
        entries: &[Entry],
        durable: bool,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Keeps text under its digest.
    ///
    /// # Errors
    /// It may be missing.
    fn put_blob(
        &self,
        digest: Digest,
        text: &str,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Text kept under a digest; checked against it.
    ///
    /// # Errors
    /// It cannot be read, or differs from its digest.
    fn blob(
        &self,
        digest: Digest,
    ) -> impl Future<Output = Result<Option<String>, StoreError>> + Send;

    /// The wall time that was noted last, by any process.
    fn noted_wall(&self) -> impl Future<Output = Option<WallMs>> + Send;

    /// Notes a wall time that is believed.
    ///
    /// # Errors
    /// The one before stays.
    fn note_wall(&self, wall: WallMs) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Removes a run with its journal.
    ///
    /// # Errors
    /// Part of it may still be there; removing it again is safe.
    fn remove_run(&self, run: &RunId) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Removes every blob that is not in `keep` and was not written within the last day: what is being
    /// written may not be named anywhere yet. How many went.
    ///
    /// # Errors
    /// Some may still be there.
    fn remove_blobs(
        &self,
        keep: BTreeSet<Digest>,
    ) -> impl Future<Output = Result<usize, StoreError>> + Send;

    /// Keeps an answer that decided nothing, durably, as many of a run as `RefusedAnswer::is_kept_after` says; of a
    /// run that is gone, none.
    ///
    /// # Errors
    /// It may be missing, and what it carried could be tried again.
    fn refuse(
        &self,
        run: &RunId,
        refused: &RefusedAnswer,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Answers about a run that decided nothing, in the order they came.
    ///
    /// # Errors
    /// They cannot be read.
    fn refused(
        &self,
        run: &RunId,
    ) -> impl Future<Output = Result<Vec<RefusedAnswer>, StoreError>> + Send;

    /// Asks whoever drives a run to cancel it.
    ///
    /// # Errors
    /// Nobody was asked.
    fn request_cancel(&self, run: &RunId) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Has somebody asked to cancel the run?
    fn cancel_requested(&self, run: &RunId) -> impl Future<Output = bool> + Send;
}

/// What went wrong with the store, and what is safe to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no hub yet.
    #[error("there is no hub at `{place}`")]
    NoHub {
        /// Its folder.
        place: String,
    },
    /// There is no such run.
    #[error("there is no run `{0}`")]
    NoRun(RunId),
    /// Somebody else holds the lock.
    #[error("another process holds the lock on {0}")]
    Busy(String),
    /// The store cannot lock, so nothing is safe in it.
    #[error("{place} cannot be locked: {what}")]
    Unlockable {
        /// The lock's file.
        place: String,
        /// The system's words.
        what: String,
    },
    /// A newer hub has been here.
    #[error("{place} has format {found}, and this build knows {known}")]
    Upgraded {
        /// Which file, or which run.
        place: String,
        /// What the store says.
        found: u32,
        /// What this build writes.
        known: u32,
    },
    /// A file that a person may have edited does not parse.
    #[error("{place}: {what}")]
    Malformed {
        /// File and line.
        place: String,
        /// Key and rule.
        what: String,
    },
    /// A line of a journal is damaged.
    #[error("{place}: {what}")]
    Corrupt {
        /// File and line.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// Reading or writing failed.
    #[error("{place}: {what}")]
    Io {
        /// Which file.
        place: String,
        /// The system's words.
        what: String,
    },
    /// Another writer got there first: nothing was written.
    #[error("the journal of `{0}` is longer than expected")]
    Moved(RunId),
}
