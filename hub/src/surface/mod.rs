//! The MCP face: three tools over rmcp.
//!
//! `words` holds every sentence a model reads, `server` answers requests, `stdio` is the transport that
//! harnesses start, `http` the one that they find running. Nothing here can record a decision.

mod http;
mod server;
mod stdio;
mod words;

pub use http::{HTTP_PATH, serve_http};
pub use server::HubServer;
pub use stdio::serve_stdio;
pub use words::{definitions, instructions};
