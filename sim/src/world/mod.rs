//! A seeded world: two sources, one person, one program, and a process that may die between any two
//! effects and be followed by another.

mod plan;
mod program;

pub use plan::Plan;
pub use program::program;

use crate::fakes::{Crash, Disk, FakeTool, Faults, History, Seen, SimPerson, SimPorts, Upstreams};
use crate::seed::Seed;
use hub::driver::{Code, Decided, Hub, NewSource, Reviewed, StopSignal};
use hub::model::digest::Digest;
use hub::model::envelope::{Envelope, EnvelopeStatus};
use hub::model::ids::RunId;
use hub::model::journal::Entry;
use hub::model::run::RunRecord;
use hub::model::source::{Settings, StdioCommand, Transport};
use hub::ports::Ports;
use hub::ports::store::Store as _;
use std::collections::BTreeMap;
use tokio::runtime::{Builder, RngSeed, Runtime};

/// Processes that may follow one another in one world.
const PROCESSES_MAX: u32 = 8;
/// How often one process asks the person before it is given up as stuck.
const ROUNDS_MAX: u32 = 60;

/// What one process is made of.
pub struct Process<'a> {
    /// The world's seed.
    pub seed: Seed,
    /// Its number, from 1; 0 sets the hub up.
    pub number: u32,
    /// The disk.
    pub disk: &'a Disk,
    /// The servers.
    pub upstreams: &'a Upstreams,
    /// The person.
    pub person: &'a SimPerson,
    /// When it dies.
    pub faults: &'a Faults,
    /// What is seen of it.
    pub history: &'a History,
}

/// Makes the ports of each process: honest ones, or a broken hub's.
pub trait Maker {
    /// The ports.
    type Ports: Ports;
    /// The ports of one process. Called inside its runtime.
    fn ports(&self, process: &Process<'_>) -> Self::Ports;
}

/// Makes processes that do what they should.
#[derive(Debug, Clone, Copy)]
pub struct Honest;

impl Maker for Honest {
    type Ports = SimPorts;
    fn ports(&self, p: &Process<'_>) -> SimPorts {
        SimPorts::honest(
            p.seed,
            p.number,
            p.disk,
            p.upstreams,
            p.person.clone(),
            p.faults,
            p.history,
        )
    }
}

/// How a world ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Everything seen.
    pub history: Vec<Seen>,
    /// The run's record, if there is one.
    pub record: Option<RunRecord>,
    /// Its journal.
    pub journal: Vec<Entry>,
    /// What the store keeps by digest.
    pub blobs: BTreeMap<Digest, String>,
    /// The last envelope, if any process lived to give one.
    pub envelope: Option<Envelope>,
    /// Effects of the first process.
    pub effects: u64,
    /// Processes that were needed.
    pub processes: u32,
}

/// Plays one plan.
///
/// # Panics
/// The hub breaks a promise that no oracle needs to watch for, such as answering at all.
pub fn play<M: Maker>(maker: &M, seed: Seed, plan: &Plan) -> Outcome {
    let history = History::default();
    let (disk, upstreams) = (Disk::default(), Upstreams::new(seed, history.clone()));
    let person = SimPerson::new(history.clone(), plan.choices.clone());
    let world =
        World { seed, disk: &disk, upstreams: &upstreams, person: &person, history: &history };
    let setup = Faults::default();
    runtime(seed, 0).block_on(async {
        let hub = Hub::new(maker.ports(&world.process(0, &setup)), "sim");
        set_up(&hub, &upstreams).await;
    });
    let (lost, failing, unreachable) = plan.trouble;
    upstreams.trouble(lost, failing, unreachable);

    let mut outcome = Outcome {
        history: Vec::new(),
        record: None,
        journal: Vec::new(),
        blobs: BTreeMap::new(),
        envelope: None,
        effects: 0,
        processes: 0,
    };
    for number in 1..=PROCESSES_MAX {
        outcome.processes = number;
        // Only the first processes die; after that the world is calm and the run must end.
        let crash: Option<Crash> = plan.crashes.get(number as usize - 1).copied();
        let faults = Faults::new(crash);
        history.see(Seen::Started);
        if plan.changes_before == Some(number) {
            change_a_contract(&upstreams);
        }
        let runtime = runtime(seed, number);
        // Made inside the runtime: its clock is the one the process lives by.
        let ports = runtime.block_on(async { maker.ports(&world.process(number, &faults)) });
        let ended = runtime.block_on(async {
            let hub = Hub::new(ports, "sim");
            tokio::select! {
                biased;
                () = faults.crashed() => None,
                envelope = live(&hub, plan) => Some(envelope),
            }
        });
        // Everything the process was doing ends here.
        drop(runtime);
        if number == 1 {
            outcome.effects = faults.count();
        }
        match ended {
            Some(envelope) => {
                outcome.envelope = envelope;
                break;
            }
            None => {
                history.see(Seen::Crashed);
                disk.crash(plan.kept, &history);
            }
        }
    }
    outcome.history = history.all();
    runtime(seed, 99).block_on(async {
        let store = disk.store(Faults::default(), History::default());
        let runs = store.runs().await.expect("memory does not fail");
        if let Some((record, _)) = runs.into_iter().next() {
            outcome.journal = store.journal(&record.id).await.expect("memory does not fail");
            outcome.record = Some(record);
        }
    });
    outcome.blobs = disk.blobs();
    outcome
}

/// What outlives every process.
struct World<'a> {
    seed: Seed,
    disk: &'a Disk,
    upstreams: &'a Upstreams,
    person: &'a SimPerson,
    history: &'a History,
}

impl<'a> World<'a> {
    fn process(&self, number: u32, faults: &'a Faults) -> Process<'a> {
        let World { seed, disk, upstreams, person, history } = *self;
        Process { seed, number, disk, upstreams, person, faults, history }
    }
}

fn runtime(seed: Seed, process: u32) -> Runtime {
    let mut bytes = seed.0.to_le_bytes().to_vec();
    bytes.extend(process.to_le_bytes());
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .rng_seed(RngSeed::from_bytes(&bytes))
        .build()
        .expect("a runtime can be made")
}

/// Two sources, agreed to and reviewed.
async fn set_up<P: Ports>(hub: &Hub<P>, upstreams: &Upstreams) {
    let id = "hub_0000000000000000".parse().expect("an id");
    hub.ports().store().write_settings(&Settings::new(id)).await.expect("memory does not fail");
    for (name, tools) in
        [("alpha", ["get", "put"].as_slice()), ("beta", ["list", "post", "purge"].as_slice())]
    {
        let transport = Transport::Stdio(StdioCommand {
            program: format!("/bin/{name}"),
            args: Vec::new(),
            cwd: "/".to_owned(),
            path: String::new(),
            set: BTreeMap::new(),
            pass: Vec::new(),
        });
        let new = NewSource {
            namespace: name.parse().expect("a namespace"),
            label: None,
            transport,
            consented: true,
        };
        let record = hub.add_source(new).await.expect("the namespace is free");
        let tools = tools.iter().map(|tool| FakeTool {
            name: (*tool).to_owned(),
            read_only: matches!(*tool, "get" | "list"),
            edition: 1,
        });
        upstreams.offer(&record.id, tools.collect());
        hub.refresh(&record).await.expect("the server is there");
    }
    let items = hub.to_review(None).await.expect("memory does not fail");
    let reviewed: Vec<_> = items.into_iter().map(|item| Reviewed { item, rule: None }).collect();
    hub.review(&reviewed).await.expect("memory does not fail");
}

/// Another description makes another contract.
fn change_a_contract(upstreams: &Upstreams) {
    for source in upstreams.sources() {
        let mut tools = upstreams.offered(&source);
        if let Some(tool) = tools.first_mut() {
            tool.edition += 1;
        }
        upstreams.offer(&source, tools);
    }
}

/// One process: begins the run or goes on with it, and asks the person until it ends.
async fn live<P: Ports>(hub: &Hub<P>, plan: &Plan) -> Option<Envelope> {
    let known = hub.list_runs().await.expect("memory does not fail");
    let mut envelope = match known.first() {
        Some((record, _)) => resume(hub, &record.id).await,
        None => {
            let code = Code { text: plan.program.clone(), profile: "default".to_owned() };
            hub.execute(code, StopSignal::never()).await.expect("the program is valid")
        }
    };
    for _ in 0..ROUNDS_MAX {
        if envelope.status != EnvelopeStatus::AwaitingApproval
            && envelope.status != EnvelopeStatus::Running
        {
            break;
        }
        let run = envelope.run_id.clone();
        if hub.put_to_person(&run).await.expect("memory does not fail") == Decided::Some {
            break;
        }
        envelope = resume(hub, &run).await;
    }
    Some(envelope)
}

async fn resume<P: Ports>(hub: &Hub<P>, run: &RunId) -> Envelope {
    hub.resume(run, StopSignal::never()).await.expect("the run is there")
}
