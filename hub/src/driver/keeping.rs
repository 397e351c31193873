//! How long things are kept: questions until they expire, runs for their days, blobs while anything names
//! them. All of it goes by wall time, and distrusts it.

use super::attempt::StopSignal;
use super::hub::{Hub, HubError};
use crate::core::approvals::Docket;
use crate::core::runs::status;
use crate::model::digest::Digest;
use crate::model::facts::SourcePolicy;
use crate::model::journal::{Entry, StoredOutcome};
use crate::model::run::RunStatus;
use crate::model::time::{Tick, WallMs};
use crate::ports::Ports;
use crate::ports::clock::Clock as _;
use crate::ports::store::{Store as _, StoreError};
use std::collections::BTreeSet;
use std::time::Duration;

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;
/// A clock that jumped is believed after so much uptime.
const BELIEVED_AFTER: Tick = Tick(Duration::from_secs(60 * 60));
/// What media handles in outcomes start with.
const HANDLE: &str = "blob:";

impl<P: Ports> Hub<P> {
    /// The wall time that expiry and retention go by: the clock's, unless it is more than a day off what was
    /// noted last. Then the noted time counts, until this process has been up for an hour and the clock
    /// still says so.
    pub(super) async fn believed_wall(&self) -> WallMs {
        let (clock, store) = (self.ports().clock(), self.ports().store());
        let now = clock.now();
        let noted = store.noted_wall().await.unwrap_or(now.wall);
        if now.wall.0.abs_diff(noted.0) > DAY_MS && now.tick < BELIEVED_AFTER {
            return noted;
        }
        if now.wall.0.abs_diff(noted.0) >= MINUTE_MS || noted == now.wall {
            // Only a note: without it the next process may wait an hour with what has expired.
            if let Err(error) = store.note_wall(now.wall).await {
                tracing::warn!(%error, "the time could not be noted");
            }
        }
        now.wall
    }

    /// Ends runs whose questions expired while nobody looked, removes runs that ended longer ago than they
    /// are kept, then blobs that nothing names. How many runs and blobs went.
    ///
    /// # Errors
    /// The store failed; what is left goes with the next sweep.
    pub async fn sweep(&self) -> Result<(usize, usize), HubError> {
        let store = self.ports().store();
        let days = u64::from(store.settings().await?.retention_days.clamp(1, 90));
        let believed = self.believed_wall().await;
        let kept_since = believed.0.saturating_sub(days * DAY_MS);
        let mut keep = BTreeSet::new();
        let mut removed = 0;
        for (record, _) in store.runs().await? {
            let entries = match store.journal(&record.id).await {
                Ok(entries) => entries,
                // Kept for diagnosis, as the error to whoever resumes it says.
                Err(StoreError::Corrupt { .. }) => Vec::new(),
                Err(error) => return Err(error.into()),
            };
            if record.started.0 < kept_since && status(&entries).is_final() {
                store.remove_run(&record.id).await?;
                removed += 1;
                continue;
            }
            if status(&entries) == RunStatus::AwaitingInput
                && Docket::of(&entries).is_expired(believed)
                && let Err(error) = self.resume(&record.id, StopSignal::never()).await
            {
                tracing::warn!(run = %record.id, message = %error.message, "it expired and could not be ended");
            }
            let mut named = BTreeSet::new();
            entries.iter().for_each(|entry| named_by(entry, &mut named));
            for digest in named.clone() {
                if let Ok(Some(text)) = store.blob(digest).await {
                    handles_in(&text, &mut named);
                }
            }
            keep.insert(record.snapshot);
            keep.extend(named);
        }
        for source in store.sources().await?.into_iter().flatten() {
            if let SourcePolicy::Usable(policy) = store.policy(&source.id).await {
                keep.extend(policy.pins.values().map(|pin| pin.contract));
            } else {
                // What a broken policy names is not known, so nothing is removed.
                return Ok((removed, 0));
            }
        }
        Ok((removed, store.remove_blobs(keep).await?))
    }
}

fn named_by(entry: &Entry, keep: &mut BTreeSet<Digest>) {
    match entry {
        Entry::Settled { outcome: StoredOutcome::Blob(digest), .. } => {
            keep.insert(*digest);
        }
        Entry::Settled { outcome: StoredOutcome::Inline(outcome), .. } => {
            if let Ok(text) = serde_json::to_string(outcome) {
                handles_in(&text, keep);
            }
        }
        Entry::Asked { .. }
        | Entry::Sent { .. }
        | Entry::Timer { .. }
        | Entry::Lookup { .. }
        | Entry::Question(_)
        | Entry::Decided { .. }
        | Entry::Paused { .. }
        | Entry::Resumed { .. }
        | Entry::Ended { .. } => {}
    }
}

/// Handles of media that an outcome passed on.
fn handles_in(text: &str, keep: &mut BTreeSet<Digest>) {
    let handles =
        text.split(HANDLE).skip(1).filter_map(|rest| rest.get(..64)?.parse::<Digest>().ok());
    keep.extend(handles);
}
