//! The store in files: one folder, whole-file writes, append-only journals, advisory locks.

mod connections;
mod files;
mod journal;
mod json;
mod locks;
mod refused;

pub use files::FileStore;
pub use locks::FileLock;
