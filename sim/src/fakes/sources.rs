//! Upstream servers that do what a plan says, and log what reached them.

use super::faults::Faults;
use super::history::{History, Seen};
use crate::seed::{Seed, Stream};
use hub::model::call::{Block, UpstreamResult};
use hub::model::contract::Contract;
use hub::model::ids::SourceId;
use hub::model::time::{Tick, WallMs};
use hub::ports::sources::{CallError, Listing, Route, Sources, UpstreamCall};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One tool of a fake server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeTool {
    /// Its own name.
    pub name: String,
    /// Does it declare itself read-only?
    pub read_only: bool,
    /// Part of its description; another makes it another contract.
    pub edition: u32,
}

/// The servers themselves: they outlive every process of the hub.
#[derive(Debug, Clone)]
pub struct Upstreams {
    inner: Arc<Mutex<Inner>>,
    history: History,
}

#[derive(Debug)]
struct Inner {
    tools: BTreeMap<SourceId, Vec<FakeTool>>,
    listings: u64,
    chance: Stream,
    /// Per cent of calls whose answer is lost, that fail, and that are not reachable.
    lost: u64,
    failing: u64,
    unreachable: u64,
}

impl Upstreams {
    /// Servers without trouble.
    #[must_use]
    pub fn new(seed: Seed, history: History) -> Upstreams {
        let inner = Inner {
            tools: BTreeMap::new(),
            listings: 0,
            chance: seed.stream("upstreams"),
            lost: 0,
            failing: 0,
            unreachable: 0,
        };
        Upstreams { inner: Arc::new(Mutex::new(inner)), history }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("not poisoned")
    }

    /// Per cent of calls whose answers are lost, that fail, and that cannot be made.
    pub fn trouble(&self, lost: u64, failing: u64, unreachable: u64) {
        let mut inner = self.lock();
        (inner.lost, inner.failing, inner.unreachable) = (lost, failing, unreachable);
    }

    /// What a source offers from here on.
    pub fn offer(&self, source: &SourceId, tools: Vec<FakeTool>) {
        let mut inner = self.lock();
        inner.tools.insert(source.clone(), tools);
        inner.listings += 1;
    }

    /// What a source offers.
    #[must_use]
    pub fn offered(&self, source: &SourceId) -> Vec<FakeTool> {
        self.lock().tools.get(source).cloned().unwrap_or_default()
    }
}

/// One process's way to the servers.
#[derive(Debug, Clone)]
pub struct SimSources {
    upstreams: Upstreams,
    faults: Faults,
    /// The listing by which each source was dialled last.
    dialled: Arc<Mutex<BTreeMap<SourceId, u64>>>,
}

impl SimSources {
    /// Sources that die with the process.
    #[must_use]
    pub fn new(upstreams: Upstreams, faults: Faults) -> SimSources {
        SimSources { upstreams, faults, dialled: Arc::default() }
    }
}

fn contract(tool: &FakeTool) -> Contract {
    let listed = json!({
        "name": tool.name,
        "description": format!("Does {}, edition {}.", tool.name, tool.edition),
        "inputSchema": { "type": "object", "properties": { "k": { "type": "integer" } }, "required": ["k"] },
        "annotations": { "readOnlyHint": tool.read_only },
    });
    Contract::from_listed(listed.as_object().expect("an object"))
}

impl Sources for SimSources {
    async fn dial(
        &self,
        route: &Route,
        _listed_after: Option<WallMs>,
        _deadline: Tick,
    ) -> Result<Arc<Listing>, CallError> {
        let dialled = self.faults.effect(|| {
            let mut inner = self.upstreams.lock();
            let unreachable = inner.unreachable;
            if inner.chance.percent(unreachable) {
                return Err(CallError::NotSent("the server is down".to_owned()));
            }
            self.dialled
                .lock()
                .expect("not poisoned")
                .insert(route.record.id.clone(), inner.listings);
            let tools = inner.tools.get(&route.record.id).map(Vec::as_slice).unwrap_or_default();
            Ok(Arc::new(Listing {
                number: inner.listings,
                listed: WallMs(0),
                server: "fake".to_owned(),
                protocol: "2025-11-25".to_owned(),
                tools: tools.iter().map(contract).collect(),
                notices: Vec::new(),
            }))
        });
        dialled.await
    }

    async fn call(&self, route: &Route, call: &UpstreamCall) -> Result<UpstreamResult, CallError> {
        let dialled = self.dialled.lock().expect("not poisoned").get(&route.record.id).copied();
        if dialled != Some(call.listing) {
            return Err(CallError::NotSent("the source was not dialled for this".to_owned()));
        }
        let write = self
            .upstreams
            .offered(&route.record.id)
            .iter()
            .any(|tool| tool.name == call.raw.as_str() && !tool.read_only);
        let arguments = call.arguments.to_string();
        let (delay, lost, failing) = self
            .faults
            .effect(|| {
                let seen = Seen::Reached {
                    tool: call.raw.to_string(),
                    write,
                    arguments: arguments.clone(),
                };
                self.upstreams.history.see(seen);
                let mut inner = self.upstreams.lock();
                let (lost, failing) = (inner.lost, inner.failing);
                let delay = inner.chance.below(40);
                (delay, inner.chance.percent(lost), inner.chance.percent(failing))
            })
            .await;
        tokio::time::sleep(Duration::from_millis(delay)).await;
        // The answer's way back is a moment in which the process may die, too.
        self.faults.effect(|| ()).await;
        if lost {
            return Err(CallError::Lost("the connection broke".to_owned()));
        }
        Ok(UpstreamResult {
            blocks: if failing {
                vec![Block::Text("no such thing".to_owned())]
            } else {
                Vec::new()
            },
            structured: (!failing)
                .then(|| json!({ "tool": call.raw.as_str(), "got": parsed(&arguments) })),
            is_error: failing,
        })
    }

    async fn close(&self, source: &SourceId) {
        self.dialled.lock().expect("not poisoned").remove(source);
    }

    async fn close_all(&self) {
        self.dialled.lock().expect("not poisoned").clear();
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("arguments are JSON")
}

impl Upstreams {
    /// Every source that offers something.
    #[must_use]
    pub fn sources(&self) -> Vec<SourceId> {
        self.lock().tools.keys().cloned().collect()
    }
}
