//! The real side of each port. Strangers to each other; only `cli` wires them.

pub mod clock;
pub mod entropy;
pub mod loopback;
pub mod person;
pub mod postings;
pub mod sandbox;
pub mod secrets;
pub mod sources;
pub mod store;
mod whole;
