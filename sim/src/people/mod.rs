//! Seeded worlds of people and clients: several processes of one hub, a client that is honest or a program,
//! a person who is prompt, slow, absent, late or wrong, and a model that tries whatever it has ever read.

mod acts;
mod channels;
mod model;

use crate::broken::{Betrayal, BrokenPerson, BrokenSources, BrokenStore};
use crate::fakes::{
    Disk, FakeTool, Faults, History, Seen, SimClock, SimPerson, SimPorts, SimSources, Upstreams,
    WALL_START,
};
use crate::seed::{Seed, Stream};
use acts::Client;
use channels::Channels;
use hub::driver::{Hub, NewSource, Reviewed};
use hub::model::ids::{HubId, SourceId};
use hub::model::policy::Choice;
use hub::model::source::Settings;
use hub::ports::Ports;
use hub::ports::store::Store as _;
use serde_json::json;
use std::fmt::Write as _;
use tokio::runtime::{Builder, RngSeed};

/// How long a question stays open here, in milliseconds.
const OPEN_MS: u64 = 600_000;

type Served = Hub<SimPorts<BrokenStore, BrokenSources, BrokenPerson<Channels>>>;
type AtTerminal = Hub<SimPorts<BrokenStore, BrokenSources, BrokenPerson<SimPerson>>>;

/// One world: what everyone in it can reach.
struct World {
    draw: Stream,
    /// One for all: these are processes of one moment.
    clock: SimClock,
    seed: Seed,
    how: Option<Betrayal>,
    disk: Disk,
    upstreams: Upstreams,
    history: History,
    source: SourceId,
    hub: HubId,
    /// Two processes that serve clients, each with its channels.
    served: Vec<(Served, Channels)>,
    processes: u32,
    /// What the person's browser was let in with.
    cookie: String,
    /// Everything the hub ever gave out: states, addresses, ids.
    leaked: model::Leaked,
}

/// Plays the world of a seed over a hub that betrays it like this, or not at all; what was seen.
///
/// # Panics
/// The hub breaks a promise that no oracle needs to watch for, such as answering at all.
#[must_use]
pub fn play(seed: Seed, how: Option<Betrayal>) -> Vec<Seen> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .rng_seed(RngSeed::from_bytes(&seed.0.to_le_bytes()))
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        let mut world = World::new(seed, how).await;
        world.live().await;
        world.history.all()
    })
}

impl World {
    async fn new(seed: Seed, how: Option<Betrayal>) -> World {
        let history = History::default();
        let mut world = World {
            draw: seed.stream("people"),
            clock: SimClock::new(WALL_START),
            seed,
            how,
            disk: Disk::default(),
            upstreams: Upstreams::new(seed, history.clone()),
            history,
            source: SourceId::from_random([0; 10]),
            hub: "hub_0000000000000000".parse().expect("an id"),
            served: Vec::new(),
            processes: 0,
            cookie: String::new(),
            leaked: model::Leaked::default(),
        };
        let setup = world.at_terminal(Vec::new());
        let mut settings = serde_json::to_value(Settings::new(world.hub.clone())).expect("JSON");
        settings["limits"] = json!({ "approvalTtlMs": OPEN_MS });
        let settings = serde_json::from_value(settings).expect("settings");
        let store = setup.ports().store();
        store.write_settings(&settings).await.expect("memory does not fail");
        let transport = crate::catalog::command("/bin/s");
        let namespace = "s".parse().expect("a namespace");
        let new = NewSource { namespace, label: None, transport, consented: true };
        let record = setup.add_source(new).await.expect("memory does not fail");
        world.source = record.id.clone();
        world
            .disk
            .store(Faults::default(), History::default())
            .connect(&record.id, &["home", "work"]);
        let tools = ["get", "put", "post"].map(|name| FakeTool {
            name: name.to_owned(),
            read_only: name == "get",
            edition: 1,
        });
        world.upstreams.offer(&record.id, tools.to_vec());
        setup.refresh(&record).await.expect("the server is there");
        let items = setup.to_review(None).await.expect("memory does not fail");
        let reviewed: Vec<_> =
            items.into_iter().map(|item| Reviewed { item, rule: None }).collect();
        setup.review(&reviewed).await.expect("memory does not fail");
        for _ in 0..2 {
            let served = world.serve();
            world.served.push(served);
        }
        world
    }

    fn parts(&mut self) -> (u32, BrokenStore, BrokenSources) {
        self.processes += 1;
        let faults = Faults::default();
        let store = self.disk.store(faults.clone(), self.history.clone());
        let sources = SimSources::new(self.upstreams.clone(), faults);
        let (store, sources) =
            (BrokenStore::new(store, self.how), BrokenSources::new(sources, self.how));
        (self.processes, store, sources)
    }

    /// A process that serves a client.
    fn serve(&mut self) -> (Served, Channels) {
        let (number, store, sources) = self.parts();
        let channels = Channels::new(self.clock, self.seed, number, self.hub.clone());
        let person = BrokenPerson::new(channels.clone(), self.how);
        let ports = SimPorts::with(self.clock, self.seed, number, store, sources, person);
        (Hub::new(ports, "sim"), channels)
    }

    /// A process at a terminal, with a person who answers like this.
    fn at_terminal(&mut self, choices: Vec<Choice>) -> AtTerminal {
        let (number, store, sources) = self.parts();
        let person = SimPerson::new(self.history.clone(), choices);
        let person = BrokenPerson::new(person, self.how);
        Hub::new(SimPorts::with(self.clock, self.seed, number, store, sources, person), "sim")
    }

    /// A program with calls on both connections.
    fn program(&mut self) -> String {
        let mut text = "const out = [];\n".to_owned();
        let mut k = 0;
        for _ in 0..2 + self.draw.below(4) {
            let mut calls = Vec::new();
            for _ in 0..1 + self.draw.below(3) {
                k += 1;
                let tool = self.draw.pick(&["put", "put", "post", "get"]);
                let connection = self.draw.pick(&["home", "work"]);
                calls.push(format!("s.{tool}({{ k: {k} }}, {{ connection: '{connection}' }})"));
            }
            let _ = writeln!(text, "out.push(await Promise.allSettled([{}]));", calls.join(", "));
        }
        text.push_str("return out.length;\n");
        text
    }

    async fn live(&mut self) {
        let kind = *self.draw.pick(&Client::ALL);
        let program = self.program();
        acts::live(self, kind, program).await;
    }
}
