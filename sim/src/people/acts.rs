//! What clients and the person do, step by step.

use super::model::{code, never, page_request};
use super::{OPEN_MS, World};
use crate::fakes::Seen;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hub::adapters::person::Method;
use hub::driver::{Reply, Request};
use hub::model::digest::Digest;
use hub::model::envelope::EnvelopeStatus;
use hub::model::facts::SourcePolicy;
use hub::model::ids::RunId;
use hub::model::policy::{Choice, Effect, Rule, Scope};
use hub::ports::Ports as _;
use hub::ports::clock::Clock as _;
use hub::ports::person::{Client as Caller, ClientResponse, Prompt};
use hub::ports::store::Store as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a client does with a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    /// Puts it to its person.
    Honest,
    /// Accepts at once, by itself.
    Accepts,
    /// Accepts at once, and tries the same again later and elsewhere.
    Insists,
    /// Declines at once, by itself.
    Declines,
    /// Shows no forms.
    Bare,
}

impl Client {
    pub(super) const ALL: [Client; 7] = [
        Client::Honest,
        Client::Honest,
        Client::Honest,
        Client::Accepts,
        Client::Insists,
        Client::Declines,
        Client::Bare,
    ];
}

/// Rounds after which a run that still waits is left alone.
const ROUNDS_MAX: u32 = 14;
const ALL: [Choice; 4] = [Choice::Once, Choice::Run, Choice::Always, Choice::Deny];

fn word(choice: Choice) -> &'static str {
    match choice {
        Choice::Once => "once",
        Choice::Run => "run",
        Choice::Always => "always",
        Choice::Deny => "deny",
    }
}

fn wait(ms: u64) -> impl Future<Output = ()> {
    tokio::time::sleep(Duration::from_millis(ms))
}

/// The calls that one form of a state is about: the seal keeps nothing secret.
fn calls_of(state: &str, key: &str) -> Vec<u32> {
    let payload = state.split('.').next().unwrap_or("");
    let payload = URL_SAFE_NO_PAD.decode(payload).unwrap_or_default();
    let state: Value = serde_json::from_slice(&payload).unwrap_or_default();
    let calls = state["forms"][key]["calls"].as_array().cloned().unwrap_or_default();
    calls.iter().filter_map(|call| u32::try_from(call["seq"].as_u64()?).ok()).collect()
}

pub(super) async fn live(world: &mut World, kind: Client, program: String) {
    let arguments = json!({ "code": program });
    let caller = Caller {
        principal: "hub".to_owned(),
        request: Digest::of(arguments.to_string().as_bytes()),
    };
    let mut at = 0;
    let mut request = Request::Code(code(&program));
    for _ in 0..ROUNDS_MAX {
        let hub = world.served[at].0.clone();
        let reply = hub.answer(request, &caller, kind != Client::Bare, never()).await;
        let reply = reply.expect("what an honest client sends is taken");
        if world.draw.percent(40) {
            world.try_something().await;
        }
        request = match reply {
            Reply::Prompt(prompt) => {
                let run = run_of(&prompt);
                world.leaked.runs.push(run.to_string());
                let keys = prompt.forms.keys().cloned().collect();
                world.leaked.states.push((prompt.state.clone(), keys));
                world.prompted(&run, prompt, kind, &caller, &mut at).await
            }
            Reply::Envelope(envelope) => {
                let run = envelope.run_id.clone();
                world.leaked.runs.push(run.to_string());
                match envelope.status {
                    EnvelopeStatus::AwaitingApproval => {
                        world.waits(&run, at).await;
                        // Any process of the hub may go on with it.
                        if world.draw.percent(30) {
                            at = 1 - at;
                        }
                    }
                    EnvelopeStatus::Running => wait(1_000).await,
                    EnvelopeStatus::Completed
                    | EnvelopeStatus::Failed
                    | EnvelopeStatus::AwaitingConnection
                    | EnvelopeStatus::Cancelled => return,
                }
                Request::Resume(run)
            }
        };
    }
}

fn run_of(prompt: &Prompt) -> RunId {
    let payload = prompt.state.split('.').next().unwrap_or("");
    let payload = URL_SAFE_NO_PAD.decode(payload).expect("base64");
    let state: Value = serde_json::from_slice(&payload).expect("JSON");
    state["run"].as_str().and_then(|run| run.parse().ok()).expect("a run")
}

impl World {
    /// The person gives an answer to what a form shows.
    fn answers(&self, run: &RunId, seqs: &[u32], choice: Choice) {
        let wall = Some(self.clock.wall());
        for &seq in seqs {
            self.history.see(Seen::Answered { run: run.clone(), seq, choice, wall });
        }
    }

    /// A client has a question in its hands; what it asks the hub next.
    async fn prompted(
        &mut self,
        run: &RunId,
        prompt: Prompt,
        kind: Client,
        caller: &Caller,
        at: &mut usize,
    ) -> Request {
        let state = Some(prompt.state.clone());
        let all = |given: Value| -> BTreeMap<String, Value> {
            prompt.forms.keys().map(|key| (key.clone(), given.clone())).collect()
        };
        let accept = json!({ "action": "accept", "content": { "decision": "always" } });
        match kind {
            Client::Accepts | Client::Bare => {
                wait(self.draw.below(900)).await;
                return Request::Answer(ClientResponse { state, responses: all(accept) });
            }
            Client::Declines => {
                wait(self.draw.below(900)).await;
                let responses = all(json!({ "action": "decline" }));
                return Request::Answer(ClientResponse { state, responses });
            }
            Client::Insists => {
                let response = ClientResponse { state, responses: all(accept) };
                // Later, elsewhere, and there again.
                for process in [0, 1, 0, 1] {
                    let hub = self.served[process].0.clone();
                    let request = Request::Answer(response.clone());
                    let _ = hub.answer(request, caller, true, never()).await;
                    wait(1_500).await;
                }
                return Request::Resume(run.clone());
            }
            Client::Honest => {}
        }
        // Prompt, slow, late, or not at all; and now and then somebody changes the rules meanwhile.
        match self.draw.below(10) {
            0 => wait(OPEN_MS + 5_000).await,
            1 => wait(OPEN_MS / 2).await,
            2 => {
                wait(5_000).await;
                return Request::Resume(run.clone());
            }
            3 => self.forbid().await,
            4 => {
                // Somebody at a terminal is faster.
                self.decides_at_terminal(run).await;
            }
            _ => {}
        }
        wait(1_100 + self.draw.below(9_000)).await;
        let mut responses = BTreeMap::new();
        for (key, form) in &prompt.forms {
            let choice = *self.draw.pick(&form.choices);
            let given = match self.draw.below(12) {
                0 => json!({ "action": "cancel" }),
                1 if choice == Choice::Deny => json!({ "action": "decline" }),
                _ => json!({ "action": "accept", "content": { "decision": word(choice) } }),
            };
            if given["action"] != "cancel" {
                self.answers(run, &calls_of(&prompt.state, key), choice);
            }
            responses.insert(key.clone(), given);
        }
        // An older state of the same client, for what it asked before.
        let state = if self.draw.percent(10) {
            self.leaked.states.first().map(|(state, _)| state.clone())
        } else {
            state
        };
        let response = ClientResponse { state, responses };
        if self.draw.percent(30) {
            // Sent twice at once, to two processes.
            let (one, other) = (self.served[0].0.clone(), self.served[1].0.clone());
            let (first, second) = tokio::join!(
                one.answer(Request::Answer(response.clone()), caller, true, never()),
                other.answer(Request::Answer(response.clone()), caller, true, never()),
            );
            assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
            return Request::Resume(run.clone());
        }
        if self.draw.percent(20) {
            *at = 1 - *at;
        }
        Request::Answer(response)
    }

    /// A run waits on the page and for whoever comes to a terminal.
    async fn waits(&mut self, run: &RunId, at: usize) {
        wait(1_000).await;
        match self.draw.below(9) {
            0 => wait(OPEN_MS + 5_000).await,
            1 => self.forbid().await,
            2 => self.decides_at_terminal(run).await,
            3 => {
                // Both at once.
                self.decides_on_page(run, at, 0).await;
                self.decides_at_terminal(run).await;
            }
            4 => self.decides_on_page(run, at, OPEN_MS + 1_000).await,
            _ => self.decides_on_page(run, at, 0).await,
        }
        wait(1_000).await;
    }

    async fn decides_at_terminal(&mut self, run: &RunId) {
        let choices = (0..3).map(|_| *self.draw.pick(&ALL)).collect();
        let terminal = self.at_terminal(choices);
        let _ = terminal.put_to_person(run).await;
    }

    /// The person forbids a tool while nothing of it is on its way.
    async fn forbid(&mut self) {
        let terminal = self.at_terminal(Vec::new());
        let store = terminal.ports().store();
        let SourcePolicy::Usable(mut policy) = store.policy(&self.source).await else { return };
        let tool = self.draw.pick(&["put", "post"]).to_string();
        let scope = Scope { tool: tool.parse().ok(), connection: Default::default() };
        policy.rules.push(Rule { scope, effect: Effect::Deny, contract: None });
        self.history.see(Seen::Forbidden { tool });
        store.write_policy(&self.source, &policy).await.expect("memory does not fail");
    }

    /// The person opens the page, if one was opened for them, reads it and decides.
    async fn decides_on_page(&mut self, run: &RunId, at: usize, ponders_ms: u64) {
        let channels = self.served[at].1.clone();
        let Some(address) = channels.opened().last().cloned() else { return };
        let target = address.split(super::channels::HOST).nth(1).expect("a path").to_owned();
        let base = target.split("open?").next().expect("a path").to_owned();
        // Somebody who opens the address again closes the page for everyone.
        if !self.leaked.addresses.contains(&address) || self.draw.percent(3) {
            let let_in = channels.ask(&page_request(Method::Get, &target));
            let cookie = let_in.headers.iter().find(|(name, _)| *name == "set-cookie");
            if let Some((_, cookie)) = cookie {
                self.cookie = cookie.split(';').next().unwrap_or("").to_owned();
            }
            self.leaked.addresses.push(address);
        }
        let mut look = page_request(Method::Get, &base);
        look.cookies = vec![self.cookie.clone()];
        let drawn = channels.ask(&look).body;
        let too_fast = self.draw.percent(15);
        wait(if too_fast { 300 } else { 900 + ponders_ms }).await;
        for article in drawn.split("<article").skip(1) {
            let Some(form) = article.split("<form method").nth(1) else { continue };
            let field = |name: &str| {
                let after = form.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap_or("");
                after.split('"').next().unwrap_or("").to_owned()
            };
            if field("run") != run.as_str() {
                continue;
            }
            let seqs: Vec<u32> = article
                .split("<h4>Call c")
                .skip(1)
                .filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
                .collect();
            let choice = *self.draw.pick(&ALL);
            if !too_fast {
                self.answers(run, &seqs, choice);
            }
            let mut post = page_request(Method::Post, &format!("{base}decide"));
            post.origin = Some(format!("http://{}", super::channels::HOST));
            post.cookies = vec![self.cookie.clone()];
            let (csrf, shown) = (field("csrf"), field("shown"));
            post.body =
                format!("csrf={csrf}&run={run}&shown={shown}&choice={}", word(choice)).into_bytes();
            channels.ask(&post);
            if self.draw.percent(30) {
                // Pressed twice.
                channels.ask(&post);
            }
        }
        wait(500).await;
    }
}
