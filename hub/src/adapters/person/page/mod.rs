//! The approval page: served on loopback to the person's own browser, which the hub opens.
//!
//! `desk` decides everything about a request and holds no socket; `html` draws; `server` is the socket;
//! `peer` says which user a connection is from; `browser` opens the page.

mod browser;
mod desk;
mod form;
mod html;
mod peer;
mod server;
#[cfg(test)]
mod tests;

pub use browser::{Browser, Desktop};
pub use desk::{Desk, Method, Reply, Request};
pub(super) use server::Page;
