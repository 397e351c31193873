//! Everything that needs more than one part of the hub.

mod sandbox;
mod world;
mod cli;
mod support;
mod real_servers;
mod stdio;
