//! Advisory locks on files that are never deleted.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "locks are files, tried again until a deadline"
)]

use crate::adapters::whole::FILE_MODE;
use crate::ports::store::{LockName, StoreError};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a lock that is held is tried again.
const TRY_EVERY: Duration = Duration::from_millis(20);

/// A held lock; dropping it lets go. The file stays.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

/// Takes a lock in `folder`, trying until `wait` has passed.
pub(super) async fn take(
    folder: &Path,
    name: &LockName,
    wait: Duration,
) -> Result<FileLock, StoreError> {
    let (file_name, what) = match name {
        LockName::Hub => ("hub.lock".to_owned(), "the hub".to_owned()),
        LockName::Run(run) => (format!("{run}.lock"), format!("run `{run}`")),
        LockName::Owner(run) => (format!("{run}.owner"), format!("the owner of run `{run}`")),
    };
    let path = folder.join(file_name);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(&path)
        .map_err(|error| unlockable(&path, &error))?;
    let since = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(FileLock { _file: file }),
            Err(Errno::WOULDBLOCK) if since.elapsed() >= wait => {
                return Err(StoreError::Busy(what));
            }
            Err(Errno::WOULDBLOCK) => tokio::time::sleep(TRY_EVERY).await,
            Err(Errno::INTR) => {}
            Err(error) => return Err(unlockable(&path, &error.into())),
        }
    }
}

fn unlockable(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unlockable { place: path.display().to_string(), what: error.to_string() }
}
