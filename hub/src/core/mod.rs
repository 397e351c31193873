//! The pure rooms: no clock, no I/O, nothing that waits. Time and chance arrive as arguments, and what
//! should happen is returned as values.
//!
//! All but `engine` are strangers to each other; `engine` puts them together.

pub mod addresses;
pub mod approvals;
pub mod code;
pub mod concerns;
pub mod contract;
pub mod engine;
pub mod index;
pub mod outcome;
pub mod policy;
pub mod runs;
pub mod typegen;
pub mod validate;
