//! Everything that needs more than one part of the hub.
#![expect(clippy::print_stderr, reason = "tests say what they skip, and what they measured")]

mod cli;
mod conformance;
mod harm;
mod journals;
mod limits;
mod real_servers;
mod runs;
mod sandbox;
mod stdio;
mod support;
mod tokens;
mod typescript;
mod world;
