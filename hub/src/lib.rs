//! A local-first capability hub: one MCP endpoint, three tools, and a person who decides.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable)]
#![deny(clippy::indexing_slicing, clippy::string_slice)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::string_slice,
        reason = "in a test, a panic is the report"
    )
)]

pub mod adapters;
pub mod cli;
pub mod core;
pub mod driver;
pub mod model;
pub mod ports;
pub mod surface;
