//! Everything that needs more than one part of the hub.
#![expect(clippy::print_stderr, reason = "tests say what they skip, and what they measured")]

mod awkward;
mod cli;
mod conformance;
mod harm;
mod http;
mod journals;
mod kills;
mod limits;
mod lockdown;
mod many;
mod people;
mod postings;
mod real_http;
mod real_python;
mod real_servers;
mod runs;
mod sandbox;
mod secrets;
mod shared;
mod stdio;
mod support;
mod tokens;
mod trouble;
mod typescript;
mod world;
