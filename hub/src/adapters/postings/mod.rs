//! Postings of the search index: in memory.

mod memory;

pub use memory::MemoryPostings;
