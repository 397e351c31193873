//! MCP servers as sources: local ones over their standard streams.
//!
//! `stdio` holds the connections, `session` is one of them, `transport` the lines between, `child` the
//! process, `result` reads what servers send. `rmcp`'s conveniences are not used on them raw.

mod child;
mod result;
mod session;
mod stdio;
mod transport;

pub use stdio::StdioSources;
