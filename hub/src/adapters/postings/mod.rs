//! Postings of the search index: in memory, and mapped from disk where the catalog is large.
//!
//! `score` is BM25F as both compute it, so that where postings lie never changes what is found.
//! `tantivy` is named nowhere else.

mod disk;
mod folder;
mod memory;
mod score;

pub use folder::{KeptIndex, KeptPostings};
pub use memory::{MemoryIndex, MemoryPostings};
