//! The folder of indexes: one subfolder for each catalog, built beside and renamed, never changed.

use super::disk::{DiskIndex, build};
use super::memory::MemoryIndex;
use crate::model::digest::Digest;
use crate::ports::postings::{Document, Inverted, Postings};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Changes when what is written changes: an index of another format is another index.
const FORMAT: &str = "1";
/// Documents below which an index is made in memory faster than files are.
const KEPT_FROM: usize = 256;
/// Indexes that are kept beside the newest, for processes that still see an older catalog.
const OLD_KEPT: usize = 3;
/// Beginning of the names of folders that are not whole yet.
const UNFINISHED: &str = ".tmp-";

/// Keeps large indexes in a folder; small ones, and those that cannot be kept, in memory.
#[derive(Debug, Clone)]
pub struct KeptPostings {
    folder: Arc<Path>,
}

impl KeptPostings {
    /// Indexes below `folder`, whose parent must exist.
    #[must_use]
    pub fn new(folder: PathBuf) -> KeptPostings {
        KeptPostings { folder: folder.into() }
    }
}

/// An index, wherever it lies.
pub enum KeptIndex {
    /// On disk, mapped.
    Disk(Box<dyn Inverted>),
    /// In memory.
    Memory(MemoryIndex),
}

impl Inverted for KeptIndex {
    fn rank(&self, terms: &[String]) -> Vec<(u32, f32)> {
        match self {
            KeptIndex::Disk(index) => index.rank(terms),
            KeptIndex::Memory(index) => index.rank(terms),
        }
    }

    fn terms_near(&self, near: &dyn Fn(&str) -> bool, count: usize) -> Vec<String> {
        match self {
            KeptIndex::Disk(index) => index.terms_near(near, count),
            KeptIndex::Memory(index) => index.terms_near(near, count),
        }
    }
}

impl Postings for KeptPostings {
    type Index = KeptIndex;

    async fn open<F>(&self, key: Digest, count: usize, documents: F) -> KeptIndex
    where
        F: Fn() -> Vec<Document> + Send + Sync + 'static,
    {
        let documents = Arc::new(documents);
        let (folder, again) = (Arc::clone(&self.folder), Arc::clone(&documents));
        let opened = tokio::task::spawn_blocking(move || {
            if count < KEPT_FROM {
                return KeptIndex::Memory(MemoryIndex::build(&again()));
            }
            match kept(&folder, key, count, again.as_ref()) {
                Ok(index) => KeptIndex::Disk(Box::new(index)),
                Err(why) => {
                    tracing::debug!(why, "the search index is made in memory");
                    KeptIndex::Memory(MemoryIndex::build(&again()))
                }
            }
        });
        match opened.await {
            Ok(index) => index,
            // Whatever took the thread down, search still answers.
            Err(_) => KeptIndex::Memory(MemoryIndex::build(&documents())),
        }
    }
}

/// Opens the index of `key`, or builds it if no other process is building.
fn kept(
    folder: &Path,
    key: Digest,
    count: usize,
    documents: &dyn Fn() -> Vec<Document>,
) -> Result<DiskIndex, String> {
    let place = folder.join(format!("{FORMAT}-{key}"));
    if let Ok(index) = DiskIndex::open(&place, count) {
        return Ok(index);
    }
    let text = |error: &dyn std::fmt::Display| error.to_string();
    make_folder(folder).map_err(|error| text(&error))?;
    if is_far(folder) {
        return Err("the folder lies on a network file system".to_owned());
    }
    let _lock = lock(folder).map_err(|_| "another process builds an index".to_owned())?;
    // It may have been this one that was built meanwhile.
    if let Ok(index) = DiskIndex::open(&place, count) {
        return Ok(index);
    }
    // Nobody else builds, so whatever is unfinished or cannot be opened was left behind.
    let _ = std::fs::remove_dir_all(&place).or_else(|_| std::fs::remove_file(&place));
    tidy(folder, &place);
    let beside = folder.join(format!("{UNFINISHED}{key}"));
    std::fs::create_dir(&beside).map_err(|error| text(&error))?;
    let built = build(&beside, &documents()).map_err(|error| text(&error));
    let placed = built.and_then(|()| {
        // Opened once before anybody sees it: that checks it, and makes the last of its files.
        DiskIndex::open(&beside, count).map_err(|error| text(&error))?;
        close_to_others(&beside).map_err(|error| text(&error))?;
        std::fs::rename(&beside, &place).map_err(|error| text(&error))
    });
    if let Err(why) = placed {
        let _ = std::fs::remove_dir_all(&beside);
        return Err(why);
    }
    DiskIndex::open(&place, count).map_err(|error| text(&error))
}

fn make_folder(folder: &Path) -> rustix::io::Result<()> {
    match rustix::fs::mkdir(folder, Mode::RWXU) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        other => other,
    }
}

/// The right to build, without waiting for it.
fn lock(folder: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let file = rustix::fs::open(folder.join("lock"), flags, Mode::RUSR | Mode::WUSR)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Only their owner may read the files of an index, as everything of a hub.
fn close_to_others(folder: &Path) -> std::io::Result<()> {
    let only_owner =
        |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    for entry in std::fs::read_dir(folder)? {
        only_owner(&entry?.path(), 0o600)?;
    }
    only_owner(folder, 0o700)
}

/// Removes what is unfinished, and all but the newest of the other indexes.
fn tidy(folder: &Path, place: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut old = Vec::new();
    for path in entries.map(|entry| entry.path()).filter(|path| path.is_dir() && path != place) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(UNFINISHED) {
            let _ = std::fs::remove_dir_all(&path);
        } else {
            let built = std::fs::metadata(&path).and_then(|meta| meta.modified()).ok();
            old.push((built, path));
        }
    }
    old.sort();
    let gone = old.len().saturating_sub(OLD_KEPT);
    for (_, path) in old.into_iter().take(gone) {
        let _ = std::fs::remove_dir_all(path);
    }
}

/// Does the folder lie on another machine? A mapped file there can change or vanish under its readers.
#[cfg(target_os = "linux")]
fn is_far(folder: &Path) -> bool {
    /// NFS, SMB in its three kinds, Coda, AFS, 9p, Ceph, Lustre, and FUSE, behind which anything may be.
    const FAR: &[u32] = &[
        0x6969,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x7375_7245,
        0x5346_414f,
        0x0102_1997,
        0x00c3_6400,
        0x0bd0_0bd0,
        0x6573_5546,
    ];
    // The kernel's magic numbers have 32 bits, whatever the width of the member.
    let kind = rustix::fs::statfs(folder).map(|system| system.f_type.cast_unsigned() & 0xffff_ffff);
    kind.is_ok_and(|kind| FAR.iter().any(|far| u64::from(*far) == kind))
}

#[cfg(not(target_os = "linux"))]
fn is_far(_folder: &Path) -> bool {
    // Planned: what other systems call it. Until then an index is kept where the hub is.
    false
}
