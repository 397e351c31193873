//! Fakes for every port of the hub, conformance suites that fakes and real parts both pass, oracles for
//! the hub's invariants, and seeded worlds in which programs, faults and people act.

pub mod answer;
pub mod awkward;
pub mod broken;
pub mod catalog;
pub mod conformance;
pub mod fakes;
pub mod figures;
pub mod leaky;
pub mod oracles;
pub mod people;
pub mod probe;
pub mod seed;
pub mod server;
pub mod world;
