//! Secrets: kept, resolved for one use, and scrubbed from everything. Values never leave here unscrubbed,
//! except towards the one destination they were entered for.
//!
//! `vault` is the place they are kept in, `kept` binds each to its destination, `scrub` takes them out of
//! text, `tokens` are those by which clients over HTTP are known.

mod kept;
mod scrub;
mod tokens;
mod vault;

pub use kept::KeptSecrets;
