//! Takes events, calls the engine, and carries effects out through ports, in order.
//!
//! `hub` is the value everything starts from; `runs` begins, resumes and cancels; `attempt` drives one
//! attempt; `outbound` is where calls leave; `waiting` puts runs before the person and watches them; `decide`
//! is the one place where a person's answer becomes a decision; `clients` answers requests of clients; `keeping` lets go of what
//! is old; `sources` adds, lists, reviews and removes; `connections` does so with their credentials.

mod attempt;
mod clients;
mod connections;
mod decide;
mod hub;
mod keeping;
mod outbound;
mod runs;
mod sources;
mod waiting;

pub use attempt::StopSignal;
pub use clients::{Reply, Request};
pub use connections::{Entered, ShownConnection, secret_code};
pub use decide::Decided;
pub use hub::{Hub, HubError};
pub use runs::{Code, RunView};
pub use sources::{NewSource, Refreshed, ReviewItem, Reviewed};
