//! The pool: one connection per source, opened when it is first needed, reopened with backoff.

use super::child::Scrub;
use super::credential::Credential;
use super::http::Server;
use super::keeper::Keeper;
use super::session::{Line, Session, call};
use crate::model::call::UpstreamResult;
use crate::model::connection::Place;
use crate::model::digest::Digest;
use crate::model::ids::SourceId;
use crate::model::names::ConnectionName;
use crate::model::source::{StdioCommand, Transport};
use crate::model::time::{Tick, WallMs};
use crate::ports::clock::Clock;
use crate::ports::secrets::Secrets;
use crate::ports::sources::{CallError, HttpRefusal, Listing, Route, Sources, UpstreamCall};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Wait before a server that failed is started again: doubled each time, up to the longest.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
const BACKOFF_LONGEST: Duration = Duration::from_secs(30);
/// How often a read is sent when its server asks for patience each time.
const READ_TRIES_MAX: u32 = 4;

/// The longest that a server is left alone because it asked for it; a year would be a mistake of its own.
const PATIENCE_LONGEST: Duration = Duration::from_secs(60 * 60);

/// How long a server that asks for so many milliseconds is left alone.
fn left_alone(ms: u64) -> Duration {
    Duration::from_millis(ms).min(PATIENCE_LONGEST)
}

/// MCP servers, local and over HTTP.
pub struct McpSources<S, C> {
    secrets: Arc<S>,
    clock: C,
    keeper: Keeper,
    slots: Mutex<BTreeMap<(SourceId, Option<ConnectionName>), Arc<Slot>>>,
    listings: AtomicU64,
}

/// One source's place in the pool, over one of its connections.
#[derive(Default)]
struct Slot {
    /// Held while the source is started or listed.
    state: tokio::sync::Mutex<State>,
    /// What calls need; never held while anything is waited for.
    ready: Mutex<Option<Ready>>,
    /// Nothing is sent before this, as its server asked, in these words.
    patience: Mutex<Option<(Tick, HttpRefusal)>>,
}

#[derive(Default)]
struct State {
    session: Option<Session>,
    failures: u32,
    /// Not started again before this.
    not_before: Tick,
    last_failure: Option<CallError>,
    /// What was tried last.
    tried: Option<Digest>,
    /// Did the older way of HTTP work the last time? Then it is tried first.
    older: bool,
}

/// A connection that calls may use, and the listing by which they are allowed.
#[derive(Clone)]
struct Ready {
    line: Line,
    transport: Digest,
    listing: Arc<Listing>,
}

impl Ready {
    /// Is the tool what it was when the call was allowed?
    fn still_allows(&self, outgoing: &UpstreamCall) -> bool {
        if self.listing.number == outgoing.listing {
            return true;
        }
        let tools = &self.listing.tools;
        let tool = tools.iter().find(|tool| tool.raw_name().as_ref() == Some(&outgoing.raw));
        tool.is_some_and(|tool| tool.digest() == outgoing.contract)
    }
}

impl Slot {
    fn ready(&self) -> MutexGuard<'_, Option<Ready>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn patience(&self) -> MutexGuard<'_, Option<(Tick, HttpRefusal)>> {
        self.patience.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Secrets, C: Clock + Clone> McpSources<S, C> {
    /// Sources whose children get their environment from `secrets`. `program` run with
    /// [`KEEPER_ARGUMENT`](super::KEEPER_ARGUMENT) ends what they leave behind.
    #[must_use]
    pub fn new(secrets: Arc<S>, clock: C, program: PathBuf) -> McpSources<S, C> {
        McpSources {
            secrets,
            clock,
            keeper: Keeper::new(program),
            slots: Mutex::default(),
            listings: AtomicU64::new(0),
        }
    }

    fn slot(&self, route: &Route) -> Arc<Slot> {
        let connection = route.connection.as_ref().map(|used| used.name.clone());
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry((route.record.id.clone(), connection)).or_default())
    }

    fn left(&self, deadline: Tick) -> Duration {
        deadline.since(self.clock.tick())
    }

    /// Waits until nobody else starts or lists the source, but not past `deadline`.
    async fn turn<'s>(
        &self,
        slot: &'s Slot,
        deadline: Tick,
    ) -> Result<tokio::sync::MutexGuard<'s, State>, CallError> {
        tokio::select! {
            biased;
            state = slot.state.lock() => Ok(state),
            () = self.clock.sleep_until(deadline) => {
                Err(CallError::NotSent("the server is still being started".to_owned()))
            }
        }
    }

    async fn open(
        &self,
        route: &Route,
        state: &mut State,
        deadline: Tick,
    ) -> Result<(), CallError> {
        let now = self.clock.tick();
        if now < state.not_before {
            let seconds = state.not_before.since(now).as_secs() + 1;
            return Err(match &state.last_failure {
                Some(CallError::NotSent(why)) => {
                    CallError::NotSent(format!("{why} (tried again in {seconds} s)"))
                }
                Some(other) => other.clone(),
                None => CallError::NotSent(format!("it is tried again in {seconds} s")),
            });
        }
        let within = self.left(deadline);
        let digest = route.digest();
        let connection = route.connection.as_ref();
        let credential = Credential::of(&self.secrets, &route.record, connection);
        let secrets = Arc::clone(&self.secrets);
        let scrub: Scrub = Arc::new(move |text| secrets.scrub(text));
        let opened = match &route.record.transport {
            Transport::Stdio(command) => {
                let environment = self.environment(command, &credential).await?;
                Session::open(command, &environment, digest, within, &scrub, &self.keeper)
                    .await
                    .map_err(CallError::NotSent)
            }
            Transport::Http(endpoint) => {
                let clock = self.clock.clone();
                let now = Arc::new(move || clock.wall());
                let server = Server::new(endpoint, credential, scrub);
                let opened = Session::open_http(server, digest, within, state.older, now).await;
                opened.map(|(session, older)| {
                    state.older = older;
                    session
                })
            }
        };
        match opened {
            Ok(session) => {
                state.session = Some(session);
                state.failures = 0;
                Ok(())
            }
            Err(error) => {
                // What worked once may have been replaced by something newer.
                state.older = false;
                Err(self.failed(state, error))
            }
        }
    }

    /// What a process is started with: its settings, and the secrets of its connection.
    async fn environment(
        &self,
        command: &StdioCommand,
        credential: &Credential,
    ) -> Result<Vec<(String, String)>, CallError> {
        let released = credential.release().await.map_err(CallError::Credential)?;
        let variables: Vec<(String, String)> = released
            .into_iter()
            .filter_map(|(place, value)| match place {
                Place::Env(name) => Some((name, value.expose().to_owned())),
                Place::Bearer | Place::Basic | Place::Header(_) | Place::Query(_) => None,
            })
            .collect();
        let given = variables.iter().map(|(name, _)| name.clone()).collect();
        let environment = self.secrets.environment(command, &given);
        let mut environment = environment.map_err(|error| CallError::NotSent(error.to_string()))?;
        environment.retain(|(name, _)| !given.contains(name));
        environment.extend(variables);
        Ok(environment)
    }

    fn failed(&self, state: &mut State, error: CallError) -> CallError {
        let doubled = BACKOFF_FIRST.saturating_mul(1 << state.failures.min(16));
        let asked = match &error {
            CallError::Status(refusal) => refusal.retry_after_ms.map(left_alone),
            // It is no fault of the server's: once the person has helped, it is tried at once.
            CallError::Credential(_) => return error,
            CallError::NotSent(_)
            | CallError::Refused { .. }
            | CallError::TooLarge { .. }
            | CallError::TooDeep
            | CallError::Lost(_) => None,
        };
        state.failures = state.failures.saturating_add(1);
        let wait = doubled.min(BACKOFF_LONGEST).max(asked.unwrap_or_default());
        state.not_before = self.clock.tick().after(wait);
        state.last_failure = Some(error.clone());
        error
    }

    async fn dial_slot(
        &self,
        route: &Route,
        slot: &Slot,
        state: &mut State,
        listed_after: Option<WallMs>,
        deadline: Tick,
    ) -> Result<Arc<Listing>, CallError> {
        let digest = route.digest();
        // What failed with another credential or command says nothing about this one.
        if state.tried.replace(digest) != Some(digest) {
            (state.failures, state.not_before, state.last_failure) = (0, Tick::default(), None);
        }
        let usable = state.session.as_ref().is_some_and(|s| s.is_open() && s.transport == digest);
        if !usable {
            *slot.ready() = None;
            if let Some(old) = state.session.take() {
                old.close().await;
            }
            self.open(route, state, deadline).await?;
        }
        let within = self.left(deadline);
        let Some(session) = state.session.as_mut() else {
            return Err(CallError::NotSent("the connection is closed".to_owned()));
        };
        if let Some(listing) = &session.listing
            && !session.has_changed()
            && listed_after.is_none_or(|after| listing.listed >= after)
        {
            return Ok(Arc::clone(listing));
        }
        let announced = session.announced();
        match session.list(within).await {
            Ok(pages) => {
                let (server, protocol) = session.identity();
                let listing = Arc::new(Listing {
                    number: self.listings.fetch_add(1, Ordering::Relaxed) + 1,
                    listed: self.clock.wall(),
                    server,
                    protocol,
                    tools: pages.tools,
                    notices: pages.notices,
                });
                session.keep(Arc::clone(&listing), announced);
                let ready = Ready {
                    line: session.line(),
                    transport: digest,
                    listing: Arc::clone(&listing),
                };
                *slot.ready() = Some(ready);
                Ok(listing)
            }
            // A server that lives may be in the middle of somebody else's write: it is left alone.
            Err(error) if session.is_open() => Err(error),
            Err(error) => {
                let words = session.obituary().await;
                let error = if let CallError::NotSent(why) = &error
                    && !words.is_empty()
                {
                    CallError::NotSent(format!("{why}; {words}"))
                } else {
                    error
                };
                *slot.ready() = None;
                state.session = None;
                Err(self.failed(state, error))
            }
        }
    }
}

impl<S: Secrets, C: Clock + Clone> McpSources<S, C> {
    async fn call_once(
        &self,
        slot: &Slot,
        ready: &Ready,
        outgoing: &UpstreamCall,
    ) -> Result<UpstreamResult, CallError> {
        match call(&ready.line, outgoing, self.left(outgoing.deadline)).await {
            Err(CallError::Lost(why)) if ready.line.is_closed() => {
                // Its last words help, but nobody waits for a source that is being started anew.
                let words = match slot.state.try_lock() {
                    Ok(mut state) => match state.session.as_mut().filter(|s| !s.is_open()) {
                        Some(session) => session.obituary().await,
                        None => String::new(),
                    },
                    Err(_) => String::new(),
                };
                let why = if words.is_empty() { why } else { format!("{why}; {words}") };
                Err(CallError::Lost(why))
            }
            other => other,
        }
    }

    /// Waits as long as the server asked for, if that is before `deadline`.
    async fn be_patient(&self, slot: &Slot, deadline: Tick) -> Result<(), CallError> {
        let asked = slot.patience().clone();
        let Some((until, refusal)) = asked else { return Ok(()) };
        let now = self.clock.tick();
        if until > now && until > deadline {
            let left = u64::try_from(until.since(now).as_millis()).unwrap_or(u64::MAX);
            let refusal = HttpRefusal { retry_after_ms: Some(left), ..refusal };
            return Err(CallError::Status(Box::new(refusal)));
        }
        self.clock.sleep_until(until).await;
        let mut patience = slot.patience();
        if patience.as_ref().is_some_and(|(asked, _)| *asked <= until) {
            *patience = None;
        }
        Ok(())
    }

    /// Remembers for how long a server wants to be left alone.
    fn note_patience(&self, slot: &Slot, refusal: &HttpRefusal) {
        let asks = matches!(refusal.status, 429 | 503);
        if let Some(ms) = refusal.retry_after_ms.filter(|_| asks) {
            let until = self.clock.tick().after(left_alone(ms));
            *slot.patience() = Some((until, refusal.clone()));
        }
    }

    /// Opens a new connection in place of one whose session is gone.
    async fn reopen(
        &self,
        route: &Route,
        slot: &Slot,
        outgoing: &UpstreamCall,
    ) -> Result<(), CallError> {
        let mut state = self.turn(slot, outgoing.deadline).await?;
        self.dial_slot(route, slot, &mut state, None, outgoing.deadline).await.map(|_| ())
    }
}

impl<S: Secrets, C: Clock + Clone> Sources for McpSources<S, C> {
    async fn dial(
        &self,
        route: &Route,
        listed_after: Option<WallMs>,
        deadline: Tick,
    ) -> Result<Arc<Listing>, CallError> {
        let slot = self.slot(route);
        let mut state = self.turn(&slot, deadline).await?;
        self.dial_slot(route, &slot, &mut state, listed_after, deadline).await
    }

    async fn call(
        &self,
        route: &Route,
        outgoing: &UpstreamCall,
    ) -> Result<UpstreamResult, CallError> {
        let slot = self.slot(route);
        let transport = route.digest();
        let mut reopened = false;
        for _ in 0..READ_TRIES_MAX {
            self.be_patient(&slot, outgoing.deadline).await?;
            // Looked at after every wait: the list may have changed meanwhile, and with it the ruling.
            let ready = slot
                .ready()
                .clone()
                .filter(|ready| ready.transport == transport && ready.still_allows(outgoing));
            let Some(ready) = ready else {
                let why =
                    "the server was started or its tools changed just before the call; call again";
                return Err(CallError::NotSent(why.to_owned()));
            };
            let done = self.call_once(&slot, &ready, outgoing).await;
            let Err(error) = &done else { return done };
            if let CallError::Status(refusal) = error {
                self.note_patience(&slot, refusal);
            }
            // A write is sent once, whatever its server says about it.
            if !outgoing.repeatable {
                return done;
            }
            if ready.line.is_lost() {
                if std::mem::replace(&mut reopened, true) {
                    return done;
                }
                if self.reopen(route, &slot, outgoing).await.is_err() {
                    return done;
                }
            } else if slot.patience().is_none() {
                return done;
            }
        }
        self.be_patient(&slot, self.clock.tick()).await?;
        Err(CallError::NotSent("the server asked for patience too often".to_owned()))
    }

    async fn close(&self, source: &SourceId) {
        let slots: Vec<Arc<Slot>> = {
            let mut all = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            let (closed, kept) =
                std::mem::take(&mut *all).into_iter().partition(|((id, _), _)| id == source);
            *all = kept;
            let closed: BTreeMap<_, _> = closed;
            closed.into_values().collect()
        };
        for slot in slots {
            *slot.ready() = None;
            if let Some(session) = slot.state.lock().await.session.take() {
                session.close().await;
            }
        }
    }

    async fn close_all(&self) {
        let sources: Vec<SourceId> = {
            let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.keys().map(|(source, _)| source.clone()).collect()
        };
        let closing = sources.iter().map(|source| self.close(source));
        futures::future::join_all(closing).await;
    }
}
