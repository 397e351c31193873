//! A store in memory that knows what would survive a crash.

use super::faults::Faults;
use super::history::{History, Seen};
use hub::model::answer::RefusedAnswer;
use hub::model::connection::{Connections, Place};
use hub::model::digest::Digest;
use hub::model::facts::SourcePolicy;
use hub::model::ids::{RunId, SourceId};
use hub::model::journal::Entry;
use hub::model::names::ConnectionName;
use hub::model::policy::Policy;
use hub::model::run::{RunRecord, RunStatus};
use hub::model::source::{Manifest, Settings, SourceRecord};
use hub::model::time::WallMs;
use hub::ports::store::{LockName, Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// What lies on the disk, for every process that shares it.
#[derive(Debug, Default)]
pub(super) struct Contents {
    settings: Option<Settings>,
    generation: u64,
    sources: BTreeMap<SourceId, SourceRecord>,
    manifests: BTreeMap<SourceId, Manifest>,
    policies: BTreeMap<SourceId, SourcePolicy>,
    connections: BTreeMap<SourceId, Connections>,
    used: BTreeMap<SourceId, BTreeMap<ConnectionName, WallMs>>,
    runs: BTreeMap<RunId, StoredRun>,
    pub(super) blobs: BTreeMap<Digest, String>,
    cancels: BTreeSet<RunId>,
    locks: BTreeSet<LockName>,
    wall: Option<WallMs>,
}

#[derive(Debug)]
struct StoredRun {
    record: RunRecord,
    status: RunStatus,
    entries: Vec<Entry>,
    /// How many of them survive a crash.
    durable: usize,
    refused: Vec<RefusedAnswer>,
}

impl Contents {
    /// The machine dies: what was not durable is gone, and so is every lock. `kept` entries that were not
    /// durable happen to have reached the disk all the same.
    pub(super) fn crash(&mut self, kept: usize, history: &History) {
        self.locks.clear();
        for (id, run) in &mut self.runs {
            let left = (run.durable + kept).min(run.entries.len());
            run.entries.truncate(left);
            for entry in &run.entries[run.durable..] {
                history.see(Seen::Durable { run: id.clone(), entry: entry.clone() });
            }
            run.durable = left;
        }
    }
}

/// One process's view of the disk.
#[derive(Debug, Clone)]
pub struct SimStore {
    pub(super) disk: Arc<Mutex<Contents>>,
    faults: Faults,
    history: History,
}

impl SimStore {
    pub(super) fn new(disk: Arc<Mutex<Contents>>, faults: Faults, history: History) -> SimStore {
        SimStore { disk, faults, history }
    }

    fn lock_disk(&self) -> MutexGuard<'_, Contents> {
        self.disk.lock().expect("not poisoned")
    }

    /// Puts a policy in place that does not parse.
    pub fn break_policy(&self, source: &SourceId, what: &str) {
        let mut disk = self.lock_disk();
        disk.generation += 1;
        disk.policies.insert(source.clone(), SourcePolicy::Broken(what.to_owned()));
    }

    /// Gives a source connections, of which the first is the default.
    pub fn connect(&self, source: &SourceId, names: &[&str]) {
        let mut connections = Connections::default();
        for name in names {
            let name = name.parse().expect("the name of a connection");
            connections.enter(&name, Place::Env("TOKEN".to_owned()), WallMs(0));
        }
        let mut disk = self.lock_disk();
        disk.generation += 1;
        disk.connections.insert(source.clone(), connections);
    }

    async fn change<T>(&self, change: impl FnOnce(&mut Contents) -> T) -> T {
        self.faults
            .effect(|| {
                let mut disk = self.lock_disk();
                disk.generation += 1;
                change(&mut disk)
            })
            .await
    }
}

/// A held lock.
#[derive(Debug)]
pub struct SimLock {
    disk: Arc<Mutex<Contents>>,
    name: LockName,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.lock().expect("not poisoned").locks.remove(&self.name);
    }
}

impl Store for SimStore {
    type Lock = SimLock;

    async fn lock(&self, name: LockName, wait: Duration) -> Result<SimLock, StoreError> {
        let until = tokio::time::Instant::now() + wait;
        loop {
            if self.lock_disk().locks.insert(name.clone()) {
                return Ok(SimLock { disk: Arc::clone(&self.disk), name });
            }
            if tokio::time::Instant::now() >= until {
                return Err(StoreError::Busy(format!("{name:?}")));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn generation(&self) -> Result<u64, StoreError> {
        Ok(self.lock_disk().generation)
    }

    async fn settings(&self) -> Result<Settings, StoreError> {
        let settings = self.lock_disk().settings.clone();
        settings.ok_or_else(|| StoreError::NoHub { place: "memory".to_owned() })
    }

    async fn write_settings(&self, settings: &Settings) -> Result<(), StoreError> {
        self.change(|disk| disk.settings = Some(settings.clone())).await;
        Ok(())
    }

    async fn sources(&self) -> Result<Vec<Result<SourceRecord, StoreError>>, StoreError> {
        self.settings().await?;
        Ok(self.lock_disk().sources.values().cloned().map(Ok).collect())
    }

    async fn write_source(&self, source: &SourceRecord) -> Result<(), StoreError> {
        self.change(|disk| disk.sources.insert(source.id.clone(), source.clone())).await;
        Ok(())
    }

    async fn remove_source(&self, source: &SourceId) -> Result<(), StoreError> {
        self.change(|disk| {
            disk.sources.remove(source);
            disk.manifests.remove(source);
            disk.policies.remove(source);
            disk.connections.remove(source);
            disk.used.remove(source);
        })
        .await;
        Ok(())
    }

    async fn manifest(&self, source: &SourceId) -> Result<Option<Manifest>, StoreError> {
        Ok(self.lock_disk().manifests.get(source).cloned())
    }

    async fn write_manifest(
        &self,
        source: &SourceId,
        manifest: &Manifest,
    ) -> Result<(), StoreError> {
        self.change(|disk| disk.manifests.insert(source.clone(), manifest.clone())).await;
        Ok(())
    }

    async fn policy(&self, source: &SourceId) -> SourcePolicy {
        let policy = self.lock_disk().policies.get(source).cloned();
        policy.unwrap_or_else(|| SourcePolicy::Usable(Policy::default()))
    }

    async fn write_policy(&self, source: &SourceId, policy: &Policy) -> Result<(), StoreError> {
        self.change(|disk| {
            disk.policies.insert(source.clone(), SourcePolicy::Usable(policy.clone()))
        })
        .await;
        Ok(())
    }

    async fn connections(&self, source: &SourceId) -> Result<Connections, StoreError> {
        Ok(self.lock_disk().connections.get(source).cloned().unwrap_or_default())
    }

    async fn write_connections(
        &self,
        source: &SourceId,
        connections: &Connections,
    ) -> Result<(), StoreError> {
        self.change(|disk| disk.connections.insert(source.clone(), connections.clone())).await;
        Ok(())
    }

    async fn last_used(&self, source: &SourceId) -> BTreeMap<ConnectionName, WallMs> {
        self.lock_disk().used.get(source).cloned().unwrap_or_default()
    }

    async fn note_used(&self, source: &SourceId, connection: &ConnectionName, wall: WallMs) {
        let mut disk = self.lock_disk();
        disk.used.entry(source.clone()).or_default().insert(connection.clone(), wall);
    }

    async fn create_run(&self, run: &RunRecord) -> Result<(), StoreError> {
        let stored = StoredRun {
            record: run.clone(),
            status: RunStatus::Running,
            entries: Vec::new(),
            durable: 0,
            refused: Vec::new(),
        };
        self.faults.effect(|| self.lock_disk().runs.insert(run.id.clone(), stored)).await;
        Ok(())
    }

    async fn run(&self, run: &RunId) -> Result<RunRecord, StoreError> {
        let record = self.lock_disk().runs.get(run).map(|stored| stored.record.clone());
        record.ok_or_else(|| StoreError::NoRun(run.clone()))
    }

    async fn runs(&self) -> Result<Vec<(RunRecord, RunStatus)>, StoreError> {
        let mut runs: Vec<_> = self
            .lock_disk()
            .runs
            .values()
            .map(|stored| (stored.record.clone(), stored.status))
            .collect();
        runs.sort_by(|a, b| (b.0.started, &b.0.id).cmp(&(a.0.started, &a.0.id)));
        Ok(runs)
    }

    async fn write_status(&self, run: &RunId, status: RunStatus) -> Result<(), StoreError> {
        let mut disk = self.lock_disk();
        let stored = disk.runs.get_mut(run).ok_or_else(|| StoreError::NoRun(run.clone()))?;
        stored.status = status;
        Ok(())
    }

    async fn journal(&self, run: &RunId) -> Result<Vec<Entry>, StoreError> {
        Ok(self.lock_disk().runs.get(run).map(|stored| stored.entries.clone()).unwrap_or_default())
    }

    async fn journal_bytes(&self, run: &RunId) -> u64 {
        self.lock_disk().runs.get(run).map_or(0, |stored| stored.entries.len() as u64)
    }

    async fn append(
        &self,
        run: &RunId,
        after: u64,
        entries: &[Entry],
        durable: bool,
    ) -> Result<(), StoreError> {
        self.faults
            .effect(|| {
                let mut disk = self.lock_disk();
                let stored =
                    disk.runs.get_mut(run).ok_or_else(|| StoreError::NoRun(run.clone()))?;
                if stored.entries.len() as u64 != after {
                    return Err(StoreError::Moved(run.clone()));
                }
                stored.entries.extend_from_slice(entries);
                if durable {
                    for entry in &stored.entries[stored.durable..] {
                        self.history.see(Seen::Durable { run: run.clone(), entry: entry.clone() });
                    }
                    stored.durable = stored.entries.len();
                }
                Ok(())
            })
            .await
    }

    async fn put_blob(&self, digest: Digest, text: &str) -> Result<(), StoreError> {
        self.faults.effect(|| self.lock_disk().blobs.insert(digest, text.to_owned())).await;
        Ok(())
    }

    async fn blob(&self, digest: Digest) -> Result<Option<String>, StoreError> {
        Ok(self.lock_disk().blobs.get(&digest).cloned())
    }

    async fn noted_wall(&self) -> Option<WallMs> {
        self.lock_disk().wall
    }

    async fn note_wall(&self, wall: WallMs) -> Result<(), StoreError> {
        self.lock_disk().wall = Some(wall);
        Ok(())
    }

    async fn remove_run(&self, run: &RunId) -> Result<(), StoreError> {
        self.lock_disk().runs.remove(run);
        Ok(())
    }

    async fn refuse(&self, run: &RunId, refused: &RefusedAnswer) -> Result<(), StoreError> {
        self.faults
            .effect(|| {
                let mut disk = self.lock_disk();
                let Some(stored) = disk.runs.get_mut(run) else { return Ok(()) };
                if refused.is_kept_after(&stored.refused) {
                    stored.refused.push(refused.clone());
                }
                Ok(())
            })
            .await
    }

    async fn refused(&self, run: &RunId) -> Result<Vec<RefusedAnswer>, StoreError> {
        let refused = self.lock_disk().runs.get(run).map(|stored| stored.refused.clone());
        Ok(refused.unwrap_or_default())
    }

    async fn remove_blobs(&self, keep: BTreeSet<Digest>) -> Result<usize, StoreError> {
        // Nothing here knows when it was written, so all of it counts as old.
        let mut disk = self.lock_disk();
        let before = disk.blobs.len();
        disk.blobs.retain(|digest, _| keep.contains(digest));
        Ok(before - disk.blobs.len())
    }

    async fn request_cancel(&self, run: &RunId) -> Result<(), StoreError> {
        self.lock_disk().cancels.insert(run.clone());
        Ok(())
    }

    async fn cancel_requested(&self, run: &RunId) -> bool {
        self.lock_disk().cancels.contains(run)
    }
}
