//! Runs: begun, resumed, cancelled, shown; and who drives them.
#![expect(clippy::disallowed_methods, reason = "attempts are tasks of their own")]

use super::attempt::StopSignal;
use super::connections::secret_failure;
use super::hub::{Hub, HubError, LOCK_WAIT};
use super::waiting::Reach;
use crate::core::approvals::Docket;
use crate::core::code::check_size;
use crate::core::engine::running_envelope;
use crate::core::runs::{status, summary};
use crate::model::answer::RefusedAnswer;
use crate::model::digest::Digest;
use crate::model::envelope::{Envelope, EnvelopeStatus};
use crate::model::error::{ErrorCode, Failure};
use crate::model::ids::RunId;
use crate::model::journal::{Entry, Question};
use crate::model::run::{RUN_VERSION, RunRecord, RunStatus};
use crate::ports::Ports;
use crate::ports::clock::Clock as _;
use crate::ports::entropy::Entropy as _;
use crate::ports::sandbox::{Sandbox as _, SandboxError};
use crate::ports::secrets::Secrets as _;
use crate::ports::store::{LockName, Store, StoreError};
use std::time::Duration;

/// How often a run that somebody else drives, or that waits, is looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(super) type LockOf<P> = <<P as Ports>::Store as Store>::Lock;

/// Where a run stands for whoever resumes it.
enum Standing {
    /// It is over: nothing has to be driven.
    Ended(Box<Envelope>),
    /// It waits for a person.
    Waits,
    /// It can go on, or is driven already.
    GoesOn,
}

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
    /// Answers about it that decided nothing.
    pub refused: Vec<RefusedAnswer>,
}

impl<P: Ports> Hub<P> {
    /// Runs code to its first pause or its end.
    ///
    /// # Errors
    /// Nothing ran: the code cannot, or the store failed.
    pub async fn execute(&self, code: Code, stop: StopSignal) -> Result<Envelope, Failure> {
        self.execute_for(code, Reach::Caller, stop).await
    }

    /// As [`Hub::execute`], for a caller whose person is reached like this.
    pub(super) async fn execute_for(
        &self,
        code: Code,
        reach: Reach,
        stop: StopSignal,
    ) -> Result<Envelope, Failure> {
        let record = self.begin(code).await?;
        let store = self.ports().store();
        let locked = async {
            let owner = store.lock(LockName::Owner(record.id.clone()), LOCK_WAIT).await?;
            Ok((owner, store.lock(LockName::Run(record.id.clone()), LOCK_WAIT).await?))
        };
        let locks = locked.await.map_err(|error: StoreError| Failure::from(&error))?;
        self.drive(record, locks, reach, stop).await
    }

    /// Drives one attempt, and watches the run from there on if it waits.
    async fn drive(
        &self,
        record: RunRecord,
        (owner, lock): (LockOf<P>, LockOf<P>),
        reach: Reach,
        stop: StopSignal,
    ) -> Result<Envelope, Failure> {
        let hub = self.clone();
        let run = record.id.clone();
        // The attempt outlives the request: a client that goes away must not cut a write in half.
        let driven = tokio::spawn(async move {
            let ended = hub.attempt(record.clone(), stop).await?;
            drop(lock);
            if ended.status == RunStatus::AwaitingInput {
                return Ok(hub.begin_to_wait(record, owner, reach, ended.envelope).await);
            }
            hub.show_ended(&record.id, &ended).await;
            Ok(ended.envelope)
        });
        match driven.await {
            Ok(Ok(envelope)) => Ok(envelope),
            Ok(Err(error)) => Err(Failure::from(&error)),
            Err(error) => {
                tracing::error!(%error, %run, "an attempt panicked");
                Err(Failure::new(ErrorCode::Bug, format!("the attempt of `{run}` broke off")))
            }
        }
    }

    async fn begin(&self, code: Code) -> Result<RunRecord, Failure> {
        let limits = self.limits().await.map_err(|error| match &error {
            HubError::Store(error) => Failure::from(error),
            HubError::Secrets(error) => secret_failure(error),
            HubError::Settings(_)
            | HubError::NoSource(_)
            | HubError::NamespaceTaken(_)
            | HubError::NotConsented(_)
            | HubError::Unauthorized { .. }
            | HubError::NoConnection { .. }
            | HubError::Unreachable { .. } => {
                Failure::new(ErrorCode::StoreFailed, error.to_string())
            }
        })?;
        let store_failed = |error: StoreError| Failure::from(&error);
        // Secrets are known once the sources that use them are.
        let facts = self.facts().await.map_err(store_failed)?;
        // What cannot be read cannot be taken out of results either.
        self.learn_secrets(&facts).await.map_err(|error| secret_failure(&error))?;
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
        self.resume_for(run, Reach::Caller, stop).await
    }

    /// As [`Hub::resume`], for a caller whose person is reached like this.
    pub(super) async fn resume_for(
        &self,
        run: &RunId,
        reach: Reach,
        stop: StopSignal,
    ) -> Result<Envelope, Failure> {
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
            match self.standing(&record).await.map_err(store_failed)? {
                Standing::Ended(envelope) => return Ok(*envelope),
                Standing::Waits => {
                    return self.still_waiting(record, reach).await.map_err(store_failed);
                }
                Standing::GoesOn => {}
            }
            match self.take_over(&record).await.map_err(store_failed)? {
                Some(locks) => return self.drive(record, locks, reach, stop).await,
                None if clock.tick() >= until => return Ok(running_envelope(&record)),
                None => clock.sleep_until(clock.tick().after(LOOK_EVERY).min(until)).await,
            }
        }
    }

    async fn standing(&self, record: &RunRecord) -> Result<Standing, StoreError> {
        let entries = self.ports().store().journal(&record.id).await?;
        if let Some(Entry::Ended { envelope, .. }) = entries.last() {
            return Ok(Standing::Ended(envelope.clone()));
        }
        let docket = Docket::of(&entries);
        let wall = self.believed_wall().await;
        // A run that waits and one that is driven look alike here until its lock is free, and an expired
        // one must be ended under it.
        let waits = docket.undecided().next().is_some() && !docket.is_expired(wall);
        Ok(if waits { Standing::Waits } else { Standing::GoesOn })
    }

    /// Both locks of a run nobody drives and whose first process, if it is another, is gone.
    async fn take_over(
        &self,
        record: &RunRecord,
    ) -> Result<Option<(LockOf<P>, LockOf<P>)>, StoreError> {
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
        let refused = store.refused(run).await?;
        Ok(RunView { record, status: status(&entries), undecided, entries, refused })
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
