//! The ports of one simulated process.

use super::clock::{SimClock, WALL_START};
use super::entropy::SimEntropy;
use super::faults::Faults;
use super::history::History;
use super::person::SimPerson;
use super::secrets::SimSecrets;
use super::sources::{SimSources, Upstreams};
use super::store::{Contents, SimStore};
use crate::seed::Seed;
use hub::adapters::postings::MemoryPostings;
use hub::adapters::sandbox::InlineSandbox;
use hub::model::digest::Digest;
use hub::ports::Ports;
use hub::ports::person::Person;
use hub::ports::sources::Sources;
use hub::ports::store::Store;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A disk that outlives processes.
#[derive(Debug, Clone, Default)]
pub struct Disk(Arc<Mutex<Contents>>);

impl Disk {
    /// The disk as one process sees it.
    #[must_use]
    pub fn store(&self, faults: Faults, history: History) -> SimStore {
        SimStore::new(Arc::clone(&self.0), faults, history)
    }

    /// Everything kept by digest.
    ///
    /// # Panics
    /// A thread panicked while it wrote.
    #[must_use]
    pub fn blobs(&self) -> BTreeMap<Digest, String> {
        self.0.lock().expect("not poisoned").blobs.clone()
    }

    /// The machine dies: what was not durable is gone, save for `kept` entries that happen to be there.
    ///
    /// # Panics
    /// A thread panicked while it wrote.
    pub fn crash(&self, kept: usize, history: &History) {
        self.0.lock().expect("not poisoned").crash(kept, history);
    }
}

/// One process: fakes for everything but the sandbox, which runs the real guest inline. The parts that a
/// broken hub replaces are parameters.
#[derive(Debug)]
pub struct SimPorts<S = SimStore, U = SimSources, H = SimPerson> {
    clock: SimClock,
    entropy: SimEntropy,
    store: S,
    secrets: SimSecrets,
    sources: U,
    sandbox: InlineSandbox,
    person: H,
}

impl<S, U, H> SimPorts<S, U, H> {
    /// The ports of process number `process`. Needs a runtime.
    #[must_use]
    pub fn new(seed: Seed, process: u32, store: S, sources: U, person: H) -> Self {
        // Every process starts a minute after the one before.
        let wall = WALL_START.plus(u64::from(process) * 60_000);
        SimPorts::with(SimClock::new(wall), seed, process, store, sources, person)
    }

    /// As [`SimPorts::new`], with a clock that other processes of the same moment share.
    #[must_use]
    pub fn with(
        clock: SimClock,
        seed: Seed,
        process: u32,
        store: S,
        sources: U,
        person: H,
    ) -> Self {
        SimPorts {
            clock,
            entropy: SimEntropy::new(seed, process),
            store,
            secrets: SimSecrets::default(),
            sources,
            sandbox: InlineSandbox,
            person,
        }
    }
}

impl SimPorts {
    /// A process that does what it should.
    #[must_use]
    pub fn honest(
        seed: Seed,
        process: u32,
        disk: &Disk,
        upstreams: &Upstreams,
        person: SimPerson,
        faults: &Faults,
        history: &History,
    ) -> Self {
        let store = disk.store(faults.clone(), history.clone());
        SimPorts::new(
            seed,
            process,
            store,
            SimSources::new(upstreams.clone(), faults.clone()),
            person,
        )
    }
}

impl<S: Store, U: Sources, H: Person> Ports for SimPorts<S, U, H> {
    type Clock = SimClock;
    type Entropy = SimEntropy;
    type Store = S;
    type Secrets = SimSecrets;
    type Sources = U;
    type Sandbox = InlineSandbox;
    type Postings = MemoryPostings;
    type Person = H;

    fn clock(&self) -> &SimClock {
        &self.clock
    }

    fn entropy(&self) -> &SimEntropy {
        &self.entropy
    }

    fn store(&self) -> &S {
        &self.store
    }

    fn secrets(&self) -> &SimSecrets {
        &self.secrets
    }

    fn sources(&self) -> &U {
        &self.sources
    }

    fn sandbox(&self) -> &InlineSandbox {
        &self.sandbox
    }

    fn postings(&self) -> &MemoryPostings {
        &MemoryPostings
    }

    fn person(&self) -> &H {
        &self.person
    }
}
