//! The real side of each port. Strangers to each other; only `cli` wires them.

pub mod postings;
pub mod sandbox;
