//! Hubs that break a rule, so that an oracle proves it can tell.

use crate::fakes::{SimLock, SimPerson, SimPorts, SimSources, SimStore};
use crate::world::{Maker, Process};
use hub::model::answer::RefusedAnswer;
use hub::model::call::UpstreamResult;
use hub::model::digest::Digest;
use hub::model::facts::SourcePolicy;
use hub::model::ids::{RunId, SourceId};
use hub::model::journal::Entry;
use hub::model::policy::{Channel, Choice, Policy};
use hub::model::run::{RunRecord, RunStatus};
use hub::model::source::{Connections, Manifest, Settings, SourceRecord};
use hub::model::time::{Tick, WallMs};
use hub::ports::sources::{CallError, Listing, Sources, UpstreamCall};
use hub::ports::store::{LockName, Store, StoreError};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How a part betrays the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Betrayal {
    /// A question that is stored comes with its own answer.
    ForgesDecisions,
    /// `sent` is acknowledged and something else is stored.
    ForgetsSent,
    /// Nothing is ever synced.
    NeverSyncs,
    /// A call whose answer was lost is sent again.
    RetriesLost,
}

/// Makes processes with a part that betrays them.
#[derive(Debug, Clone, Copy)]
pub struct Broken(pub Betrayal);

impl Maker for Broken {
    type Ports = SimPorts<BrokenStore, BrokenSources, SimPerson>;

    fn ports(&self, p: &Process<'_>) -> Self::Ports {
        let store =
            BrokenStore { inner: p.disk.store(p.faults.clone(), p.history.clone()), how: self.0 };
        let sources = SimSources::new(p.upstreams.clone(), p.faults.clone());
        let sources = BrokenSources { inner: sources, how: self.0 };
        SimPorts::new(p.seed, p.number, store, sources, p.person.clone())
    }
}

/// A store that betrays the hub in one way and is honest in all others.
#[derive(Debug)]
pub struct BrokenStore {
    inner: SimStore,
    how: Betrayal,
}

impl BrokenStore {
    fn stored(&self, entry: &Entry) -> Entry {
        // Something that changes nothing, so that the journal keeps its length.
        let nothing = || Entry::Resumed { build: String::new(), wall: WallMs(0) };
        match (self.how, entry) {
            (Betrayal::ForgetsSent, Entry::Sent { .. }) => nothing(),
            // The pause that follows its questions turns into their answer.
            (Betrayal::ForgesDecisions, Entry::Paused { .. }) => Entry::Decided {
                seqs: (1..200).map(hub::model::call::Seq).collect(),
                choice: Choice::Once,
                channel: Channel::Page,
                wall: WallMs(0),
                nonce: None,
            },
            (
                Betrayal::ForgesDecisions
                | Betrayal::ForgetsSent
                | Betrayal::NeverSyncs
                | Betrayal::RetriesLost,
                other,
            ) => other.clone(),
        }
    }
}

impl Store for BrokenStore {
    type Lock = SimLock;

    async fn append(
        &self,
        run: &RunId,
        after: u64,
        entries: &[Entry],
        durable: bool,
    ) -> Result<(), StoreError> {
        let entries: Vec<Entry> = entries.iter().map(|entry| self.stored(entry)).collect();
        let durable = durable && self.how != Betrayal::NeverSyncs;
        self.inner.append(run, after, &entries, durable).await
    }

    async fn lock(&self, name: LockName, wait: Duration) -> Result<SimLock, StoreError> {
        self.inner.lock(name, wait).await
    }
    async fn generation(&self) -> Result<u64, StoreError> {
        self.inner.generation().await
    }
    async fn settings(&self) -> Result<Settings, StoreError> {
        self.inner.settings().await
    }
    async fn write_settings(&self, settings: &Settings) -> Result<(), StoreError> {
        self.inner.write_settings(settings).await
    }
    async fn sources(&self) -> Result<Vec<Result<SourceRecord, StoreError>>, StoreError> {
        self.inner.sources().await
    }
    async fn write_source(&self, source: &SourceRecord) -> Result<(), StoreError> {
        self.inner.write_source(source).await
    }
    async fn remove_source(&self, source: &SourceId) -> Result<(), StoreError> {
        self.inner.remove_source(source).await
    }
    async fn manifest(&self, source: &SourceId) -> Result<Option<Manifest>, StoreError> {
        self.inner.manifest(source).await
    }
    async fn write_manifest(
        &self,
        source: &SourceId,
        manifest: &Manifest,
    ) -> Result<(), StoreError> {
        self.inner.write_manifest(source, manifest).await
    }
    async fn policy(&self, source: &SourceId) -> SourcePolicy {
        self.inner.policy(source).await
    }
    async fn write_policy(&self, source: &SourceId, policy: &Policy) -> Result<(), StoreError> {
        self.inner.write_policy(source, policy).await
    }
    async fn connections(&self, source: &SourceId) -> Result<Connections, StoreError> {
        self.inner.connections(source).await
    }
    async fn create_run(&self, run: &RunRecord) -> Result<(), StoreError> {
        self.inner.create_run(run).await
    }
    async fn run(&self, run: &RunId) -> Result<RunRecord, StoreError> {
        self.inner.run(run).await
    }
    async fn runs(&self) -> Result<Vec<(RunRecord, RunStatus)>, StoreError> {
        self.inner.runs().await
    }
    async fn write_status(&self, run: &RunId, status: RunStatus) -> Result<(), StoreError> {
        self.inner.write_status(run, status).await
    }
    async fn journal(&self, run: &RunId) -> Result<Vec<Entry>, StoreError> {
        self.inner.journal(run).await
    }
    async fn journal_bytes(&self, run: &RunId) -> u64 {
        self.inner.journal_bytes(run).await
    }
    async fn put_blob(&self, digest: Digest, text: &str) -> Result<(), StoreError> {
        self.inner.put_blob(digest, text).await
    }
    async fn blob(&self, digest: Digest) -> Result<Option<String>, StoreError> {
        self.inner.blob(digest).await
    }
    async fn noted_wall(&self) -> Option<WallMs> {
        self.inner.noted_wall().await
    }
    async fn note_wall(&self, wall: WallMs) -> Result<(), StoreError> {
        self.inner.note_wall(wall).await
    }
    async fn remove_run(&self, run: &RunId) -> Result<(), StoreError> {
        self.inner.remove_run(run).await
    }
    async fn refuse(&self, run: &RunId, refused: &RefusedAnswer) -> Result<(), StoreError> {
        self.inner.refuse(run, refused).await
    }
    async fn refused(&self, run: &RunId) -> Result<Vec<RefusedAnswer>, StoreError> {
        self.inner.refused(run).await
    }
    async fn remove_blobs(&self, keep: BTreeSet<Digest>) -> Result<usize, StoreError> {
        self.inner.remove_blobs(keep).await
    }
    async fn request_cancel(&self, run: &RunId) -> Result<(), StoreError> {
        self.inner.request_cancel(run).await
    }
    async fn cancel_requested(&self, run: &RunId) -> bool {
        self.inner.cancel_requested(run).await
    }
}

/// Sources that betray the hub in one way and are honest in all others.
#[derive(Debug)]
pub struct BrokenSources {
    inner: SimSources,
    how: Betrayal,
}

impl Sources for BrokenSources {
    async fn call(
        &self,
        source: &SourceRecord,
        call: &UpstreamCall,
    ) -> Result<UpstreamResult, CallError> {
        match self.inner.call(source, call).await {
            Err(CallError::Lost(_)) if self.how == Betrayal::RetriesLost => {
                self.inner.call(source, call).await
            }
            other => other,
        }
    }

    async fn dial(
        &self,
        source: &SourceRecord,
        listed_after: Option<WallMs>,
        deadline: Tick,
    ) -> Result<Arc<Listing>, CallError> {
        self.inner.dial(source, listed_after, deadline).await
    }

    async fn close(&self, source: &SourceId) {
        self.inner.close(source).await;
    }

    async fn close_all(&self) {
        self.inner.close_all().await;
    }
}
