//! Runs: begun, resumed, cancelled, shown; and who drives them.
#![expect(clippy::disallowed_methods, reason = "attempts are tasks of their own")]

use super::attempt::{Ended, StopSignal};
use super::hub::{Hub, HubError, LOCK_WAIT};
use crate::core::approvals::Docket;
use crate::core::code::check_size;
use crate::core::engine::{pending_envelope, running_envelope};
use crate::core::runs::{status, summary};
use crate::model::digest::Digest;
use crate::model::envelope::{Envelope, EnvelopeStatus};
use crate::model::error::{ErrorCode, Failure};
use crate::model::ids::RunId;
use crate::model::journal::{Entry, Question};
use crate::model::run::{RUN_VERSION, RunRecord, RunStatus};
use crate::model::time::WallMs;
use crate::ports::Ports;
use crate::ports::clock::Clock as _;
use crate::ports::entropy::Entropy as _;
use crate::ports::sandbox::{Sandbox as _, SandboxError};
use crate::ports::secrets::Secrets as _;
use crate::ports::store::{LockName, Store as _, StoreError};
use std::time::Duration;

/// How often a run that somebody else drives, or that waits, is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Code to run.
#[derive(Debug, Clone)]
pub struct Code {
    /// As the model or the person wrote it.
    pub text: String,
    /// The profile it is run in.
    pub profile: String,
}

/// A run as `runs show` prints it.
#[derive(Debug, Clone)]
pub struct RunView {
    /// Its record.
    pub record: RunRecord,
    /// Where it stands, from its journal.
    pub status: RunStatus,
    /// Its journal.
    pub entries: Vec<Entry>,
    /// What waits for a person.
    pub undecided: Vec<Question>,
}

impl<P: Ports> Hub<P> {
    /// Runs code to its first pause or its end.
    ///
    /// # Errors
    /// Nothing ran: the code cannot, or the store failed.
    pub async fn execute(&self, code: Code, stop: StopSignal) -> Result<Envelope, Failure> {
        let record = self.begin(code).await?;
        let store = self.ports().store();
        let locked = async {
            let owner = store.lock(LockName::Owner(record.id.clone()), LOCK_WAIT).await?;
            Ok((owner, store.lock(LockName::Run(record.id.clone()), LOCK_WAIT).await?))
        };
        let (owner, lock) = locked.await.map_err(|error: StoreError| Failure::from(&error))?;
        let hub = self.clone();
        let run = record.id.clone();
        // The attempt outlives the request: a client that goes away must not cut a write in half.
        let driven = tokio::spawn(async move {
            let ended = hub.attempt(record.clone(), stop.clone()).await;
            drop(lock);
            if matches!(&ended, Ok(Ended { status: RunStatus::AwaitingInput, .. })) {
                hub.clone().drive_on(record, owner);
            }
            ended
        });
        self.envelope(&run, driven.await)
    }

    async fn begin(&self, code: Code) -> Result<RunRecord, Failure> {
        let limits = self.limits().await.map_err(|error| match &error {
            HubError::Store(error) => Failure::from(error),
            HubError::Settings(_)
            | HubError::NoSource(_)
            | HubError::NamespaceTaken(_)
            | HubError::NotConsented(_)
            | HubError::Unreachable { .. } => {
                Failure::new(ErrorCode::StoreFailed, error.to_string())
            }
        })?;
        let store_failed = |error: StoreError| Failure::from(&error);
        // Secrets are known once the sources that use them are.
        let facts = self.facts().await.map_err(store_failed)?;
        if self.ports().secrets().carries_secret(&code.text) {
            let message = "the code contains a value that the hub keeps secret";
            return Err(Failure::new(ErrorCode::SecretInCode, message));
        }
        check_size(&code.text, limits.code_bytes)?;
        let prepared = self.ports().sandbox().prepare(&code.text).await;
        let prepared = prepared.map_err(not_prepared)??;
        let snapshot = self
            .take_snapshot(&facts)
            .map_err(|error| Failure::new(ErrorCode::Bug, error.to_string()))?;
        let store = self.ports().store();
        store.put_blob(snapshot.digest, &snapshot.text).await.map_err(store_failed)?;
        let mut seed = [0; 32];
        self.ports().entropy().fill(&mut seed);
        let record = RunRecord {
            version: RUN_VERSION,
            id: self.new_run_id(),
            code: code.text,
            program: prepared.body,
            notices: prepared.notices,
            seed: Digest::of(&seed),
            started: self.ports().clock().wall(),
            limits,
            profile: code.profile,
            build: self.build().to_owned(),
            snapshot: snapshot.digest,
        };
        store.create_run(&record).await.map_err(store_failed)?;
        Ok(record)
    }

    /// Goes on with a run: a finished one returns what it returned before, one that waits returns what
    /// waits and runs nothing, one that is driven elsewhere is waited for.
    ///
    /// # Errors
    /// There is no such run, or its journal cannot be read.
    pub async fn resume(&self, run: &RunId, stop: StopSignal) -> Result<Envelope, Failure> {
        let store_failed = |error: StoreError| Failure::from(&error);
        let store = self.ports().store();
        let record = store.run(run).await.map_err(store_failed)?;
        if record.version > RUN_VERSION {
            let place = format!("run `{run}`");
            let error = StoreError::Upgraded { place, found: record.version, known: RUN_VERSION };
            return Err(store_failed(error));
        }
        let clock = self.ports().clock();
        let until = clock.tick().after(Duration::from_millis(record.limits.wall_ms));
        loop {
            if let Some(envelope) = self.standing(&record).await.map_err(store_failed)? {
                return Ok(envelope);
            }
            match self.take_over(&record).await.map_err(store_failed)? {
                Some((owner, lock)) => {
                    let hub = self.clone();
                    let driven = tokio::spawn(async move {
                        let ended = hub.attempt(record.clone(), stop.clone()).await;
                        drop(lock);
                        if matches!(&ended, Ok(Ended { status: RunStatus::AwaitingInput, .. })) {
                            hub.clone().drive_on(record, owner);
                        }
                        ended
                    });
                    return self.envelope(run, driven.await);
                }
                None if clock.tick() >= until => return Ok(running_envelope(&record)),
                None => clock.sleep_until(clock.tick().after(LOOK_EVERY).min(until)).await,
            }
        }
    }

    /// The answer that needs no driving: a final run's, or what waits for a person.
    async fn standing(&self, record: &RunRecord) -> Result<Option<Envelope>, StoreError> {
        let entries = self.ports().store().journal(&record.id).await?;
        if let Some(Entry::Ended { envelope, .. }) = entries.last() {
            return Ok(Some((**envelope).clone()));
        }
        let docket = Docket::of(&entries);
        let wall = self.believed_wall().await;
        let questions: Vec<Question> = docket.undecided().cloned().collect();
        // A run that waits and one that is driven look alike here until its lock is free, and an expired
        // one must be ended under it.
        if questions.is_empty() || docket.is_expired(wall) {
            return Ok(None);
        }
        Ok(Some(pending_envelope(record, &questions, Vec::new())))
    }

    /// Both locks of a run nobody drives and whose first process, if it is another, is gone.
    async fn take_over(
        &self,
        record: &RunRecord,
    ) -> Result<
        Option<(
            <P::Store as crate::ports::store::Store>::Lock,
            <P::Store as crate::ports::store::Store>::Lock,
        )>,
        StoreError,
    > {
        let store = self.ports().store();
        let mut taken = Vec::new();
        for name in [LockName::Owner(record.id.clone()), LockName::Run(record.id.clone())] {
            match store.lock(name, Duration::ZERO).await {
                Ok(lock) => taken.push(lock),
                Err(StoreError::Busy(_)) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let mut taken = taken.into_iter();
        Ok(taken.next().zip(taken.next()))
    }

    /// Watches a waiting run that this process began, and drives it on once nothing of it waits: pooled
    /// connections to upstreams hold state that no other process has.
    fn drive_on(self, record: RunRecord, owner: <P::Store as crate::ports::store::Store>::Lock) {
        tokio::spawn(async move {
            let clock = self.ports().clock();
            let store = self.ports().store();
            // Parsing the journal five times a second for a day would cost more than the run did.
            let mut seen = None;
            let mut expires = WallMs(0);
            loop {
                clock.sleep_until(clock.tick().after(LOOK_EVERY)).await;
                if self.is_ending() {
                    return;
                }
                let length = store.journal_bytes(&record.id).await;
                let wall = self.believed_wall().await;
                if seen == Some(length) && wall < expires {
                    continue;
                }
                let Ok(entries) = store.journal(&record.id).await else { return };
                if status(&entries).is_final() {
                    return;
                }
                let docket = Docket::of(&entries);
                seen = Some(length);
                expires = docket.undecided().map(|q| q.expires).min().unwrap_or(WallMs(0));
                if docket.undecided().next().is_some() && !docket.is_expired(wall) {
                    continue;
                }
                let name = LockName::Run(record.id.clone());
                let Ok(lock) = store.lock(name, LOCK_WAIT).await else { return };
                // The client's request that began the run is answered; its cancellation means nothing here.
                let ended = self.attempt(record.clone(), StopSignal::never()).await;
                drop(lock);
                seen = None;
                if !matches!(ended, Ok(Ended { status: RunStatus::AwaitingInput, .. })) {
                    drop(owner);
                    return;
                }
            }
        });
    }

    fn envelope(
        &self,
        run: &RunId,
        driven: Result<Result<Ended, StoreError>, tokio::task::JoinError>,
    ) -> Result<Envelope, Failure> {
        match driven {
            Ok(Ok(ended)) => Ok(ended.envelope),
            Ok(Err(error)) => Err(Failure::from(&error)),
            Err(error) => {
                tracing::error!(%error, %run, "an attempt panicked");
                Err(Failure::new(ErrorCode::Bug, format!("the attempt of `{run}` broke off")))
            }
        }
    }

    /// Cancels a run: one that waits ends at once, one that is driven ends after its writes have settled.
    ///
    /// # Errors
    /// There is no such run, or nobody could be told.
    pub async fn cancel(&self, run: &RunId) -> Result<RunStatus, HubError> {
        let store = self.ports().store();
        let record = store.run(run).await?;
        let clock = self.ports().clock();
        let until = clock.tick().after(Duration::from_millis(record.limits.wall_ms));
        loop {
            let entries = store.journal(run).await?;
            if status(&entries).is_final() {
                return Ok(status(&entries));
            }
            match store.lock(LockName::Run(run.clone()), Duration::ZERO).await {
                Ok(lock) => {
                    let ended = self.end_cancelled(&record).await;
                    drop(lock);
                    return ended;
                }
                Err(StoreError::Busy(_)) if clock.tick() < until => {
                    store.request_cancel(run).await?;
                    clock.sleep_until(clock.tick().after(LOOK_EVERY)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn end_cancelled(&self, record: &RunRecord) -> Result<RunStatus, HubError> {
        let store = self.ports().store();
        let entries = store.journal(&record.id).await?;
        if status(&entries).is_final() {
            return Ok(status(&entries));
        }
        let failure = Failure::new(ErrorCode::RunCancelled, "a person cancelled the run");
        let snapshot = self.snapshot(record.snapshot).await.unwrap_or_default();
        let blobs = self.outcomes(&entries).await.unwrap_or_default();
        let summary = summary(&entries, &snapshot, &blobs);
        let notices = record.notices.iter().cloned().chain(summary.notices()).collect();
        let envelope = Box::new(Envelope {
            run_id: record.id.clone(),
            status: EnvelopeStatus::Cancelled,
            result: None,
            error: Some(failure),
            logs: Vec::new(),
            calls: summary.calls,
            pending: Vec::new(),
            truncated: None,
            notices,
        });
        let wall = self.ports().clock().wall();
        let entry = Entry::Ended { status: RunStatus::Cancelled, envelope, wall, cost_us: 0 };
        store.append(&record.id, entries.len() as u64, &[entry], true).await?;
        store.write_status(&record.id, RunStatus::Cancelled).await?;
        Ok(RunStatus::Cancelled)
    }

    /// One run with its journal.
    ///
    /// # Errors
    /// There is none, or its journal cannot be read.
    pub async fn show_run(&self, run: &RunId) -> Result<RunView, HubError> {
        let store = self.ports().store();
        let record = store.run(run).await?;
        let entries = store.journal(run).await?;
        let undecided = Docket::of(&entries).undecided().cloned().collect();
        Ok(RunView { record, status: status(&entries), undecided, entries })
    }

    /// Every run that is kept, newest first.
    ///
    /// # Errors
    /// They cannot be listed.
    pub async fn list_runs(&self) -> Result<Vec<(RunRecord, RunStatus)>, HubError> {
        let store = self.ports().store();
        let mut runs = store.runs().await?;
        for (record, known) in &mut runs {
            // What is kept beside a run may be older than its journal, if a process died in between.
            if !known.is_final()
                && let Ok(entries) = store.journal(&record.id).await
            {
                *known = status(&entries);
            }
        }
        Ok(runs)
    }
}

/// Why code could not even be read. Nothing of it ran.
fn not_prepared(error: SandboxError) -> Failure {
    match error {
        SandboxError::Killed(_) => Failure::new(
            ErrorCode::ComputeLimit,
            "reading the code took too long; nothing ran",
        )
        .with_hint(
            "Write the code more simply: it nests or repeats something that no parser can bear.",
        ),
        SandboxError::Crashed(why) => {
            let message = format!("reading the code took the parser down; nothing ran ({why})");
            Failure::new(ErrorCode::SandboxCrashed, message)
        }
        SandboxError::Unavailable(_) => {
            Failure::new(ErrorCode::SandboxUnavailable, error.to_string())
        }
    }
}
