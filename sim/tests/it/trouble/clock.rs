//! A wall clock that is a year off, and what is removed while somebody else still uses it.

use crate::support::stage::{Stage, execute, go_on, resume};
use hub::model::envelope::EnvelopeStatus;
use hub::model::policy::Choice;
use hub::ports::Ports as _;
use hub::ports::store::Store as _;
use std::time::Duration;

/// Every simulated process starts a minute of wall time after the one before.
const YEAR: u32 = 365 * 24 * 60;

/// One process leaves a run that ended and one that waits; another, whose clock is off, looks at them.
async fn a_year_apart(first: u32, second: u32) {
    let stage = Stage::new().await;
    let hub = stage.hub(first, &[]);
    let ended = execute(&hub, "return await s.get({ k: 1 });").await;
    let waiting = execute(&hub, "return await s.put({ k: 1 });").await;
    hub.shut_down().await;
    tokio::time::sleep(Duration::from_secs(1)).await;

    let off = stage.hub(second, &[Choice::Once]);
    for _ in 0..3 {
        assert_eq!(off.sweep().await.expect("swept"), (0, 0), "nothing is removed");
        tokio::time::sleep(Duration::from_secs(15 * 60)).await;
    }
    assert_eq!(resume(&off, &ended.run_id).await, ended);
    let still = resume(&off, &waiting.run_id).await;
    assert_eq!(still.status, EnvelopeStatus::AwaitingApproval, "nothing expires: {still:?}");
    let done = go_on(&off, still).await;
    assert_eq!(done.status, EnvelopeStatus::Completed, "it can be decided all the same: {done:?}");
    assert_eq!(stage.reached("put").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_clock_a_year_ahead_expires_and_removes_nothing() {
    a_year_apart(1, 1 + YEAR).await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_a_year_behind_expires_and_removes_nothing() {
    a_year_apart(1 + YEAR, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_was_removed_gets_no_manifest_and_no_rule_again() {
    let stage = Stage::new().await;
    let (hub, other) = (stage.hub(1, &[]), stage.hub(2, &[]));
    let record = hub.source("s").await.expect("there");
    let items = {
        stage.offer(vec![crate::support::stage::tool("more", true, 1)]);
        hub.refresh(&record).await.expect("listed");
        hub.to_review(None).await.expect("read")
    };
    other.remove_source("s").await.expect("removed");
    stage.offer(vec![crate::support::stage::tool("most", true, 1)]);
    let _ = hub.refresh(&record).await;
    let reviewed: Vec<_> =
        items.into_iter().map(|item| hub::driver::Reviewed { item, rule: None }).collect();
    let _ = hub.review(&reviewed).await;
    let store = hub.ports().store();
    assert_eq!(store.manifest(&record.id).await.expect("read"), None);
    let policy = store.policy(&record.id).await;
    assert_eq!(policy, hub::model::facts::SourcePolicy::Usable(Default::default()));
}
