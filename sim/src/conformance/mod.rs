//! What every implementation of a port must do: one suite each, run against fake and real.

pub mod postings;
pub mod sandbox;
pub mod small;
pub mod sources;
pub mod store;
