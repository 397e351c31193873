//! Answers that decided nothing: a line each, beside the run they are about.

use crate::adapters::whole::{self, FILE_MODE, failed, sync_folder};
use crate::model::answer::RefusedAnswer;
use crate::ports::store::StoreError;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Adds a line and syncs it, in one write: several processes may do so at once.
pub(super) fn append(path: &Path, refused: &RefusedAnswer) -> Result<(), StoreError> {
    let io = |error: std::io::Error| failed(path, &error);
    let new = !path.exists();
    let line = serde_json::to_string(refused).map_err(|error| io(error.into()))?;
    let opened = OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(path);
    // The line before may be torn; this one must not be lost with it.
    let mut file = opened.map_err(io)?;
    file.write_all(format!("\n{line}\n").as_bytes()).and_then(|()| file.sync_data()).map_err(io)?;
    if new { sync_folder(path.parent().unwrap_or(path)).map_err(io) } else { Ok(()) }
}

/// Every line that is whole.
pub(super) fn read(path: &Path) -> Result<Vec<RefusedAnswer>, StoreError> {
    let Some(bytes) = whole::read(path)? else { return Ok(Vec::new()) };
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}
