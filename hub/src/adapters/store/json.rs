//! Records as JSON: what does not parse is said with file, line and key, and what a newer hub wrote is left
//! alone.

use crate::adapters::whole::failed;
use crate::ports::store::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;

pub(super) fn to_json<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>, StoreError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| failed(path, &error.into()))?;
    text.push(b'\n');
    Ok(text)
}

pub(super) fn from_json<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        // The library appends the place, which stands in front here.
        let what = text.split(" at line ").next().unwrap_or(&text).to_owned();
        StoreError::Malformed { place: format!("{} line {}", path.display(), error.line()), what }
    })
}

/// The first line that has this key; what is looked for was read from there.
pub(super) fn line_of(bytes: &[u8], key: &str) -> usize {
    let text = String::from_utf8_lossy(bytes);
    let quoted = format!("\"{key}\"");
    text.lines().position(|line| line.contains(&quoted)).map_or(1, |at| at + 1)
}

pub(super) fn not_newer(path: &Path, found: Option<u32>, known: u32) -> Result<(), StoreError> {
    match found.filter(|found| *found > known) {
        Some(found) => {
            Err(StoreError::Upgraded { place: path.display().to_string(), found, known })
        }
        None => Ok(()),
    }
}

/// The version of a stored file, whatever else is in it.
pub(super) fn version_of(bytes: &[u8]) -> Option<u32> {
    let value: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    u32::try_from(value.get("version")?.as_u64()?).ok()
}
