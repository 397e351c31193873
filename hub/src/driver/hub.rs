//! A hub as a value made from ports. Two of them in one process share nothing.

use super::waiting::Watched;
use crate::core::index::{
    Catalog, DESCRIBE_TOKENS, Index, Inventory, Request, describe, read_targets, search,
};
use crate::model::contract::Contract;
use crate::model::digest::Digest;
use crate::model::error::{ErrorCode, Failure};
use crate::model::facts::{Facts, SourceFacts, SourcePolicy};
use crate::model::ids::{ID_BYTES, RunId, SourceId};
use crate::model::limits::Limits;
use crate::model::names::ConnectionName;
use crate::model::run::Snapshot;
use crate::model::source::SourceRecord;
use crate::model::time::WallMs;
use crate::ports::Ports;
use crate::ports::entropy::Entropy as _;
use crate::ports::postings::Postings;
use crate::ports::secrets::{Secrets as _, SecretsError};
use crate::ports::sources::Sources as _;
use crate::ports::store::{Store as _, StoreError};
use futures::StreamExt as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, OwnedRwLockReadGuard, RwLock, watch};

/// How long a lock on the hub is waited for.
pub(super) const LOCK_WAIT: Duration = Duration::from_secs(10);

/// How often it is written down that a connection was used, in milliseconds.
const USE_NOTED_EVERY_MS: u64 = 60_000;

/// Sources whose files are read at once.
const READ_AT_ONCE: usize = 8;

/// One hub.
pub struct Hub<P: Ports> {
    inner: Arc<Inner<P>>,
}

/// The search index over a hub's ports.
type IndexOf<P> = Index<<<P as Ports>::Postings as Postings>::Index>;

struct Inner<P: Ports> {
    ports: P,
    build: String,
    known: Mutex<Known<P>>,
    /// What was taken in of each source by this process.
    taken: Mutex<BTreeMap<SourceId, Arc<AsyncMutex<Option<Taken>>>>>,
    /// Raised when this process is about to end.
    ending: watch::Sender<bool>,
    /// Read by every attempt; written by whoever waits for all of them.
    attempts: Arc<RwLock<()>>,
    /// Held while an index is made: one is enough.
    indexing: AsyncMutex<()>,
    /// Held while the store is read.
    reading: AsyncMutex<()>,
    watched: Watched,
    /// When this process last noted that a connection was used.
    used: Mutex<BTreeMap<(SourceId, ConnectionName), WallMs>>,
}

/// A listing that was taken in, and the store's generation when it was: another process may have taken
/// in another since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) number: u64,
    pub(super) generation: u64,
}

/// What runs can see, as it is kept and as it is used.
pub(super) struct TakenSnapshot {
    pub(super) digest: Digest,
    pub(super) text: String,
    pub(super) parsed: Arc<Snapshot>,
}

struct Known<P: Ports> {
    facts: Option<Arc<Facts>>,
    index: Option<Arc<IndexOf<P>>>,
    /// What runs that started last can see, and the facts' generation it was taken of.
    snapshot: Option<(u64, Arc<TakenSnapshot>)>,
}

impl<P: Ports> Clone for Hub<P> {
    fn clone(&self) -> Self {
        Hub { inner: Arc::clone(&self.inner) }
    }
}

/// Why the hub could not do what it was asked, by what is safe to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HubError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A setting is out of range.
    #[error("hub.json: {0}")]
    Settings(String),
    /// There is no source of that namespace.
    #[error("there is no source `{0}`")]
    NoSource(String),
    /// Another source has the namespace.
    #[error("the namespace `{0}` is taken")]
    NamespaceTaken(String),
    /// The source may not run: nobody agreed to it.
    #[error("nobody has agreed to run the source `{0}`")]
    NotConsented(String),
    /// The source wants a credential, or another one than it has.
    #[error("{namespace}: {why}")]
    Unauthorized {
        /// Its namespace.
        namespace: String,
        /// Its own words.
        why: String,
    },
    /// There is no connection of that name.
    #[error("`{namespace}` has no connection `{name}`")]
    NoConnection {
        /// The source.
        namespace: String,
        /// What was asked for.
        name: String,
    },
    /// A credential cannot be kept or had.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The source could not be reached; nothing changed.
    #[error("{namespace}: {why}")]
    Unreachable {
        /// Its namespace.
        namespace: String,
        /// Exit code, last line of its error output, or what else is known.
        why: String,
    },
}

impl HubError {
    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            HubError::Store(StoreError::NoHub { .. }) => {
                Some("make one with `capabilities hub init`".to_owned())
            }
            HubError::Store(StoreError::NoRun(_)) => {
                Some("`capabilities hub runs` lists the runs that are kept".to_owned())
            }
            HubError::Store(StoreError::Busy(_)) => {
                Some("try again in a moment; `capabilities hub doctor` names the holder".to_owned())
            }
            HubError::Store(StoreError::Upgraded { .. }) => {
                Some("a newer hub wrote it: restart the client, or use that newer build".to_owned())
            }
            HubError::Store(StoreError::Unlockable { .. }) => Some(
                "remove what stands in that file's place, or move the hub to a local disk with CAPABILITIES_HOME"
                    .to_owned(),
            ),
            HubError::Store(StoreError::Malformed { .. }) | HubError::Settings(_) => {
                Some("correct the file, or restore it from a copy".to_owned())
            }
            HubError::Store(StoreError::Corrupt { .. }) => Some(
                "start a new run, and keep the file for diagnosis: nothing is repaired silently"
                    .to_owned(),
            ),
            HubError::Store(StoreError::Io { .. }) => Some(
                "check free space and permissions there; `capabilities hub doctor` checks the whole store"
                    .to_owned(),
            ),
            HubError::Store(StoreError::Moved(_)) => {
                Some("another process went on with it: resume the run".to_owned())
            }
            HubError::NoSource(_) => Some("`capabilities hub list` shows every source".to_owned()),
            HubError::NamespaceTaken(_) => Some(
                "choose another with `--namespace`, or remove the other source first".to_owned(),
            ),
            HubError::NotConsented(name) => Some(format!(
                "look at its command and agree to it with `capabilities hub review {name}`"
            )),
            HubError::Unauthorized { namespace, .. } => {
                Some(format!("enter its credential with `capabilities hub auth {namespace}`"))
            }
            HubError::NoConnection { namespace, .. } => {
                Some(format!("`capabilities hub connections {namespace}` lists them"))
            }
            HubError::Secrets(error) => Some(super::connections::secret_hint(error)),
            HubError::Unreachable { .. } => {
                Some("nothing changed; correct the command or address, or try again".to_owned())
            }
        }
    }
}

impl From<&StoreError> for Failure {
    fn from(error: &StoreError) -> Failure {
        let code = match error {
            StoreError::NoRun(_) => ErrorCode::UnknownRun,
            StoreError::Corrupt { .. } => ErrorCode::JournalCorrupt,
            StoreError::Upgraded { .. } => ErrorCode::HubUpgraded,
            StoreError::NoHub { .. }
            | StoreError::Busy(_)
            | StoreError::Unlockable { .. }
            | StoreError::Malformed { .. }
            | StoreError::Io { .. }
            | StoreError::Moved(_) => ErrorCode::StoreFailed,
        };
        let failure = Failure::new(code, error.to_string());
        match HubError::Store(error.clone()).hint() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

impl<P: Ports> Hub<P> {
    /// A hub over `ports`, driven by `build`.
    #[must_use]
    pub fn new(ports: P, build: impl Into<String>) -> Hub<P> {
        let known = Mutex::new(Known { facts: None, index: None, snapshot: None });
        let inner = Inner {
            ports,
            build: build.into(),
            known,
            taken: Mutex::default(),
            ending: watch::Sender::new(false),
            attempts: Arc::default(),
            indexing: AsyncMutex::new(()),
            reading: AsyncMutex::new(()),
            watched: Watched::default(),
            used: Mutex::default(),
        };
        Hub { inner: Arc::new(inner) }
    }

    /// Ends everything this process drives: attempts stop once their writes have settled, and stay
    /// interrupted; then every source is closed.
    pub async fn shut_down(&self) {
        self.inner.ending.send_replace(true);
        drop(self.inner.attempts.write().await);
        self.ports().sources().close_all().await;
    }

    /// Whether [`Hub::shut_down`] was called.
    pub(super) fn is_ending(&self) -> bool {
        *self.inner.ending.borrow()
    }

    /// Counts an attempt as running while what is returned lives, and tells it when to end.
    pub(super) async fn enter(&self) -> (OwnedRwLockReadGuard<()>, watch::Receiver<bool>) {
        let ending = self.inner.ending.subscribe();
        (Arc::clone(&self.inner.attempts).read_owned().await, ending)
    }

    /// The waiting runs that this process watches.
    pub(super) fn watched(&self) -> &Watched {
        &self.inner.watched
    }

    /// Its ports.
    #[must_use]
    pub fn ports(&self) -> &P {
        &self.inner.ports
    }

    /// The build that drives it.
    #[must_use]
    pub fn build(&self) -> &str {
        &self.inner.build
    }

    /// The limits that `hub.json` sets.
    ///
    /// # Errors
    /// There is no hub, or a limit is out of range.
    pub async fn limits(&self) -> Result<Limits, HubError> {
        let settings = self.ports().store().settings().await?;
        settings.limits.apply().map_err(|error| HubError::Settings(error.to_string()))
    }

    /// What the hub knows at this moment; read anew only when something changed.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn facts(&self) -> Result<Arc<Facts>, StoreError> {
        let generation = self.ports().store().generation().await?;
        let known = self.known().facts.clone().filter(|facts| facts.generation == generation);
        if let Some(facts) = known {
            return Ok(facts);
        }
        // Read once, however many ask.
        let _one = self.inner.reading.lock().await;
        // Somebody may have changed something while this one waited: what is read now is of now.
        let generation = self.ports().store().generation().await?;
        let known = self.known().facts.clone().filter(|facts| facts.generation == generation);
        if let Some(facts) = known {
            return Ok(facts);
        }
        let facts = Arc::new(self.read_facts(generation).await?);
        let before = {
            let mut known = self.known();
            known.index = None;
            known.facts.replace(Arc::clone(&facts))
        };
        self.close_gone(before.as_deref(), &facts).await;
        Ok(facts)
    }

    /// What a run that starts at this moment can see. Made once for as long as nothing changes.
    pub(super) fn take_snapshot(&self, facts: &Facts) -> serde_json::Result<Arc<TakenSnapshot>> {
        if let Some((generation, taken)) = &self.known().snapshot
            && *generation == facts.generation
        {
            return Ok(Arc::clone(taken));
        }
        let parsed = Arc::new(facts.snapshot());
        let text = serde_json::to_string(&*parsed)?;
        let taken = Arc::new(TakenSnapshot { digest: Digest::of(text.as_bytes()), text, parsed });
        self.known().snapshot = Some((facts.generation, Arc::clone(&taken)));
        Ok(taken)
    }

    /// What a run could see when it started.
    pub(super) async fn snapshot(&self, digest: Digest) -> Result<Arc<Snapshot>, StoreError> {
        if let Some((_, taken)) = &self.known().snapshot
            && taken.digest == digest
        {
            return Ok(Arc::clone(&taken.parsed));
        }
        let corrupt = |what: &str| StoreError::Corrupt {
            place: format!("blobs/{digest}"),
            what: what.to_owned(),
        };
        let text = self.ports().store().blob(digest).await?;
        let text = text.ok_or_else(|| corrupt("what the run could see is missing"))?;
        let parsed = serde_json::from_str(&text);
        parsed.map(Arc::new).map_err(|_| corrupt("what the run could see does not parse"))
    }

    /// Ends connections to sources that were removed, or that nobody agrees to any more.
    async fn close_gone(&self, before: Option<&Facts>, after: &Facts) {
        let consented = |facts: &Facts, id: &SourceId| {
            facts.sources.get(id).is_some_and(|source| source.record.is_consented())
        };
        for id in before.into_iter().flat_map(|before| before.sources.keys()) {
            if !consented(after, id) {
                self.ports().sources().close(id).await;
            }
        }
    }

    async fn read_facts(&self, generation: u64) -> Result<Facts, StoreError> {
        let store = self.ports().store();
        let settings = store.settings().await?;
        let mut facts = Facts { generation, ..Facts::default() };
        let mut records = Vec::new();
        // The approval page of any process of this hub carries it; no source may bring it back.
        self.ports().secrets().know_surface(&settings.page_mark());
        facts.hub = Some(settings.id);
        for record in store.sources().await? {
            match record {
                Ok(record) => {
                    // Known before anything of any source can carry them.
                    self.ports().secrets().know(&record.transport);
                    records.push(record);
                }
                Err(error) => {
                    tracing::warn!(%error, "a source cannot be read and is left out");
                }
            }
        }
        let reading = records.into_iter().map(|record| self.read_source(record));
        let mut sources = futures::stream::iter(reading).buffered(READ_AT_ONCE);
        while let Some(source) = sources.next().await {
            self.read_reviewed(&source, &mut facts).await?;
            facts.sources.insert(source.record.id.clone(), source);
        }
        Ok(facts)
    }

    async fn read_source(&self, record: SourceRecord) -> SourceFacts {
        let store = self.ports().store();
        let id = record.id.clone();
        let manifest = match store.manifest(&id).await {
            Ok(manifest) => manifest,
            Err(error) => {
                tracing::warn!(%error, "a manifest cannot be read; `capabilities hub refresh` lists the source again");
                None
            }
        };
        let policy = store.policy(&id).await;
        let mut source = SourceFacts::new(record, manifest, policy);
        match store.connections(&id).await {
            Ok(connections) => source.connections = connections,
            Err(error) => source.policy = SourcePolicy::Broken(error.to_string()),
        }
        source
    }

    /// Reviewed contracts of tools that differ from them, so that a question can say what changed.
    async fn read_reviewed(
        &self,
        source: &SourceFacts,
        facts: &mut Facts,
    ) -> Result<(), StoreError> {
        for tool in source.tools.values() {
            let Some(pin) = source.policy.pin(&tool.raw).filter(|pin| pin.contract != tool.digest)
            else {
                continue;
            };
            let Some(text) = self.ports().store().blob(pin.contract).await? else { continue };
            if let Ok(contract) = serde_json::from_str::<Contract>(&text) {
                facts.reviewed.insert(pin.contract, contract);
            }
        }
        Ok(())
    }

    async fn index(&self) -> Result<Arc<IndexOf<P>>, StoreError> {
        let facts = self.facts().await?;
        let current = |index: &&Arc<IndexOf<P>>| index.facts().generation == facts.generation;
        if let Some(index) = self.known().index.as_ref().filter(current) {
            return Ok(Arc::clone(index));
        }
        let _one = self.inner.indexing.lock().await;
        if let Some(index) = self.known().index.as_ref().filter(current) {
            return Ok(Arc::clone(index));
        }
        let catalog = Catalog::new(Arc::clone(&facts));
        let (key, count, making) = (catalog.key(), catalog.len(), catalog.clone());
        let postings = self.ports().postings().open(key, count, move || making.documents()).await;
        let index = Arc::new(Index::new(catalog, postings));
        let mut known = self.known();
        // The person may have changed something while it was made.
        if known.facts.as_ref().is_some_and(|known| known.generation == facts.generation) {
            known.index = Some(Arc::clone(&index));
        }
        Ok(index)
    }

    /// Answers `search`. Touches no upstream.
    ///
    /// # Errors
    /// `invalid_input` naming field and range, or the store failed.
    pub async fn search(&self, arguments: &Value) -> Result<String, Failure> {
        let request = Request::read(arguments).map_err(|error| invalid(&error.to_string()))?;
        let index = self.index().await.map_err(|error| Failure::from(&error))?;
        let text = search(&index, &request).map_err(|error| invalid(&error.to_string()))?;
        Ok(self.scrub(&text))
    }

    /// Answers `describe`. Touches no upstream.
    ///
    /// # Errors
    /// `invalid_input` naming field and range, or the store failed.
    pub async fn describe(&self, arguments: &Value) -> Result<String, Failure> {
        let targets = read_targets(arguments).map_err(|error| invalid(&error.to_string()))?;
        let facts = self.facts().await.map_err(|error| Failure::from(&error))?;
        let text = describe(&facts, &targets, DESCRIBE_TOKENS)
            .map_err(|error| invalid(&error.to_string()))?;
        Ok(self.scrub(&text))
    }

    /// Namespaces with tool counts and the person's labels, for the instructions.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn inventory(&self) -> Result<String, StoreError> {
        let store = self.ports().store();
        let generation = store.generation().await?;
        let known = self.known().facts.clone().filter(|facts| facts.generation == generation);
        let mut inventory = Inventory::default();
        if let Some(facts) = known {
            let visible = facts.visible();
            for source in &visible {
                if !inventory.add(&source.record, source.tools.len()) {
                    break;
                }
            }
            return Ok(inventory.finish(visible.len()));
        }
        // A client waits for this line when it starts: what does not fit into it is not read.
        let records = store.sources().await?.into_iter().flatten();
        let mut records: Vec<_> = records.filter(SourceRecord::is_consented).collect();
        records.sort_by(|a, b| a.namespace.cmp(&b.namespace));
        for record in &records {
            let manifest = store.manifest(&record.id).await.ok().flatten();
            if !inventory.add(record, manifest.map_or(0, |manifest| manifest.tools.len())) {
                break;
            }
        }
        Ok(inventory.finish(records.len()))
    }

    /// Reads what the first requests will need.
    pub async fn warm_up(&self) {
        // Whoever asks next learns what is wrong.
        let _ = self.index().await;
        if let Ok(facts) = self.facts().await {
            let _ = self.learn_secrets(&facts).await;
        }
    }

    pub(super) fn scrub(&self, text: &str) -> String {
        self.ports().secrets().scrub(text)
    }

    fn known(&self) -> MutexGuard<'_, Known<P>> {
        self.inner.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place where it is noted which listing of a source was taken in; held while one is.
    pub(super) fn taken(&self, source: &SourceId) -> Arc<AsyncMutex<Option<Taken>>> {
        let mut taken = self.inner.taken.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(taken.entry(source.clone()).or_default())
    }

    /// Was the use of a connection noted lately? If not, it counts as noted from here on.
    pub(super) fn is_use_noted(
        &self,
        source: &SourceId,
        name: &ConnectionName,
        wall: WallMs,
    ) -> bool {
        let mut used = self.inner.used.lock().unwrap_or_else(PoisonError::into_inner);
        let known = used.get(&(source.clone(), name.clone()));
        if known.is_some_and(|noted| wall.0.abs_diff(noted.0) < USE_NOTED_EVERY_MS) {
            return true;
        }
        used.insert((source.clone(), name.clone()), wall);
        false
    }

    fn random(&self) -> [u8; ID_BYTES] {
        let mut bytes = [0; ID_BYTES];
        self.ports().entropy().fill(&mut bytes);
        bytes
    }

    pub(super) fn new_run_id(&self) -> RunId {
        RunId::from_random(self.random())
    }

    pub(super) fn new_source_id(&self) -> SourceId {
        SourceId::from_random(self.random())
    }
}

fn invalid(what: &str) -> Failure {
    Failure::new(ErrorCode::InvalidInput, what)
}
