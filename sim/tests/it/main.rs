//! Everything that needs more than one part of the hub.

mod journals;
mod sandbox;
mod world;
mod cli;
mod support;
mod real_servers;
mod stdio;
