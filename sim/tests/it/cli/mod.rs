//! The commands of the real binary, as a person and as an agent's shell would use them.

mod approve;
mod contracts;
mod crash;
mod input;
mod runs;
mod sources;
