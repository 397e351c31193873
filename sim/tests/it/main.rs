//! Everything that needs more than one part of the hub.

mod cli;
mod journals;
mod real_servers;
mod sandbox;
mod stdio;
mod support;
mod tokens;
mod world;
