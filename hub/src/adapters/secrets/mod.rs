//! Secrets: resolved for one use, and scrubbed from everything. Values never leave here unscrubbed, except
//! into the environment of a source's child.

mod environment;
mod scrub;
mod vault;

pub use environment::EnvironmentSecrets;
