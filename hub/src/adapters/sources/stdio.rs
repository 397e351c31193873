//! The pool: one connection per source, opened when it is first needed, reopened with backoff.

use super::session::{Session, call};
use crate::model::call::UpstreamResult;
use crate::model::ids::SourceId;
use crate::model::source::{SourceRecord, Transport};
use crate::model::time::{Tick, WallMs};
use crate::ports::clock::Clock;
use crate::ports::secrets::Secrets;
use crate::ports::sources::{CallError, Listing, Sources, UpstreamCall};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Wait before a server that failed is started again: doubled each time, up to the longest.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
const BACKOFF_LONGEST: Duration = Duration::from_secs(30);

/// Local MCP servers.
pub struct StdioSources<S, C> {
    secrets: Arc<S>,
    clock: C,
    slots: Mutex<BTreeMap<SourceId, Arc<tokio::sync::Mutex<Slot>>>>,
    listings: AtomicU64,
}

#[derive(Default)]
struct Slot {
    session: Option<Session>,
    failures: u32,
    /// Not started again before this.
    not_before: Tick,
    last_failure: String,
}

impl<S: Secrets, C: Clock> StdioSources<S, C> {
    /// Sources whose children get their environment from `secrets`.
    #[must_use]
    pub fn new(secrets: Arc<S>, clock: C) -> StdioSources<S, C> {
        StdioSources { secrets, clock, slots: Mutex::default(), listings: AtomicU64::new(0) }
    }

    fn slot(&self, source: &SourceId) -> Arc<tokio::sync::Mutex<Slot>> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(source.clone()).or_default())
    }

    fn left(&self, deadline: Tick) -> Duration {
        deadline.since(self.clock.tick())
    }

    async fn open(
        &self,
        source: &SourceRecord,
        slot: &mut Slot,
        deadline: Tick,
    ) -> Result<(), CallError> {
        let now = self.clock.tick();
        if now < slot.not_before {
            let seconds = slot.not_before.since(now).as_secs() + 1;
            let why = format!("{} (tried again in {seconds} s)", slot.last_failure);
            return Err(CallError::NotSent(why));
        }
        let Transport::Stdio(command) = &source.transport;
        let environment = self
            .secrets
            .environment(command)
            .map_err(|error| CallError::NotSent(error.to_string()))?;
        match Session::open(command, &environment, source.transport.digest(), self.left(deadline))
            .await
        {
            Ok(session) => {
                slot.session = Some(session);
                slot.failures = 0;
                Ok(())
            }
            Err(why) => Err(self.failed(slot, why)),
        }
    }

    fn failed(&self, slot: &mut Slot, why: String) -> CallError {
        let wait = BACKOFF_FIRST.saturating_mul(1 << slot.failures.min(16)).min(BACKOFF_LONGEST);
        slot.failures = slot.failures.saturating_add(1);
        slot.not_before = self.clock.tick().after(wait);
        slot.last_failure.clone_from(&why);
        CallError::NotSent(why)
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
        let mut slot = slot.lock().await;
        let usable = slot.session.as_ref().is_some_and(|session| {
            session.is_open() && session.transport == source.transport.digest()
        });
        if !usable {
            if let Some(old) = slot.session.take() {
                old.close().await;
            }
            self.open(source, &mut slot, deadline).await?;
        }
        let within = self.left(deadline);
        let Some(session) = slot.session.as_mut() else {
            return Err(CallError::NotSent("the connection is closed".to_owned()));
        };
        if let Some(listing) = &session.listing
            && !session.has_changed()
            && listed_after.is_none_or(|after| listing.listed >= after)
        {
            return Ok(Arc::clone(listing));
        }
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
                session.listing = Some(Arc::clone(&listing));
                Ok(listing)
            }
            Err(why) => {
                let why = if session.is_open() {
                    why
                } else {
                    format!("{why}; {}", session.obituary().await)
                };
                slot.session = None;
                Err(self.failed(&mut slot, why))
            }
        }
    }

    async fn call(
        &self,
        source: &SourceRecord,
        outgoing: &UpstreamCall,
    ) -> Result<UpstreamResult, CallError> {
        let slot = self.slot(&source.id);
        let peer = {
            let slot = slot.lock().await;
            let session = slot
                .session
                .as_ref()
                .filter(|session| session.transport == source.transport.digest());
            session
                .map(Session::peer)
                .ok_or_else(|| CallError::NotSent("the source is not connected".to_owned()))?
        };
        let within = self.left(outgoing.deadline);
        match call(&peer, outgoing, within).await {
            Err(CallError::Lost(why)) if peer.is_transport_closed() => {
                let mut slot = slot.lock().await;
                let words = match slot.session.as_mut() {
                    Some(session) if !session.is_open() => session.obituary().await,
                    Some(_) | None => String::new(),
                };
                Err(CallError::Lost(if words.is_empty() { why } else { format!("{why}; {words}") }))
            }
            other => other,
        }
    }

    async fn close(&self, source: &SourceId) {
        let slot = self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(source);
        if let Some(slot) = slot
            && let Some(session) = slot.lock().await.session.take()
        {
            session.close().await;
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
