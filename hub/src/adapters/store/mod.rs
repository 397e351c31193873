//! The store in files: one folder, whole-file writes, append-only journals, advisory locks.

mod files;
mod journal;
mod locks;
mod refused;

pub use files::FileStore;
pub use locks::FileLock;
