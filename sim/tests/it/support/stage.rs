//! A disk, servers and simulated hubs over them, for runs end to end over fakes.

use hub::driver::{Code, Decided, Hub, NewSource, Reviewed, StopSignal};
use hub::model::envelope::{Envelope, EnvelopeStatus};
use hub::model::ids::{RunId, SourceId};
use hub::model::policy::{Choice, Effect, Policy, Rule, Scope};
use hub::model::source::Settings;
use hub::ports::Ports as _;
use hub::ports::store::Store as _;
use sim::fakes::{Disk, FakeTool, Faults, History, Seen, SimPerson, SimPorts, Upstreams};
use sim::seed::Seed;

/// A disk, servers, and as many hub processes over them as a test wants.
pub(crate) struct Stage {
    pub(crate) disk: Disk,
    pub(crate) upstreams: Upstreams,
    pub(crate) history: History,
    pub(crate) source: SourceId,
}

pub(crate) type SimHub = Hub<SimPorts>;

pub(crate) fn tool(name: &str, read_only: bool, edition: u32) -> FakeTool {
    FakeTool { name: name.to_owned(), read_only, edition }
}

impl Stage {
    /// A hub with one source, `s`, that reads and writes; all of it reviewed.
    pub(crate) async fn new() -> Stage {
        let history = History::default();
        let upstreams = Upstreams::new(Seed(3), history.clone());
        let mut stage = Stage {
            disk: Disk::default(),
            upstreams,
            history,
            source: SourceId::from_random([0; 10]),
        };
        let hub = stage.hub(0, &[]);
        let id = "hub_0000000000000000".parse().expect("an id");
        hub.ports().store().write_settings(&Settings::new(id)).await.expect("written");
        let transport = sim::catalog::command("/bin/s");
        let namespace = "s".parse().expect("a namespace");
        let new = NewSource { namespace, label: None, transport, consented: true };
        let record = hub.add_source(new).await.expect("added");
        stage.source = record.id.clone();
        stage.offer(vec![tool("get", true, 1), tool("put", false, 1), tool("drop", false, 1)]);
        hub.refresh(&record).await.expect("listed");
        stage.review(&hub).await;
        stage
    }

    pub(crate) fn offer(&self, tools: Vec<FakeTool>) {
        self.upstreams.offer(&self.source, tools);
    }

    pub(crate) async fn review(&self, hub: &SimHub) {
        let items = hub.to_review(None).await.expect("read");
        let reviewed: Vec<_> =
            items.into_iter().map(|item| Reviewed { item, rule: None }).collect();
        hub.review(&reviewed).await.expect("written");
    }

    /// Another process, with a person who answers like this.
    pub(crate) fn hub(&self, process: u32, choices: &[Choice]) -> SimHub {
        let person = SimPerson::new(self.history.clone(), choices.to_vec());
        Hub::new(
            SimPorts::honest(
                Seed(3),
                process,
                &self.disk,
                &self.upstreams,
                person,
                &Faults::default(),
                &self.history,
            ),
            "sim",
        )
    }

    /// Arguments of the calls that reached the server, in order.
    pub(crate) fn reached(&self, wanted: &str) -> Vec<String> {
        let mut reached = Vec::new();
        for seen in self.history.all() {
            if let Seen::Reached { tool, arguments, .. } = seen
                && tool == wanted
            {
                reached.push(arguments);
            }
        }
        reached
    }

    /// Writes a rule about one tool, as a person's command would.
    pub(crate) async fn rule(&self, hub: &SimHub, raw: &str, effect: Effect) {
        let store = hub.ports().store();
        let mut policy = match store.policy(&self.source).await {
            hub::model::facts::SourcePolicy::Usable(policy) => policy,
            hub::model::facts::SourcePolicy::Broken(_) => Policy::default(),
        };
        let scope = Scope {
            tool: Some(raw.parse().expect("a name")),
            ..Scope { tool: None, connection: Default::default() }
        };
        policy.rules.push(Rule { scope, effect, contract: None });
        store.write_policy(&self.source, &policy).await.expect("written");
    }
}

pub(crate) async fn execute(hub: &SimHub, text: &str) -> Envelope {
    let code = Code { text: text.to_owned(), profile: "default".to_owned() };
    hub.execute(code, StopSignal::never()).await.expect("it runs")
}

pub(crate) async fn resume(hub: &SimHub, run: &RunId) -> Envelope {
    hub.resume(run, StopSignal::never()).await.expect("the run is there")
}

/// Runs code and asks the person until the run ends or nobody answers.
pub(crate) async fn to_the_end(hub: &SimHub, text: &str) -> Envelope {
    let envelope = execute(hub, text).await;
    go_on(hub, envelope).await
}

pub(crate) async fn go_on(hub: &SimHub, mut envelope: Envelope) -> Envelope {
    for _ in 0..40 {
        if envelope.status != EnvelopeStatus::AwaitingApproval
            || hub.put_to_person(&envelope.run_id).await.expect("read") == Decided::Some
        {
            break;
        }
        envelope = resume(hub, &envelope.run_id.clone()).await;
    }
    envelope
}

pub(crate) fn code_of(envelope: &Envelope) -> &str {
    envelope.error.as_ref().map_or("", |error| error.code.as_str())
}
