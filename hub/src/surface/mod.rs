//! The MCP face: three tools over rmcp.
//!
//! `words` holds every sentence a model reads, `server` answers requests, `stdio` is the transport that
//! harnesses start. Nothing here can record a decision.

mod server;
mod stdio;
mod words;

pub use server::HubServer;
pub use stdio::serve_stdio;
pub use words::{definitions, instructions};
