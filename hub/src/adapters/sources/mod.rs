//! MCP servers as sources: local ones over their standard streams, others over HTTP.
//!
//! `pool` holds the connections, `session` is one of them, `child` and `transport` the process and the
//! lines of a local server, `keeper` ends those that a killed hub leaves, `http` the other kind, `credential`
//! gets a connection's secrets, `result` reads what servers send, `raw` keeps it as it came.
//! `rmcp`'s conveniences are not used on them raw.

mod child;
mod credential;
mod http;
mod keeper;
mod pool;
mod raw;
mod result;
mod session;
mod transport;

pub use http::address_class;
pub use keeper::{KEEPER_ARGUMENT, run_keeper};
pub use pool::McpSources;
