//! MCP over HTTP: streamable, and the older kind with one stream of events.
//!
//! `connect` makes connections, `exchange` sends one message and reads what kind of answer comes,
//! `events` reads streams, `wire` is the transport between the protocol library and all of these,
//! `parameters` the arguments that travel as headers.

mod connect;
mod events;
mod exchange;
mod parameters;
mod wire;

pub(super) use exchange::{Failure, Server};
pub(super) use wire::{Link, WallNow, Wire};

use crate::model::http::{AddressClass, HttpUrl};

/// The kind of network a server lies in, as its name resolves at this moment.
///
/// # Errors
/// Its name is not known, or leads into networks of different kinds.
pub async fn address_class(url: &HttpUrl) -> Result<AddressClass, String> {
    connect::class_of(url).await
}
