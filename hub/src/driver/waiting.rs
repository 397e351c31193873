//! Runs that wait: put before the person, watched, and driven on once nothing of them waits.
#![expect(clippy::disallowed_methods, reason = "a run that waits is watched by a task of its own")]

use super::attempt::{Ended, StopSignal};
use super::hub::{Hub, LOCK_WAIT};
use super::runs::{LOOK_EVERY, LockOf};
use crate::core::approvals::Docket;
use crate::core::engine::{Asked, pending_envelope};
use crate::core::runs::{status, summary};
use crate::model::envelope::Envelope;
use crate::model::ids::RunId;
use crate::model::journal::{Entry, Question};
use crate::model::run::{RunRecord, RunStatus};
use crate::model::time::WallMs;
use crate::ports::Ports;
use crate::ports::clock::Clock as _;
use crate::ports::person::{Person as _, Reached, Waiting};
use crate::ports::store::{LockName, Store as _, StoreError};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long late answers about a run that is over are listened for.
const LATE_FOR: Duration = Duration::from_secs(10 * 60);

/// How the person of a caller is reached when its run waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The caller asks them itself, with [`Hub::put_to_person`].
    Caller,
    /// The hub does, on the page that it opens.
    Page,
    /// Their client does, in answer to its next request.
    Client,
}

/// The waiting runs that this process watches, and how each reaches its person.
#[derive(Debug, Default)]
pub(super) struct Watched(Mutex<BTreeMap<RunId, Reach>>);

impl Watched {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<RunId, Reach>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reaches the person of a watched run this way from here on; is it watched?
    fn set(&self, run: &RunId, reach: Reach) -> bool {
        self.lock().get_mut(run).map(|known| *known = reach).is_some()
    }

    fn reach(&self, run: &RunId) -> Reach {
        self.lock().get(run).copied().unwrap_or(Reach::Caller)
    }
}

impl<P: Ports> Hub<P> {
    /// A run as a person is shown it at this moment.
    pub(super) async fn waiting(&self, record: RunRecord) -> Result<Waiting, StoreError> {
        let entries = self.ports().store().journal(&record.id).await?;
        let questions: Vec<Question> = if status(&entries).is_final() {
            Vec::new()
        } else {
            Docket::of(&entries).undecided().cloned().collect()
        };
        self.shown(record, &entries, questions).await
    }

    async fn shown(
        &self,
        record: RunRecord,
        entries: &[Entry],
        questions: Vec<Question>,
    ) -> Result<Waiting, StoreError> {
        let snapshot = self.snapshot(record.snapshot).await?;
        let blobs = self.outcomes(entries).await?;
        let calls = summary(entries, &snapshot, &blobs).calls;
        Ok(Waiting { record, questions, calls })
    }

    /// Answers for a run that waits: its person is asked in the way the caller has, unless a living
    /// process asked them already.
    pub(super) async fn still_waiting(
        &self,
        record: RunRecord,
        reach: Reach,
    ) -> Result<Envelope, StoreError> {
        let waiting = self.waiting(record).await?;
        let asked = if reach == Reach::Caller {
            Asked::Unknown
        } else if self.watched().set(&waiting.record.id, reach) {
            self.ask(&waiting, reach).await
        } else {
            let owner = LockName::Owner(waiting.record.id.clone());
            match self.ports().store().lock(owner, Duration::ZERO).await {
                Ok(owner) => {
                    let asked = self.ask(&waiting, reach).await;
                    self.clone().watch(waiting.record.clone(), owner, reach);
                    asked
                }
                Err(StoreError::Busy(_)) => Asked::Elsewhere,
                Err(error) => return Err(error),
            }
        };
        Ok(pending_envelope(&waiting.record, &waiting.questions, waiting.calls, asked))
    }

    /// Puts a run that has just begun to wait before its person, and watches it from here on.
    pub(super) async fn begin_to_wait(
        self,
        record: RunRecord,
        owner: LockOf<P>,
        reach: Reach,
        envelope: Envelope,
    ) -> Envelope {
        let shown = match self.waiting(record.clone()).await {
            Ok(waiting) if reach != Reach::Caller => {
                let asked = self.ask(&waiting, reach).await;
                pending_envelope(&waiting.record, &waiting.questions, waiting.calls, asked)
            }
            Ok(_) | Err(_) => envelope,
        };
        self.watch(record, owner, reach);
        shown
    }

    async fn ask(&self, waiting: &Waiting, reach: Reach) -> Asked {
        match reach {
            Reach::Caller | Reach::Client => Asked::Unknown,
            Reach::Page => match self.ports().person().publish(waiting).await {
                Reached::Page => Asked::Page,
                Reached::Nowhere => Asked::NoPage,
            },
        }
    }

    /// Watches a waiting run that this process answers for, hears what its person decides, and drives it
    /// on once nothing of it waits: pooled connections to upstreams hold state that no other process has.
    fn watch(self, record: RunRecord, owner: LockOf<P>, reach: Reach) {
        self.watched().lock().insert(record.id.clone(), reach);
        tokio::spawn(async move {
            let ended = self.until_ended(&record).await;
            let reach = self.watched().lock().remove(&record.id);
            drop(owner);
            self.ports().person().withdraw(&record.id, ended.as_ref()).await;
            if reach == Some(Reach::Page) && ended.is_some() {
                self.hear_late(&record.id).await;
            }
        });
    }

    /// Keeps what still arrives about a run that is over: late, and so decided nothing.
    async fn hear_late(&self, run: &RunId) {
        let clock = self.ports().clock();
        let until = clock.tick().after(LATE_FOR);
        while !self.is_ending() {
            let incoming = tokio::select! {
                biased;
                incoming = self.next_incoming(run) => incoming,
                () = clock.sleep_until(until) => None,
            };
            match incoming {
                Some(incoming) => self.hear_incoming(run, &incoming).await,
                None => return,
            }
        }
    }

    /// How a watched run ended; nothing if it is no longer this process's to watch.
    async fn until_ended(&self, record: &RunRecord) -> Option<Envelope> {
        let clock = self.ports().clock();
        let store = self.ports().store();
        // Parsing the journal five times a second for a day would cost more than the run did.
        let mut seen = None;
        let mut expires = WallMs(0);
        let mut published: Vec<Question> = Vec::new();
        let mut hears = true;
        loop {
            let asks_itself = self.watched().reach(&record.id) == Reach::Caller;
            let look = clock.tick().after(LOOK_EVERY);
            let incoming = tokio::select! {
                biased;
                incoming = self.next_incoming(&record.id), if hears && !asks_itself => {
                    hears = incoming.is_some();
                    incoming
                }
                () = clock.sleep_until(look) => None,
            };
            if let Some(incoming) = incoming {
                // Outside of the choice above: an answer that was taken is recorded, however long that takes.
                self.hear_incoming(&record.id, &incoming).await;
                seen = None;
            }
            if self.is_ending() {
                return None;
            }
            let length = store.journal_bytes(&record.id).await;
            let wall = self.believed_wall().await;
            if seen == Some(length) && wall < expires {
                continue;
            }
            let entries = store.journal(&record.id).await.ok()?;
            if let Some(Entry::Ended { envelope, .. }) = entries.last() {
                return Some((**envelope).clone());
            }
            let docket = Docket::of(&entries);
            seen = Some(length);
            expires = docket.undecided().map(|q| q.expires).min().unwrap_or(WallMs(0));
            let open: Vec<Question> = docket.undecided().cloned().collect();
            if self.watched().reach(&record.id) == Reach::Page && open != published {
                published.clone_from(&open);
                if let Ok(waiting) = self.shown(record.clone(), &entries, open.clone()).await {
                    self.ports().person().publish(&waiting).await;
                }
            }
            if !open.is_empty() && !docket.is_expired(wall) {
                continue;
            }
            let lock = store.lock(LockName::Run(record.id.clone()), LOCK_WAIT).await.ok()?;
            // The client's request that began the run is answered; its cancellation means nothing here.
            let ended = self.attempt(record.clone(), StopSignal::never()).await;
            drop(lock);
            seen = None;
            match ended {
                Ok(Ended { status: RunStatus::AwaitingInput, .. }) => {}
                Ok(Ended { status, envelope }) if status.is_final() => return Some(envelope),
                Ok(_) | Err(_) => return None,
            }
        }
    }

    /// Shows a run that this process does not watch as ended.
    pub(super) async fn show_ended(&self, run: &RunId, ended: &Ended) {
        if ended.status.is_final() {
            self.ports().person().withdraw(run, Some(&ended.envelope)).await;
        }
    }
}
