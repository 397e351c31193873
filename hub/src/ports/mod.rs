//! What the driver needs of the outside world, as traits in the hub's own words.
//!
//! Each trait has one conformance suite, in `sim`, that runs against every implementation.

pub mod postings;
pub mod sandbox;
