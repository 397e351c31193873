//! What the driver needs of the outside world, as traits in the hub's own words.
//!
//! Each trait has one conformance suite, in `sim`, that runs against every implementation. Four habits:
//! names carry units; `Ok` says what it promises and each error what is safe to do next; asking is apart
//! from waiting; where something leaves the process there is always an *unknown*.

pub mod clock;
pub mod entropy;
pub mod person;
pub mod postings;
pub mod sandbox;
pub mod secrets;
pub mod sources;
pub mod store;

/// All the outside world, as one type parameter.
pub trait Ports: Send + Sync + 'static {
    /// Time.
    type Clock: clock::Clock;
    /// Chance.
    type Entropy: entropy::Entropy;
    /// The durable record.
    type Store: store::Store;
    /// Secrets, and the scrubber.
    type Secrets: secrets::Secrets;
    /// Upstream servers.
    type Sources: sources::Sources;
    /// Where code runs.
    type Sandbox: sandbox::Sandbox;
    /// The search index.
    type Postings: postings::Postings;
    /// The person.
    type Person: person::Person;

    /// The clock.
    fn clock(&self) -> &Self::Clock;
    /// The source of randomness.
    fn entropy(&self) -> &Self::Entropy;
    /// The store.
    fn store(&self) -> &Self::Store;
    /// The secrets.
    fn secrets(&self) -> &Self::Secrets;
    /// The sources.
    fn sources(&self) -> &Self::Sources;
    /// The sandbox.
    fn sandbox(&self) -> &Self::Sandbox;
    /// The search indexes.
    fn postings(&self) -> &Self::Postings;
    /// The person.
    fn person(&self) -> &Self::Person;
}
