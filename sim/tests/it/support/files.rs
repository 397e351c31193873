//! Looks at a store from outside, as a backup program would: is every file in it whole?

use hub::model::digest::Digest;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Every file of a store that holds JSON and is replaced whole; what is being written is no part of it.
pub(crate) fn json_files(store: &Path) -> Vec<PathBuf> {
    files(store).into_iter().filter(|path| ends(path, &["json", "status"])).collect()
}

/// Files of a store that nobody writes to at this moment and that are not whole: their names, and why.
pub(crate) fn damaged(store: &Path) -> Vec<String> {
    let mut damaged = Vec::new();
    for path in files(store) {
        // A file may be replaced or removed while it is looked at; what is read is one of its versions.
        let Ok(bytes) = std::fs::read(&path) else { continue };
        if let Err(why) = whole(&path, &bytes) {
            damaged.push(format!("{}: {why}", path.display()));
        }
    }
    damaged
}

fn whole(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let json = |bytes: &[u8]| {
        serde_json::from_slice::<Value>(bytes).map(|_| ()).map_err(|error| error.to_string())
    };
    if ends(path, &["json", "status"]) {
        return json(bytes);
    }
    if ends(path, &["jsonl"]) {
        // What stands behind the last line break is being appended.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        return bytes[..whole].split_inclusive(|byte| *byte == b'\n').try_for_each(json);
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name.parse::<Digest>() {
        Ok(digest) if Digest::of(bytes) != digest => Err("differs from its digest".to_owned()),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn ends(path: &Path, with: &[&str]) -> bool {
    path.extension().and_then(|end| end.to_str()).is_some_and(|end| with.contains(&end))
}

/// Every file in a folder and the folders in it, but for the temporary ones of writers.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let temporary = entry.file_name().to_string_lossy().starts_with(".tmp-");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&path)),
            Ok(_) if !temporary => found.push(path),
            Ok(_) | Err(_) => {}
        }
    }
    found
}
