//! The pool: one connection per source, opened when it is first needed, reopened with backoff.

use super::child::Scrub;
use super::session::{Session, call};
use crate::model::call::UpstreamResult;
use crate::model::digest::Digest;
use crate::model::ids::SourceId;
use crate::model::source::{SourceRecord, Transport};
use crate::model::time::{Tick, WallMs};
use crate::ports::clock::Clock;
use crate::ports::secrets::Secrets;
use crate::ports::sources::{CallError, Listing, Sources, UpstreamCall};
use rmcp::service::{Peer, RoleClient};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Wait before a server that failed is started again: doubled each time, up to the longest.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
const BACKOFF_LONGEST: Duration = Duration::from_secs(30);

/// Local MCP servers.
pub struct StdioSources<S, C> {
    secrets: Arc<S>,
    clock: C,
    slots: Mutex<BTreeMap<SourceId, Arc<Slot>>>,
    listings: AtomicU64,
}

/// One source's place in the pool.
#[derive(Default)]
struct Slot {
    /// Held while the source is started or listed.
    state: tokio::sync::Mutex<State>,
    /// What calls need; never held while anything is waited for.
    ready: Mutex<Option<Ready>>,
}

#[derive(Default)]
struct State {
    session: Option<Session>,
    failures: u32,
    /// Not started again before this.
    not_before: Tick,
    last_failure: String,
}

/// A connection that calls may use, and the listing by which they are allowed.
#[derive(Clone)]
struct Ready {
    peer: Peer<RoleClient>,
    transport: Digest,
    listing: u64,
}

impl Slot {
    fn ready(&self) -> MutexGuard<'_, Option<Ready>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Secrets, C: Clock> StdioSources<S, C> {
    /// Sources whose children get their environment from `secrets`.
    #[must_use]
    pub fn new(secrets: Arc<S>, clock: C) -> StdioSources<S, C> {
        StdioSources { secrets, clock, slots: Mutex::default(), listings: AtomicU64::new(0) }
    }

    fn slot(&self, source: &SourceId) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(source.clone()).or_default())
    }

    fn left(&self, deadline: Tick) -> Duration {
        deadline.since(self.clock.tick())
    }

    async fn open(
        &self,
        source: &SourceRecord,
        state: &mut State,
        deadline: Tick,
    ) -> Result<(), CallError> {
        let now = self.clock.tick();
        if now < state.not_before {
            let seconds = state.not_before.since(now).as_secs() + 1;
            let why = format!("{} (tried again in {seconds} s)", state.last_failure);
            return Err(CallError::NotSent(why));
        }
        let Transport::Stdio(command) = &source.transport;
        let environment = self
            .secrets
            .environment(command)
            .map_err(|error| CallError::NotSent(error.to_string()))?;
        let secrets = Arc::clone(&self.secrets);
        let scrub: Scrub = Arc::new(move |text| secrets.scrub(text));
        let within = self.left(deadline);
        let digest = source.transport.digest();
        match Session::open(command, &environment, digest, within, &scrub).await {
            Ok(session) => {
                state.session = Some(session);
                state.failures = 0;
                Ok(())
            }
            Err(why) => Err(self.failed(state, why)),
        }
    }

    fn failed(&self, state: &mut State, why: String) -> CallError {
        let doubled = BACKOFF_FIRST.saturating_mul(1 << state.failures.min(16));
        state.failures = state.failures.saturating_add(1);
        state.not_before = self.clock.tick().after(doubled.min(BACKOFF_LONGEST));
        state.last_failure.clone_from(&why);
        CallError::NotSent(why)
    }

    async fn dial_slot(
        &self,
        source: &SourceRecord,
        slot: &Slot,
        state: &mut State,
        listed_after: Option<WallMs>,
        deadline: Tick,
    ) -> Result<Arc<Listing>, CallError> {
        let digest = source.transport.digest();
        let usable = state.session.as_ref().is_some_and(|s| s.is_open() && s.transport == digest);
        if !usable {
            *slot.ready() = None;
            if let Some(old) = state.session.take() {
                old.close().await;
            }
            self.open(source, state, deadline).await?;
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
                let ready =
                    Ready { peer: session.peer(), transport: digest, listing: listing.number };
                *slot.ready() = Some(ready);
                Ok(listing)
            }
            // A server that lives may be in the middle of somebody else's write: it is left alone.
            Err(why) if session.is_open() => Err(CallError::NotSent(why)),
            Err(why) => {
                let why = format!("{why}; {}", session.obituary().await);
                *slot.ready() = None;
                state.session = None;
                Err(self.failed(state, why))
            }
        }
    }
}

impl<S: Secrets, C: Clock> Sources for StdioSources<S, C> {
    async fn dial(
        &self,
        source: &SourceRecord,
        listed_after: Option<WallMs>,
        deadline: Tick,
    ) -> Result<Arc<Listing>, CallError> {
        let slot = self.slot(&source.id);
        let mut state = tokio::select! {
            biased;
            state = slot.state.lock() => state,
            () = self.clock.sleep_until(deadline) => {
                return Err(CallError::NotSent("the server is still being started".to_owned()));
            }
        };
        self.dial_slot(source, &slot, &mut state, listed_after, deadline).await
    }

    async fn call(
        &self,
        source: &SourceRecord,
        outgoing: &UpstreamCall,
    ) -> Result<UpstreamResult, CallError> {
        let slot = self.slot(&source.id);
        let ready = slot.ready().clone().filter(|ready| {
            ready.transport == source.transport.digest() && ready.listing == outgoing.listing
        });
        let Some(Ready { peer, .. }) = ready else {
            let why = "the server was started or listed anew just before the call; call again";
            return Err(CallError::NotSent(why.to_owned()));
        };
        let within = self.left(outgoing.deadline);
        match call(&peer, outgoing, within).await {
            Err(CallError::Lost(why)) if peer.is_transport_closed() => {
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

    async fn close(&self, source: &SourceId) {
        let slot = self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(source);
        if let Some(slot) = slot {
            *slot.ready() = None;
            if let Some(session) = slot.state.lock().await.session.take() {
                session.close().await;
            }
        }
    }

    async fn close_all(&self) {
        let sources: Vec<SourceId> = {
            let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.keys().cloned().collect()
        };
        let closing = sources.iter().map(|source| self.close(source));
        futures::future::join_all(closing).await;
    }
}
