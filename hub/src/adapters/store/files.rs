//! One hub's folder, as the seed lays it out.

use super::journal::{JournalFile, parse};
use super::json::{from_json, line_of, not_newer, to_json, version_of};
use super::locks::{FileLock, take};
use super::{connections, refused};
use crate::adapters::whole::{
    TEMPORARY, failed, make_folder, read, remove, replace, replace_unsynced, stage, touch,
};
use crate::model::answer::RefusedAnswer;
use crate::model::connection::Connections;
use crate::model::digest::Digest;
use crate::model::facts::SourcePolicy;
use crate::model::ids::{RunId, SourceId};
use crate::model::journal::Entry;
use crate::model::names::ConnectionName;
use crate::model::policy::{POLICY_VERSION, Policy};
use crate::model::run::{RunRecord, RunStatus};
use crate::model::source::{MANIFEST_VERSION, Manifest, STORE_VERSION, Settings, SourceRecord};
use crate::model::time::WallMs;
use crate::ports::store::{LockName, Store, StoreError};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Folders of a hub.
const FOLDERS: &[&str] = &[
    "sources",
    "manifests",
    "connections",
    "policies",
    "profiles",
    "skills",
    "runs",
    "blobs",
    "locks",
];

/// How long a blob stays that nothing names.
const BLOB_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// A hub's store in files.
#[derive(Debug, Clone)]
pub struct FileStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    journals: Mutex<BTreeMap<RunId, JournalFile>>,
}

impl FileStore {
    /// The store in `root`, which need not exist yet.
    #[must_use]
    pub fn new(root: PathBuf) -> FileStore {
        FileStore { inner: Arc::new(Inner { root, journals: Mutex::default() }) }
    }

    /// Its folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.inner.root
    }

    /// Does blocking work off the async threads.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = Arc::clone(&self.inner);
        match tokio::task::spawn_blocking(move || work(&inner)).await {
            Ok(done) => done,
            Err(error) => {
                Err(StoreError::Io { place: "store".to_owned(), what: error.to_string() })
            }
        }
    }
}

impl Inner {
    fn file(&self, folder: &str, name: &str) -> PathBuf {
        self.root.join(folder).join(name)
    }

    fn json(&self, folder: &str, id: &str) -> PathBuf {
        self.file(folder, &format!("{id}.json"))
    }

    fn settings(&self) -> Result<Settings, StoreError> {
        let path = self.root.join("hub.json");
        let Some(bytes) = read(&path)? else {
            return Err(StoreError::NoHub { place: self.root.display().to_string() });
        };
        not_newer(&path, version_of(&bytes), STORE_VERSION)?;
        let settings: Settings = from_json(&path, &bytes)?;
        settings.check().map_err(|(key, what)| {
            let line = line_of(&bytes, key);
            StoreError::Malformed { place: format!("{} line {line}", path.display()), what }
        })?;
        Ok(settings)
    }

    /// Stops a writer whose store was upgraded while it ran.
    fn check_version(&self) -> Result<(), StoreError> {
        self.settings().map(|_| ())
    }

    fn generation(&self) -> Result<u64, StoreError> {
        let bytes = read(&self.root.join("generation"))?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).trim().parse().unwrap_or(0))
    }

    /// The counter, mixed with when folders and policy files changed: a person may edit a policy by hand,
    /// and a process may die between a write and its count.
    fn fingerprint(&self) -> u64 {
        use std::os::unix::fs::MetadataExt as _;
        let mut mixed = 0xcbf2_9ce4_8422_2325_u64;
        let mut note = |path: &Path| {
            if let Ok(meta) = std::fs::metadata(path) {
                let parts = [
                    meta.ino(),
                    meta.len(),
                    meta.mtime().cast_unsigned(),
                    meta.mtime_nsec().cast_unsigned(),
                ];
                for part in parts {
                    mixed = (mixed ^ part).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
                }
            }
        };
        // The counter's file is replaced whole, so that it has another number each time.
        for name in ["generation", "sources", "manifests", "connections", "policies"] {
            note(&self.root.join(name));
        }
        let policies = self.root.join("policies");
        for entry in std::fs::read_dir(&policies).into_iter().flatten().flatten() {
            note(&entry.path());
        }
        mixed
    }

    fn is_open(&self, run: &RunId) -> bool {
        self.journals.lock().unwrap_or_else(PoisonError::into_inner).contains_key(run)
    }

    fn append(
        &self,
        run: &RunId,
        after: u64,
        entries: &[Entry],
        durable: bool,
    ) -> Result<(), StoreError> {
        let path = self.file("runs", &format!("{run}.journal.jsonl"));
        if durable {
            self.check_version()?;
        }
        // Taken out of the table while it is written: runs do not wait for each other's disk.
        let open = self.journals.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
        let mut journal = match open {
            // Another process may have appended a decision since: its length tells.
            Some(journal) if journal.is(after, &path) => journal,
            Some(_) | None => JournalFile::open(&path)?,
        };
        // After a failure the file is read again: what is in it is not known any more.
        journal.append(&path, run, after, entries, durable)?;
        self.journals.lock().unwrap_or_else(PoisonError::into_inner).insert(run.clone(), journal);
        Ok(())
    }

    /// Makes a change and moves the counter. What can fail for want of space does so before the change,
    /// so that a change which is said to have failed did not happen.
    fn counted(&self, change: impl FnOnce() -> Result<(), StoreError>) -> Result<(), StoreError> {
        let path = self.root.join("generation");
        let next = self.generation()?.wrapping_add(1);
        let staged = stage(&path, format!("{next}\n").as_bytes())?;
        change()?;
        staged.put()
    }

    /// Removes what writers left behind that died before they renamed it.
    fn remove_leftovers(&self) -> Result<(), StoreError> {
        let folders = FOLDERS.iter().map(|folder| self.root.join(folder));
        for folder in folders.chain([self.root.clone()]) {
            for entry in std::fs::read_dir(&folder).map_err(|error| failed(&folder, &error))? {
                let entry = entry.map_err(|error| failed(&folder, &error))?;
                let temporary = entry.file_name().to_string_lossy().starts_with(TEMPORARY);
                if temporary && is_old(&entry) {
                    remove(&entry.path())?;
                }
            }
        }
        Ok(())
    }

    fn write<T: Serialize>(&self, path: &Path, value: &T) -> Result<(), StoreError> {
        self.check_version()?;
        let bytes = to_json(path, value)?;
        self.counted(|| replace(path, &bytes))
    }
}

/// Was it written long enough ago that nobody is about to name it?
fn is_old(entry: &std::fs::DirEntry) -> bool {
    let written = entry.metadata().and_then(|meta| meta.modified()).ok();
    written.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > BLOB_KEPT)
}

impl Store for FileStore {
    type Lock = FileLock;

    async fn lock(&self, name: LockName, wait: Duration) -> Result<FileLock, StoreError> {
        let folder = self.inner.root.join("locks");
        make_folder(&folder).map_err(|error| {
            let StoreError::Io { place, what } = error else { return error };
            StoreError::Unlockable { place, what }
        })?;
        take(&folder, &name, wait).await
    }

    async fn generation(&self) -> Result<u64, StoreError> {
        Ok(self.inner.fingerprint())
    }

    async fn settings(&self) -> Result<Settings, StoreError> {
        self.inner.settings()
    }

    async fn write_settings(&self, settings: &Settings) -> Result<(), StoreError> {
        let settings = settings.clone();
        self.blocking(move |inner| {
            make_folder(&inner.root)?;
            for folder in FOLDERS {
                make_folder(&inner.root.join(folder))?;
            }
            let path = inner.root.join("hub.json");
            if read(&path)?.is_some() {
                inner.check_version()?;
            }
            let bytes = to_json(&path, &settings)?;
            inner.counted(|| replace(&path, &bytes))
        })
        .await
    }

    async fn sources(&self) -> Result<Vec<Result<SourceRecord, StoreError>>, StoreError> {
        self.blocking(|inner| {
            inner.settings()?;
            let folder = inner.root.join("sources");
            let mut names = Vec::new();
            for entry in std::fs::read_dir(&folder).map_err(|error| failed(&folder, &error))? {
                let name = entry.map_err(|error| failed(&folder, &error))?.file_name();
                names.extend(
                    name.to_str().and_then(|name| name.strip_suffix(".json")).map(str::to_owned),
                );
            }
            names.sort();
            let mut sources = Vec::new();
            for name in names {
                let path = inner.json("sources", &name);
                let Some(bytes) = read(&path)? else { continue };
                let parsed = from_json::<SourceRecord>(&path, &bytes);
                sources.push(match parsed {
                    Ok(source) if source.id.as_str() != name => Err(StoreError::Malformed {
                        place: path.display().to_string(),
                        what: "`id` differs from the file's name".to_owned(),
                    }),
                    other => other,
                });
            }
            Ok(sources)
        })
        .await
    }

    async fn write_source(&self, source: &SourceRecord) -> Result<(), StoreError> {
        let source = source.clone();
        self.blocking(move |inner| inner.write(&inner.json("sources", source.id.as_str()), &source))
            .await
    }

    async fn remove_source(&self, source: &SourceId) -> Result<(), StoreError> {
        let source = source.clone();
        self.blocking(move |inner| {
            inner.check_version()?;
            // The source itself goes first: what is left without it has no effect.
            inner.counted(|| {
                for folder in ["sources", "policies", "connections", "manifests", "used"] {
                    remove(&inner.json(folder, source.as_str()))?;
                }
                Ok(())
            })
        })
        .await
    }

    async fn manifest(&self, source: &SourceId) -> Result<Option<Manifest>, StoreError> {
        let source = source.clone();
        self.blocking(move |inner| {
            let path = inner.json("manifests", source.as_str());
            let Some(bytes) = read(&path)? else { return Ok(None) };
            not_newer(&path, version_of(&bytes), MANIFEST_VERSION)?;
            from_json(&path, &bytes).map(Some)
        })
        .await
    }

    async fn write_manifest(
        &self,
        source: &SourceId,
        manifest: &Manifest,
    ) -> Result<(), StoreError> {
        let (source, manifest) = (source.clone(), manifest.clone());
        self.blocking(move |inner| {
            let path = inner.json("manifests", source.as_str());
            inner.check_version()?;
            // Ten thousand tools are read often and by programs only: no indentation.
            let bytes =
                serde_json::to_vec(&manifest).map_err(|error| failed(&path, &error.into()))?;
            inner.counted(|| replace(&path, &bytes))
        })
        .await
    }

    async fn policy(&self, source: &SourceId) -> SourcePolicy {
        let source = source.clone();
        let read = self.blocking(move |inner| {
            let path = inner.json("policies", source.as_str());
            let Some(bytes) = read(&path)? else { return Ok(Policy::default()) };
            let policy: Policy = from_json(&path, &bytes)?;
            not_newer(&path, Some(policy.version), POLICY_VERSION)?;
            Ok(policy)
        });
        match read.await {
            Ok(policy) => SourcePolicy::Usable(policy),
            Err(error) => SourcePolicy::Broken(error.to_string()),
        }
    }

    async fn write_policy(&self, source: &SourceId, policy: &Policy) -> Result<(), StoreError> {
        let (source, policy) = (source.clone(), policy.clone());
        self.blocking(move |inner| inner.write(&inner.json("policies", source.as_str()), &policy))
            .await
    }

    async fn connections(&self, source: &SourceId) -> Result<Connections, StoreError> {
        connections::connections(&self.inner.json("connections", source.as_str()))
    }

    async fn write_connections(
        &self,
        source: &SourceId,
        connections: &Connections,
    ) -> Result<(), StoreError> {
        let (source, connections) = (source.clone(), connections.clone());
        self.blocking(move |inner| {
            inner.write(&inner.json("connections", source.as_str()), &connections)
        })
        .await
    }

    async fn last_used(&self, source: &SourceId) -> BTreeMap<ConnectionName, WallMs> {
        connections::last_used(&self.inner.json("used", source.as_str()))
    }

    async fn note_used(&self, source: &SourceId, connection: &ConnectionName, wall: WallMs) {
        let (path, connection) = (self.inner.json("used", source.as_str()), connection.clone());
        let noted = self.blocking(move |_| connections::note_used(&path, connection, wall));
        if let Err(error) = noted.await {
            tracing::debug!(%error, "when a connection was used could not be noted");
        }
    }

    async fn create_run(&self, run: &RunRecord) -> Result<(), StoreError> {
        let run = run.clone();
        // Synced with the first entry that must survive: until then the run has done nothing.
        self.blocking(move |inner| {
            inner.check_version()?;
            let path = inner.json("runs", run.id.as_str());
            replace_unsynced(&path, &to_json(&path, &run)?)
        })
        .await
    }

    async fn run(&self, run: &RunId) -> Result<RunRecord, StoreError> {
        let run = run.clone();
        self.blocking(move |inner| {
            inner.settings()?;
            let path = inner.json("runs", run.as_str());
            let bytes = read(&path)?.ok_or_else(|| StoreError::NoRun(run.clone()))?;
            from_json(&path, &bytes)
        })
        .await
    }

    async fn runs(&self) -> Result<Vec<(RunRecord, RunStatus)>, StoreError> {
        self.blocking(|inner| {
            inner.settings()?;
            let folder = inner.root.join("runs");
            let mut runs = Vec::new();
            for entry in std::fs::read_dir(&folder).map_err(|error| failed(&folder, &error))? {
                let name = entry.map_err(|error| failed(&folder, &error))?.file_name();
                let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".json")) else {
                    continue;
                };
                let path = inner.json("runs", id);
                let Some(record) =
                    read(&path)?.and_then(|bytes| from_json::<RunRecord>(&path, &bytes).ok())
                else {
                    continue;
                };
                let status = read(&inner.file("runs", &format!("{id}.status")))?
                    .and_then(|bytes| serde_json::from_slice::<RunStatus>(&bytes).ok());
                runs.push((record, status.unwrap_or(RunStatus::Running)));
            }
            runs.sort_by(|a, b| (b.0.started, &b.0.id).cmp(&(a.0.started, &a.0.id)));
            Ok(runs)
        })
        .await
    }

    async fn write_status(&self, run: &RunId, status: RunStatus) -> Result<(), StoreError> {
        let run = run.clone();
        self.blocking(move |inner| {
            let path = inner.file("runs", &format!("{run}.status"));
            replace_unsynced(&path, &to_json(&path, &status)?)?;
            if status.is_final() {
                inner.journals.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
                remove(&inner.file("locks", &format!("{run}.cancel")))?;
            }
            Ok(())
        })
        .await
    }

    async fn journal(&self, run: &RunId) -> Result<Vec<Entry>, StoreError> {
        let run = run.clone();
        self.blocking(move |inner| {
            let path = inner.file("runs", &format!("{run}.journal.jsonl"));
            let bytes = read(&path)?.unwrap_or_default();
            parse(&path, &bytes).map(|parsed| parsed.entries)
        })
        .await
    }

    async fn journal_bytes(&self, run: &RunId) -> u64 {
        let path = self.inner.file("runs", &format!("{run}.journal.jsonl"));
        std::fs::metadata(path).map_or(0, |meta| meta.len())
    }

    async fn append(
        &self,
        run: &RunId,
        after: u64,
        entries: &[Entry],
        durable: bool,
    ) -> Result<(), StoreError> {
        // Into an open file and unsynced, an append is a copy in memory, cheaper than another thread.
        if !durable && self.inner.is_open(run) {
            return self.inner.append(run, after, entries, false);
        }
        let (run, entries) = (run.clone(), entries.to_vec());
        self.blocking(move |inner| inner.append(&run, after, &entries, durable)).await
    }

    async fn put_blob(&self, digest: Digest, text: &str) -> Result<(), StoreError> {
        let text = text.to_owned();
        self.blocking(move |inner| {
            let path = inner.file("blobs", &digest.to_string());
            // Whoever puts it is about to name it: a sweep must take it for new.
            if touch(&path)? { Ok(()) } else { replace(&path, text.as_bytes()) }
        })
        .await
    }

    async fn blob(&self, digest: Digest) -> Result<Option<String>, StoreError> {
        self.blocking(move |inner| {
            let path = inner.file("blobs", &digest.to_string());
            let Some(bytes) = read(&path)? else { return Ok(None) };
            let corrupt = |what: &str| StoreError::Corrupt {
                place: path.display().to_string(),
                what: what.to_owned(),
            };
            if Digest::of(&bytes) != digest {
                return Err(corrupt("it differs from its digest"));
            }
            String::from_utf8(bytes).map(Some).map_err(|_| corrupt("it is not text"))
        })
        .await
    }

    async fn noted_wall(&self) -> Option<WallMs> {
        let bytes = read(&self.inner.root.join("clock")).ok()??;
        String::from_utf8_lossy(&bytes).trim().parse().ok().map(WallMs)
    }

    async fn note_wall(&self, wall: WallMs) -> Result<(), StoreError> {
        replace_unsynced(&self.inner.root.join("clock"), format!("{}\n", wall.0).as_bytes())
    }

    async fn remove_run(&self, run: &RunId) -> Result<(), StoreError> {
        let run = run.clone();
        self.blocking(move |inner| {
            // The record goes first: what is left without it is no run.
            for end in ["json", "status", "refused.jsonl", "journal.jsonl"] {
                remove(&inner.file("runs", &format!("{run}.{end}")))?;
            }
            Ok(())
        })
        .await
    }

    async fn refuse(&self, run: &RunId, refused: &RefusedAnswer) -> Result<(), StoreError> {
        let (run, refused) = (run.clone(), refused.clone());
        self.blocking(move |inner| {
            let path = inner.file("runs", &format!("{run}.refused.jsonl"));
            // Of a run that was removed nothing is kept.
            if inner.file("runs", &format!("{run}.json")).exists()
                && refused.is_kept_after(&refused::read(&path)?)
            {
                refused::append(&path, &refused)?;
            }
            Ok(())
        })
        .await
    }

    async fn refused(&self, run: &RunId) -> Result<Vec<RefusedAnswer>, StoreError> {
        let run = run.clone();
        self.blocking(move |inner| {
            refused::read(&inner.file("runs", &format!("{run}.refused.jsonl")))
        })
        .await
    }

    async fn remove_blobs(&self, keep: BTreeSet<Digest>) -> Result<usize, StoreError> {
        self.blocking(move |inner| {
            inner.remove_leftovers()?;
            let folder = inner.root.join("blobs");
            let mut removed = 0;
            for entry in std::fs::read_dir(&folder).map_err(|error| failed(&folder, &error))? {
                let entry = entry.map_err(|error| failed(&folder, &error))?;
                let digest =
                    entry.file_name().to_str().and_then(|name| name.parse::<Digest>().ok());
                if is_old(&entry) && digest.is_none_or(|digest| !keep.contains(&digest)) {
                    remove(&entry.path())?;
                    removed += 1;
                }
            }
            Ok(removed)
        })
        .await
    }

    async fn request_cancel(&self, run: &RunId) -> Result<(), StoreError> {
        replace(&self.inner.file("locks", &format!("{run}.cancel")), b"")
    }

    async fn cancel_requested(&self, run: &RunId) -> bool {
        self.inner.file("locks", &format!("{run}.cancel")).exists()
    }
}
