//! The simulated side of each port, and what the world sees of them.

mod clock;
mod entropy;
mod faults;
mod history;
mod person;
mod ports;
mod secrets;
mod sources;
mod store;

pub use clock::{SimClock, WALL_START};
pub use entropy::SimEntropy;
pub use faults::{Crash, Faults};
pub use history::{History, Seen};
pub use person::SimPerson;
pub use ports::{Disk, SimPorts};
pub use secrets::SimSecrets;
pub use sources::{FakeTool, SimSources, Upstreams};
pub use store::{SimLock, SimStore};
