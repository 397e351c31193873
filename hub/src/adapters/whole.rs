//! Files that are only ever replaced whole.
#![expect(clippy::disallowed_types, reason = "the one place that replaces files")]

use crate::ports::store::StoreError;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Mode of every folder.
pub(super) const FOLDER_MODE: u32 = 0o700;
/// Mode of every file.
pub(super) const FILE_MODE: u32 = 0o600;

/// What the names of temporary files begin with.
pub(super) const TEMPORARY: &str = ".tmp-";

pub(super) fn failed(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io { place: path.display().to_string(), what: error.to_string() }
}

/// Makes a folder and its parents, for this user alone.
pub(super) fn make_folder(path: &Path) -> Result<(), StoreError> {
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(path)
        .map_err(|error| failed(path, &error))?;
    let mode = fs::metadata(path).map_err(|error| failed(path, &error))?.permissions().mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(FOLDER_MODE))
            .map_err(|error| failed(path, &error))?;
    }
    Ok(())
}

/// Writes a temporary file beside `path`, syncs it, renames it into place and syncs the folder.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    put(path, bytes, true)
}

/// As [`replace`], without syncing: for what can be made anew, or is synced later.
pub(super) fn replace_unsynced(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    put(path, bytes, false)
}

fn put(path: &Path, bytes: &[u8], synced: bool) -> Result<(), StoreError> {
    if synced {
        return stage(path, bytes)?.put();
    }
    let staged = Staged { path, temporary: temporary_beside(path) };
    write_new(&staged.temporary, bytes, false)
        .and_then(|()| fs::rename(&staged.temporary, path))
        .map_err(|error| failed(path, &error))
}

/// Bytes that are on the disk already, beside the file they will replace; dropped, they never were.
pub(super) struct Staged<'a> {
    path: &'a Path,
    temporary: PathBuf,
}

impl Staged<'_> {
    /// Puts them into place, which needs no space any more.
    pub(super) fn put(self) -> Result<(), StoreError> {
        fs::rename(&self.temporary, self.path)
            .and_then(|()| sync_folder(self.path.parent().unwrap_or(self.path)))
            .map_err(|error| failed(self.path, &error))
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        // Already renamed, or never made: either way there is nothing else to clean up.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Writes and syncs a temporary file beside `path`.
pub(super) fn stage<'a>(path: &'a Path, bytes: &[u8]) -> Result<Staged<'a>, StoreError> {
    let staged = Staged { path, temporary: temporary_beside(path) };
    write_new(&staged.temporary, bytes, true).map_err(|error| failed(path, &error))?;
    Ok(staged)
}

fn temporary_beside(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name =
        format!("{TEMPORARY}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    path.parent().unwrap_or(path).join(name)
}

fn write_new(path: &Path, bytes: &[u8], synced: bool) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.write_all(bytes)?;
    if synced { file.sync_all() } else { Ok(()) }
}

/// Makes a rename, creation or removal in `folder` survive a crash.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes a file as young as one just written; whether there is one.
pub(super) fn touch(path: &Path) -> Result<bool, StoreError> {
    let time = |tv_nsec| rustix::fs::Timespec { tv_sec: 0, tv_nsec };
    let times = rustix::fs::Timestamps {
        last_access: time(rustix::fs::UTIME_OMIT),
        last_modification: time(rustix::fs::UTIME_NOW),
    };
    match rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::NOENT) => Ok(false),
        Err(error) => Err(failed(path, &error.into())),
    }
}

/// The bytes of a file; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

/// Removes a file; one that is not there is as good as removed.
pub(super) fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Ok(()) => sync_folder(path.parent().unwrap_or(path)).map_err(|error| failed(path, &error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(path, &error)),
    }
}
