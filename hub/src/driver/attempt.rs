//! One attempt: inputs in, effects out, strictly in order, until the engine says it is over.

use super::hub::Hub;
use super::outbound;
use crate::core::engine::{Effect, Engine, Input, StopBy};
use crate::model::call::{Outcome, Seq};
use crate::model::digest::Digest;
use crate::model::envelope::Envelope;
use crate::model::error::{ErrorCode, Failure};
use crate::model::facts::Facts;
use crate::model::journal::{Entry, StoredOutcome};
use crate::model::json::parse_from_guest;
use crate::model::run::{RunRecord, RunStatus};
use crate::model::time::Tick;
use crate::model::turn::{GuestEnd, GuestLimit, LookupKind, Turn, Yielded};
use crate::ports::Ports;
use crate::ports::clock::Clock as _;
use crate::ports::sandbox::{Guest, Sandbox, SandboxError};
use crate::ports::secrets::Secrets as _;
use crate::ports::store::{Store, StoreError};
use futures::future::{AbortHandle, Abortable, BoxFuture};
use futures::stream::{FuturesUnordered, StreamExt as _};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often a run that is driven looks whether somebody in another process wants it cancelled.
const CANCEL_LOOK_EVERY: Duration = Duration::from_millis(250);

/// Ends an attempt early, from outside.
#[derive(Debug, Clone)]
pub struct StopSignal(watch::Receiver<Option<StopBy>>);

impl StopSignal {
    /// A signal and what raises it.
    #[must_use]
    pub fn new() -> (watch::Sender<Option<StopBy>>, StopSignal) {
        let (sender, receiver) = watch::channel(None);
        (sender, StopSignal(receiver))
    }

    /// A signal that is never raised.
    #[must_use]
    pub fn never() -> StopSignal {
        StopSignal::new().1
    }

    async fn raised(&mut self) -> StopBy {
        loop {
            if let Some(by) = *self.0.borrow_and_update() {
                return by;
            }
            if self.0.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// How an attempt ended.
pub(super) struct Ended {
    pub(super) status: RunStatus,
    pub(super) envelope: Envelope,
}

type GuestOf<P> = <<P as Ports>::Sandbox as Sandbox>::Guest;

/// What a pending future of an attempt comes to.
enum Event<G> {
    Input(Input),
    Stepped(G, Result<Yielded, SandboxError>),
    Aborted,
}

struct Attempt<P: Ports> {
    hub: Hub<P>,
    record: RunRecord,
    engine: Engine,
    facts: Arc<Facts>,
    /// Entries the journal has.
    length: u64,
    queue: VecDeque<Input>,
    events: FuturesUnordered<BoxFuture<'static, Event<GuestOf<P>>>>,
    in_flight: BTreeMap<Seq, AbortHandle>,
    guest: Option<GuestOf<P>>,
    wake: Option<Tick>,
    deadline: Tick,
    ended: Option<Ended>,
}

impl<P: Ports> Hub<P> {
    /// Drives one attempt of a run whose lock the caller holds.
    pub(super) async fn attempt(
        &self,
        record: RunRecord,
        stop: StopSignal,
    ) -> Result<Ended, StoreError> {
        let store = self.ports().store();
        let entries = store.journal(&record.id).await?;
        let facts = self.facts().await?;
        // Best effort: what runs on must not be stopped half-way, and what cannot be read is sent nowhere.
        if let Err(error) = self.learn_secrets(&facts).await {
            tracing::warn!(%error, "a credential cannot be read, and so not be taken out of results");
        }
        let snapshot = self.snapshot(record.snapshot).await?;
        let blobs = self.outcomes(&entries).await?;
        let length = entries.len() as u64;
        let engine = Engine::new(record.clone(), snapshot, Arc::clone(&facts), entries, blobs);
        let believed = self.believed_wall().await;
        let begin = Input::Begin { build: self.build().to_owned(), believed };
        let wall_ms = record.limits.wall_ms;
        let attempt = Attempt {
            hub: self.clone(),
            record,
            engine,
            facts,
            length,
            queue: VecDeque::from([begin]),
            events: FuturesUnordered::new(),
            in_flight: BTreeMap::new(),
            guest: None,
            wake: None,
            deadline: self.ports().clock().tick().after(Duration::from_millis(wall_ms)),
            ended: None,
        };
        let (_running, mut ending) = self.enter().await;
        let ended = async {
            if ending.wait_for(|ending| *ending).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        Ok(attempt.drive(stop, ended).await)
    }

    /// The outcomes that a journal keeps as blobs.
    pub(super) async fn outcomes(
        &self,
        entries: &[Entry],
    ) -> Result<BTreeMap<Digest, Outcome>, StoreError> {
        let mut outcomes = BTreeMap::new();
        for entry in entries {
            if let Entry::Settled { outcome: StoredOutcome::Blob(digest), .. } = entry
                && let Some(text) = self.ports().store().blob(*digest).await?
                && let Ok(outcome) = serde_json::from_str(&text)
            {
                outcomes.insert(*digest, outcome);
            }
        }
        Ok(outcomes)
    }
}

impl<P: Ports> Attempt<P> {
    async fn drive(
        mut self,
        mut stop: StopSignal,
        ending: impl Future<Output = ()> + Send,
    ) -> Ended {
        let mut stopped = false;
        let mut deadline_told = false;
        let mut ending = std::pin::pin!(ending);
        let mut look = self.clock().tick().after(CANCEL_LOOK_EVERY);
        loop {
            let input = match self.queue.pop_front() {
                Some(input) => input,
                None => {
                    let wake = self.wake.map_or(look, |wake| wake.min(look));
                    let wake = if deadline_told { wake } else { wake.min(self.deadline) };
                    let hub = self.hub.clone();
                    let event = tokio::select! {
                        biased;
                        by = stop.raised(), if !stopped => {
                            stopped = true;
                            Some(Event::Input(Input::Stop(by)))
                        }
                        () = &mut ending, if !stopped => {
                            stopped = true;
                            Some(Event::Input(Input::Stop(StopBy::Shutdown)))
                        }
                        event = self.events.next(), if !self.events.is_empty() => event,
                        () = hub.ports().clock().sleep_until(wake) => None,
                    };
                    match event {
                        Some(event) => match self.input_of(event) {
                            Some(input) => input,
                            None => continue,
                        },
                        None => {
                            let now = self.clock().tick();
                            if now >= look {
                                look = now.after(CANCEL_LOOK_EVERY);
                                if !stopped && self.store().cancel_requested(&self.record.id).await
                                {
                                    stopped = true;
                                    self.queue.push_back(Input::Stop(StopBy::Person));
                                }
                            }
                            // The deadline counts during a step, too, when nothing else would wake.
                            let late = !deadline_told && now >= self.deadline;
                            deadline_told |= late;
                            if !late && self.wake.is_none_or(|wake| now < wake) {
                                continue;
                            }
                            self.wake = None;
                            Input::Woke
                        }
                    }
                }
            };
            self.refresh_facts(&input).await;
            let mut effects = Vec::new();
            let now = self.clock().now();
            if let Input::Begin { .. } = input {
                let wall = Duration::from_millis(self.record.limits.wall_ms);
                self.deadline = now.tick.after(wall);
            }
            self.engine.handle(now, input, &mut effects);
            self.carry_out(effects).await;
            if let Some(ended) = self.ended.take() {
                return ended;
            }
        }
    }

    fn clock(&self) -> &P::Clock {
        self.hub.ports().clock()
    }

    fn store(&self) -> &P::Store {
        self.hub.ports().store()
    }

    fn input_of(&mut self, event: Event<GuestOf<P>>) -> Option<Input> {
        match event {
            Event::Aborted => None,
            Event::Input(input) => {
                if let Input::Settled { seq, .. } | Input::Dialled { seq, .. } = &input {
                    self.in_flight.remove(seq);
                }
                Some(input)
            }
            Event::Stepped(guest, Ok(yielded)) => {
                self.guest = Some(guest);
                Some(self.scrubbed(yielded))
            }
            Event::Stepped(_, Err(error)) => Some(Input::GuestLost(self.lost(&error))),
        }
    }

    /// A step's output with what must not pass taken out, and its calls searched for secrets.
    fn scrubbed(&self, mut yielded: Yielded) -> Input {
        let secrets = self.hub.ports().secrets();
        for line in &mut yielded.logs {
            *line = secrets.scrub(line);
        }
        match &mut yielded.end {
            // As a value: scrubbing its text could make it no JSON any more.
            Some(GuestEnd::Returned(Some(text))) => {
                if secrets.carries_secret(text)
                    && let Ok(mut value) = parse_from_guest(text)
                {
                    secrets.scrub_value(&mut value);
                    *text = value.to_string();
                }
            }
            Some(GuestEnd::NotJson(text) | GuestEnd::Syntax(text)) => *text = secrets.scrub(text),
            Some(GuestEnd::Threw { message, hint }) => {
                *message = secrets.scrub(message);
                *hint = hint.take().map(|hint| secrets.scrub(&hint));
            }
            Some(GuestEnd::Returned(None) | GuestEnd::Limit(_)) | None => {}
        }
        let secret_in = yielded
            .calls
            .iter()
            .filter(|call| secrets.carries_secret(&call.arguments))
            .map(|call| call.seq)
            .collect();
        Input::Yielded { yielded, secret_in }
    }

    fn lost(&self, error: &SandboxError) -> Failure {
        let limits = &self.record.limits;
        match error {
            SandboxError::Killed(GuestLimit::Compute) => {
                let message = format!(
                    "the code computed for more than {} ms and was killed",
                    limits.compute_ms
                );
                Failure::new(ErrorCode::ComputeLimit, message)
            }
            SandboxError::Killed(GuestLimit::Memory) => {
                let message =
                    format!("the code used more than {} MB of memory", limits.memory_bytes >> 20);
                Failure::new(ErrorCode::MemoryLimit, message)
            }
            SandboxError::Killed(GuestLimit::Requests | GuestLimit::Calls)
            | SandboxError::Crashed(_) => {
                Failure::new(ErrorCode::SandboxCrashed, error.to_string())
            }
            SandboxError::Unavailable(_) => {
                Failure::new(ErrorCode::SandboxUnavailable, error.to_string())
            }
        }
    }

    /// What a person just did in a terminal counts from the next ruling on.
    async fn refresh_facts(&mut self, input: &Input) {
        let rules = match input {
            Input::Yielded { yielded, .. } => !yielded.calls.is_empty(),
            Input::Dialled { .. } => true,
            Input::Begin { .. }
            | Input::Facts(_)
            | Input::GuestLost(_)
            | Input::Settled { .. }
            | Input::Found { .. }
            | Input::Woke
            | Input::Stop(_)
            | Input::AppendFailed(_) => false,
        };
        if !rules {
            return;
        }
        match self.hub.facts().await {
            Ok(facts) if facts.generation != self.facts.generation => {
                self.facts = Arc::clone(&facts);
                let now = self.clock().now();
                self.engine.handle(now, Input::Facts(facts), &mut Vec::new());
            }
            Ok(_) => {}
            // Ruling by what was known could send what a person has denied since. What this input
            // brought is on its way to a journal that no longer matters: the attempt stops here.
            Err(error) => {
                let input = Input::AppendFailed(stopped_by(&error));
                let mut effects = Vec::new();
                self.engine.handle(self.clock().now(), input, &mut effects);
                self.carry_out(effects).await;
            }
        }
    }

    async fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Err(error) = self.carry_out_one(effect).await {
                // What stands behind a failed append must not happen.
                self.queue.push_front(Input::AppendFailed(stopped_by(&error)));
                return;
            }
        }
    }

    async fn carry_out_one(&mut self, effect: Effect) -> Result<(), StoreError> {
        match effect {
            Effect::Append { entries, durable } => {
                self.store().append(&self.record.id, self.length, &entries, durable).await?;
                self.length += entries.len() as u64;
            }
            Effect::PutBlob { digest, text } => self.store().put_blob(digest, &text).await?,
            Effect::Open(program) => match self.hub.ports().sandbox().open(*program).await {
                Ok(guest) => self.guest = Some(guest),
                Err(error) => self.queue.push_back(Input::GuestLost(self.lost(&error))),
            },
            Effect::Step(turn) => self.step(turn),
            Effect::Dial { seq, source, connection, fresh } => {
                let (hub, facts, deadline) =
                    (self.hub.clone(), Arc::clone(&self.facts), self.deadline);
                self.start(seq, async move {
                    let ready = outbound::dial(
                        &hub,
                        &facts,
                        (&source, connection.as_ref()),
                        fresh,
                        deadline,
                    )
                    .await;
                    Event::Input(Input::Dialled { seq, ready })
                });
            }
            Effect::Call(call) => {
                let (hub, facts, deadline) =
                    (self.hub.clone(), Arc::clone(&self.facts), self.deadline);
                let seq = call.seq;
                self.start(seq, async move {
                    let (reply, ms) = outbound::call(&hub, &facts, *call, deadline).await;
                    Event::Input(Input::Settled { seq, reply, ms })
                });
            }
            Effect::Abandon(seq) => {
                if let Some(handle) = self.in_flight.remove(&seq) {
                    handle.abort();
                }
            }
            Effect::Lookup { id, kind, arguments } => {
                let hub = self.hub.clone();
                let future = async move {
                    let arguments =
                        serde_json::from_str(&arguments).unwrap_or(serde_json::Value::Null);
                    let answer = match kind {
                        LookupKind::Search => hub.search(&arguments).await,
                        LookupKind::Describe => hub.describe(&arguments).await,
                    };
                    Event::Input(Input::Found {
                        id,
                        answer: answer.map_err(|failure| failure.message),
                    })
                };
                self.events.push(Box::pin(future));
            }
            Effect::WakeAt(tick) => self.wake = Some(tick),
            Effect::Finish { status, envelope } => {
                // The status beside the record only serves listings; the journal is the truth.
                if let Err(error) = self.store().write_status(&self.record.id, status).await {
                    tracing::warn!(%error, run = %self.record.id, "the run's status could not be written");
                }
                self.guest = None;
                self.ended = Some(Ended { status, envelope: *envelope });
            }
        }
        Ok(())
    }

    fn step(&mut self, turn: Turn) {
        // Without a guest the reason is already on its way.
        let Some(mut guest) = self.guest.take() else { return };
        self.events.push(Box::pin(async move {
            let stepped = guest.step(turn).await;
            Event::Stepped(guest, stepped)
        }));
    }

    fn start(
        &mut self,
        seq: Seq,
        future: impl Future<Output = Event<GuestOf<P>>> + Send + 'static,
    ) {
        let (handle, registration) = AbortHandle::new_pair();
        self.in_flight.insert(seq, handle);
        let future = Abortable::new(future, registration);
        self.events.push(Box::pin(async move { future.await.unwrap_or(Event::Aborted) }));
    }
}

/// Why the run stops when the store fails under it.
fn stopped_by(error: &StoreError) -> Failure {
    let message = format!("the store failed, so the run stopped: {error}");
    match error {
        // Neither space nor permissions are missing: a newer hub took the store over.
        StoreError::Upgraded { .. } => Failure::new(ErrorCode::HubUpgraded, message),
        StoreError::NoHub { .. }
        | StoreError::NoRun(_)
        | StoreError::Busy(_)
        | StoreError::Unlockable { .. }
        | StoreError::Malformed { .. }
        | StoreError::Corrupt { .. }
        | StoreError::Io { .. }
        | StoreError::Moved(_) => Failure::new(ErrorCode::JournalWriteFailed, message),
    }
}
