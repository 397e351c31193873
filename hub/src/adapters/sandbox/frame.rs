//! What the hub and a worker say to each other: length-prefixed frames over pipes.

use crate::model::turn::{Prepared, Program, Turn, Yielded};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// Bytes one frame may have; a longer one is not even read.
pub(super) const FRAME_BYTES_MAX: usize = 48 << 20;

/// From the hub.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToWorker {
    /// Prepare this code; only once, and before any program.
    Prepare(String),
    Open {
        build: String,
        program: Program,
    },
    Step(Turn),
}

/// From the worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromWorker {
    /// Locked down and ready for a program: its build, and the layers of the lock-down that are missing.
    Ready {
        build: String,
        missing: Vec<String>,
    },
    /// The code, ready to run; or its fault as JSON, since the frame's format knows no optional members.
    Prepared(Result<Prepared, String>),
    Opened(Result<(), String>),
    Yielded(Box<Yielded>),
}

/// Encodes one frame with its length before it.
pub(super) fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let frame = postcard::to_extend(message, vec![0; 4]).map_err(io::Error::other)?;
    let length = u32::try_from(frame.len() - 4).map_err(io::Error::other)?;
    let mut frame = frame;
    if let Some(prefix) = frame.get_mut(..4) {
        prefix.copy_from_slice(&length.to_le_bytes());
    }
    Ok(frame)
}

/// The length a prefix announces.
pub(super) fn length(prefix: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::other(format!("a frame of {length} bytes is too long")));
    }
    Ok(length)
}

/// Decodes the body of a frame.
pub(super) fn decode<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    postcard::from_bytes(body).map_err(io::Error::other)
}

/// Reads one frame, blocking; `None` at the end.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut prefix = [0; 4];
    match from.read_exact(&mut prefix) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut body = vec![0; length(prefix)?];
    from.read_exact(&mut body)?;
    decode(&body).map(Some)
}

/// Writes one frame, blocking.
pub(super) fn write<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    to.write_all(&encode(message)?)?;
    to.flush()
}
