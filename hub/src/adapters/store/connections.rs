//! Connections of a source, and when each was used last: two files, since the second changes all the time
//! and must not make anyone read the hub anew.

use super::json::{from_json, not_newer, to_json, version_of};
use crate::adapters::whole::{make_folder, read, replace_unsynced};
use crate::model::connection::{CONNECTIONS_VERSION, Connections};
use crate::model::names::ConnectionName;
use crate::model::time::WallMs;
use crate::ports::store::StoreError;
use std::collections::BTreeMap;
use std::path::Path;

/// Reads the connections of a source; a source without a file has none.
pub(super) fn connections(path: &Path) -> Result<Connections, StoreError> {
    let Some(bytes) = read(path)? else { return Ok(Connections::default()) };
    not_newer(path, version_of(&bytes), CONNECTIONS_VERSION)?;
    let connections: Connections = from_json(path, &bytes)?;
    if connections.is_sound() {
        return Ok(connections);
    }
    let place = path.display().to_string();
    let what = "`default` names a connection that is not there".to_owned();
    Err(StoreError::Malformed { place, what })
}

/// When each connection was used last. What cannot be read is not known.
pub(super) fn last_used(path: &Path) -> BTreeMap<ConnectionName, WallMs> {
    let read = read(path).ok().flatten();
    read.and_then(|bytes| from_json(path, &bytes).ok()).unwrap_or_default()
}

/// Notes that a connection was used. Two processes may write at once: one of two times a moment apart is as
/// good as the other.
pub(super) fn note_used(
    path: &Path,
    connection: ConnectionName,
    wall: WallMs,
) -> Result<(), StoreError> {
    make_folder(path.parent().unwrap_or(path))?;
    let mut used = last_used(path);
    used.insert(connection, wall);
    replace_unsynced(path, &to_json(path, &used)?)
}
