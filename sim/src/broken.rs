//! Hubs that break a rule, so that an oracle proves it can tell.

use crate::fakes::{SimLock, SimPerson, SimPorts, SimSources, SimStore};
use crate::world::{Maker, Process};
use hub::core::approvals::Answer;
use hub::model::answer::{NotDecided, RefusedAnswer};
use hub::model::call::UpstreamResult;
use hub::model::connection::Connections;
use hub::model::digest::Digest;
use hub::model::envelope::Envelope;
use hub::model::facts::SourcePolicy;
use hub::model::ids::{RunId, SourceId};
use hub::model::journal::Entry;
use hub::model::names::ConnectionName;
use hub::model::policy::{Channel, Choice, Policy};
use hub::model::run::{RunRecord, RunStatus};
use hub::model::source::{Manifest, Settings, SourceRecord};
use hub::model::time::{Tick, WallMs};
use hub::ports::person::{
    Client, ClientResponse, Forged, Incoming, Person, Prompt, Reached, ReadResponse, Waiting,
};
use hub::ports::sources::{CallError, Listing, Route, Sources, UpstreamCall};
use hub::ports::store::{LockName, Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
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
    /// The number that makes a client's answer good once is checked and never written down.
    ForgetsNonces,
    /// Arguments are completed after their digest was taken.
    FillsDefaults,
    /// An answer for the rest of a run counts for the tool on another connection.
    GrantsAnyConnection,
    /// Questions stay open for ever.
    NeverExpires,
    /// What a person forbids is read once, when the process begins.
    ReadsPoliciesOnce,
    /// An answer within a second is taken for a person's.
    BelievesFast,
}

/// Makes processes with a part that betrays them.
#[derive(Debug, Clone, Copy)]
pub struct Broken(pub Betrayal);

impl Maker for Broken {
    type Ports = SimPorts<BrokenStore, BrokenSources, SimPerson>;

    fn ports(&self, p: &Process<'_>) -> Self::Ports {
        let store = p.disk.store(p.faults.clone(), p.history.clone());
        let store = BrokenStore::new(store, Some(self.0));
        let sources = SimSources::new(p.upstreams.clone(), p.faults.clone());
        let sources = BrokenSources::new(sources, Some(self.0));
        SimPorts::new(p.seed, p.number, store, sources, p.person.clone())
    }
}

/// A store that betrays the hub in one way and is honest in all others.
#[derive(Debug)]
pub struct BrokenStore {
    inner: SimStore,
    how: Option<Betrayal>,
    policies: Mutex<BTreeMap<SourceId, SourcePolicy>>,
}

impl BrokenStore {
    /// A store that betrays the hub like this, or not at all.
    #[must_use]
    pub fn new(inner: SimStore, how: Option<Betrayal>) -> BrokenStore {
        BrokenStore { inner, how, policies: Mutex::default() }
    }

    /// An entry as the hub is made to read it.
    fn read(&self, entry: Entry) -> Entry {
        match (self.how, entry) {
            (Some(Betrayal::NeverExpires), Entry::Question(mut question)) => {
                question.expires = WallMs(u64::MAX);
                Entry::Question(question)
            }
            (_, entry) => entry,
        }
    }

    /// An answer for the rest of the run, stretched over every question about the tool.
    async fn stretched(&self, run: &RunId, entries: &mut [Entry]) -> Result<(), StoreError> {
        if self.how != Some(Betrayal::GrantsAnyConnection) {
            return Ok(());
        }
        let journal = self.inner.journal(run).await?;
        let mut questions = BTreeMap::new();
        for entry in &journal {
            if let Entry::Question(question) = entry {
                questions.insert(question.seq, question.binding.tool.clone());
            }
        }
        for entry in entries {
            if let Entry::Decided { seqs, choice: Choice::Run, .. } = entry {
                let tool = seqs.first().and_then(|seq| questions.get(seq)).cloned();
                let same = questions.iter().filter(|(_, known)| Some(*known) == tool.as_ref());
                *seqs = same.map(|(seq, _)| *seq).collect();
            }
        }
        Ok(())
    }

    fn stored(&self, entry: &Entry) -> Entry {
        // Something that changes nothing, so that the journal keeps its length.
        let nothing = || Entry::Resumed { build: String::new(), wall: WallMs(0) };
        match (self.how, entry) {
            (Some(Betrayal::ForgetsSent), Entry::Sent { .. }) => nothing(),
            (Some(Betrayal::ForgetsNonces), Entry::Decided { seqs, choice, channel, wall, .. }) => {
                let (seqs, nonce) = (seqs.clone(), None);
                Entry::Decided { seqs, choice: *choice, channel: *channel, wall: *wall, nonce }
            }
            // The pause that follows its questions turns into their answer.
            (Some(Betrayal::ForgesDecisions), Entry::Paused { .. }) => Entry::Decided {
                seqs: (1..200).map(hub::model::call::Seq).collect(),
                choice: Choice::Once,
                channel: Channel::Page,
                wall: WallMs(0),
                nonce: None,
            },
            (_, other) => other.clone(),
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
        let mut entries: Vec<Entry> = entries.iter().map(|entry| self.stored(entry)).collect();
        self.stretched(run, &mut entries).await?;
        let durable = durable && self.how != Some(Betrayal::NeverSyncs);
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
        let now = self.inner.policy(source).await;
        if self.how != Some(Betrayal::ReadsPoliciesOnce) {
            return now;
        }
        let mut known = self.policies.lock().expect("not poisoned");
        known.entry(source.clone()).or_insert(now).clone()
    }
    async fn write_policy(&self, source: &SourceId, policy: &Policy) -> Result<(), StoreError> {
        self.inner.write_policy(source, policy).await
    }
    async fn connections(&self, source: &SourceId) -> Result<Connections, StoreError> {
        self.inner.connections(source).await
    }
    async fn write_connections(
        &self,
        source: &SourceId,
        connections: &Connections,
    ) -> Result<(), StoreError> {
        self.inner.write_connections(source, connections).await
    }
    async fn last_used(&self, source: &SourceId) -> BTreeMap<ConnectionName, WallMs> {
        self.inner.last_used(source).await
    }
    async fn note_used(&self, source: &SourceId, connection: &ConnectionName, wall: WallMs) {
        self.inner.note_used(source, connection, wall).await;
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
        let entries = self.inner.journal(run).await?;
        Ok(entries.into_iter().map(|entry| self.read(entry)).collect())
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
        let mut refused = refused.clone();
        if self.how == Some(Betrayal::ForgetsNonces) {
            refused.nonce = None;
        }
        self.inner.refuse(run, &refused).await
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
    how: Option<Betrayal>,
}

impl BrokenSources {
    /// Sources that betray the hub like this, or not at all.
    #[must_use]
    pub fn new(inner: SimSources, how: Option<Betrayal>) -> BrokenSources {
        BrokenSources { inner, how }
    }
}

impl Sources for BrokenSources {
    async fn call(&self, route: &Route, call: &UpstreamCall) -> Result<UpstreamResult, CallError> {
        let mut call = call.clone();
        if self.how == Some(Betrayal::FillsDefaults)
            && let Some(members) = call.arguments.as_object_mut()
        {
            members.insert("loud".to_owned(), true.into());
        }
        match self.inner.call(route, &call).await {
            Err(CallError::Lost(_)) if self.how == Some(Betrayal::RetriesLost) => {
                self.inner.call(route, &call).await
            }
            other => other,
        }
    }

    async fn dial(
        &self,
        route: &Route,
        listed_after: Option<WallMs>,
        deadline: Tick,
    ) -> Result<Arc<Listing>, CallError> {
        self.inner.dial(route, listed_after, deadline).await
    }

    async fn close(&self, source: &SourceId) {
        self.inner.close(source).await;
    }

    async fn close_all(&self) {
        self.inner.close_all().await;
    }
}

/// A person's channels that betray the hub in one way and are honest in all others.
#[derive(Debug)]
pub struct BrokenPerson<H> {
    inner: H,
    how: Option<Betrayal>,
}

impl<H> BrokenPerson<H> {
    /// Channels that betray the hub like this, or not at all.
    #[must_use]
    pub fn new(inner: H, how: Option<Betrayal>) -> BrokenPerson<H> {
        BrokenPerson { inner, how }
    }
}

impl<H: Person> Person for BrokenPerson<H> {
    async fn publish(&self, waiting: &Waiting) -> Reached {
        self.inner.publish(waiting).await
    }

    async fn next_answer(&self, run: &RunId) -> Option<Incoming> {
        self.inner.next_answer(run).await
    }

    async fn tell(&self, run: &RunId, answer: &Answer, outcome: Result<(), NotDecided>) {
        self.inner.tell(run, answer, outcome).await;
    }

    async fn withdraw(&self, run: &RunId, ended: Option<&Envelope>) {
        self.inner.withdraw(run, ended).await;
    }

    async fn prompt(&self, waiting: &Waiting, client: &Client) -> Option<Prompt> {
        self.inner.prompt(waiting, client).await
    }

    async fn read_response(
        &self,
        response: &ClientResponse,
        client: &Client,
    ) -> Result<ReadResponse, Forged> {
        let mut read = self.inner.read_response(response, client).await?;
        if self.how == Some(Betrayal::BelievesFast) {
            for slip in read.answers.iter_mut().filter_map(|answer| answer.slip.as_mut()) {
                slip.sent = WallMs(0);
            }
        }
        Ok(read)
    }
}
