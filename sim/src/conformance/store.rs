//! What every store must do.

use hub::model::answer::{FORGED_KEPT, NotDecided, RefusedAnswer};
use hub::model::call::Seq;
use hub::model::digest::Digest;
use hub::model::facts::SourcePolicy;
use hub::model::ids::{RunId, SourceId};
use hub::model::journal::Entry;
use hub::model::limits::Limits;
use hub::model::policy::{Channel, Choice, Effect, Policy, Rule, Scope};
use hub::model::run::{RUN_VERSION, RunRecord, RunStatus};
use hub::model::source::{
    MANIFEST_VERSION, Manifest, Settings, SourceRecord, StdioCommand, Transport,
};
use hub::model::time::WallMs;
use hub::ports::store::{LockName, Store, StoreError};
use std::collections::BTreeMap;
use std::time::Duration;

fn run_id(number: u8) -> RunId {
    RunId::from_random([number; 10])
}

fn record(number: u8) -> RunRecord {
    RunRecord {
        version: RUN_VERSION,
        id: run_id(number),
        code: "return 1".to_owned(),
        program: "\nreturn 1".to_owned(),
        notices: Vec::new(),
        seed: Digest::of(b"seed"),
        started: WallMs(u64::from(number)),
        limits: Limits::default(),
        profile: "default".to_owned(),
        build: "test".to_owned(),
        snapshot: Digest::of(b"{}"),
    }
}

fn source(number: u8, namespace: &str) -> SourceRecord {
    SourceRecord {
        id: SourceId::from_random([number; 10]),
        namespace: namespace.parse().expect("a namespace"),
        label: None,
        transport: Transport::Stdio(StdioCommand {
            program: "/bin/x".to_owned(),
            args: vec!["-y".to_owned()],
            cwd: "/".to_owned(),
            path: "/bin".to_owned(),
            set: BTreeMap::new(),
            pass: Vec::new(),
        }),
        consent: None,
        added: WallMs(1),
    }
}

fn sent(seq: u32) -> Entry {
    Entry::Sent { seq: Seq(seq), wall: WallMs(7) }
}

/// Everything a store promises, on one that is empty.
///
/// # Panics
/// It breaks one of them.
pub async fn store<S: Store>(store: &S) {
    settings_make_the_hub(store).await;
    sources_come_and_go_with_all_they_have(store).await;
    journals_grow_in_order(store).await;
    locks_exclude(store).await;
    blobs_are_kept_by_digest(store).await;
    runs_are_listed_newest_first(store).await;
    refused_answers_are_kept_up_to_an_end(store).await;
}

async fn settings_make_the_hub<S: Store>(store: &S) {
    assert!(
        matches!(store.settings().await, Err(StoreError::NoHub { .. })),
        "an empty store is no hub"
    );
    let settings = Settings::new("hub_0000000000000000".parse().expect("an id"));
    store.write_settings(&settings).await.expect("written");
    assert_eq!(store.settings().await.expect("read"), settings);
}

async fn sources_come_and_go_with_all_they_have<S: Store>(store: &S) {
    let (one, other) = (source(1, "one"), source(2, "other"));
    let before = store.generation().await.expect("read");
    store.write_source(&one).await.expect("written");
    let between = store.generation().await.expect("read");
    assert_ne!(before, between, "every change moves the generation");
    store.write_source(&other).await.expect("written");
    let listed: Vec<_> = store.sources().await.expect("listed").into_iter().flatten().collect();
    assert_eq!(listed.len(), 2);

    let manifest = Manifest {
        version: MANIFEST_VERSION,
        listed: WallMs(5),
        server: "s".to_owned(),
        protocol: "p".to_owned(),
        tools: Vec::new(),
        names: BTreeMap::new(),
        notices: vec!["n".to_owned()],
    };
    assert_eq!(store.manifest(&one.id).await.expect("read"), None);
    store.write_manifest(&one.id, &manifest).await.expect("written");
    assert_eq!(store.manifest(&one.id).await.expect("read"), Some(manifest));

    assert_eq!(store.policy(&one.id).await, SourcePolicy::Usable(Policy::default()));
    let mut policy = Policy::default();
    policy.rules.push(Rule {
        scope: Scope { tool: None, connection: Default::default() },
        effect: Effect::Deny,
        contract: None,
    });
    let before = store.generation().await.expect("read");
    store.write_policy(&one.id, &policy).await.expect("written");
    assert_ne!(before, store.generation().await.expect("read"));
    assert_eq!(store.policy(&one.id).await, SourcePolicy::Usable(policy));

    store.remove_source(&one.id).await.expect("removed");
    store.remove_source(&one.id).await.expect("removing again is safe");
    assert_eq!(store.manifest(&one.id).await.expect("read"), None);
    assert_eq!(
        store.policy(&one.id).await,
        SourcePolicy::Usable(Policy::default()),
        "its rules are gone"
    );
    assert_eq!(store.sources().await.expect("listed").len(), 1);
}

async fn journals_grow_in_order<S: Store>(store: &S) {
    let run = run_id(1);
    assert_eq!(store.run(&run).await, Err(StoreError::NoRun(run.clone())));
    store.create_run(&record(1)).await.expect("made");
    assert_eq!(store.run(&run).await.expect("read"), record(1));
    assert_eq!(store.journal(&run).await.expect("read"), []);
    let empty = store.journal_bytes(&run).await;
    store.append(&run, 0, &[sent(1), sent(2)], false).await.expect("appended");
    store.append(&run, 2, &[sent(3)], true).await.expect("appended");
    store.append(&run, 3, &[], true).await.expect("a sync alone is an append of nothing");
    assert_ne!(store.journal_bytes(&run).await, empty);
    for wrong in [0, 2, 4] {
        let moved = store.append(&run, wrong, &[sent(9)], true).await;
        assert_eq!(moved, Err(StoreError::Moved(run.clone())), "after {wrong}");
    }
    assert_eq!(store.journal(&run).await.expect("read"), [sent(1), sent(2), sent(3)]);
    assert!(!store.cancel_requested(&run).await);
    store.request_cancel(&run).await.expect("asked");
    assert!(store.cancel_requested(&run).await);
}

async fn locks_exclude<S: Store>(store: &S) {
    let name = || LockName::Run(run_id(1));
    let held = store.lock(name(), Duration::ZERO).await.expect("free");
    assert!(matches!(
        store.lock(name(), Duration::from_millis(30)).await,
        Err(StoreError::Busy(_))
    ));
    let others = [LockName::Hub, LockName::Owner(run_id(1)), LockName::Run(run_id(2))];
    for other in others {
        drop(store.lock(other, Duration::ZERO).await.expect("another lock is free"));
    }
    drop(held);
    drop(store.lock(name(), Duration::ZERO).await.expect("free again"));
}

async fn blobs_are_kept_by_digest<S: Store>(store: &S) {
    let digest = Digest::of("größe".as_bytes());
    assert_eq!(store.blob(digest).await.expect("read"), None);
    store.put_blob(digest, "größe").await.expect("kept");
    store.put_blob(digest, "größe").await.expect("kept again");
    assert_eq!(store.blob(digest).await.expect("read").as_deref(), Some("größe"));
}

async fn runs_are_listed_newest_first<S: Store>(store: &S) {
    store.create_run(&record(2)).await.expect("made");
    store.write_status(&run_id(2), RunStatus::Completed).await.expect("written");
    let listed: Vec<_> = store
        .runs()
        .await
        .expect("listed")
        .into_iter()
        .map(|(run, status)| (run.id, status))
        .collect();
    assert_eq!(listed, [(run_id(2), RunStatus::Completed), (run_id(1), RunStatus::Running)]);
    assert_eq!(store.noted_wall().await, None);
    store.note_wall(WallMs(7)).await.expect("noted");
    store.note_wall(WallMs(9)).await.expect("noted");
    assert_eq!(store.noted_wall().await, Some(WallMs(9)));
    store.remove_run(&run_id(2)).await.expect("removed");
    store.remove_run(&run_id(2)).await.expect("removing again is safe");
    assert_eq!(store.run(&run_id(2)).await, Err(StoreError::NoRun(run_id(2))));
    assert_eq!(store.runs().await.expect("listed").len(), 1);
    let kept = Digest::of("größe".as_bytes());
    store.remove_blobs([kept].into()).await.expect("swept");
    assert!(store.blob(kept).await.expect("read").is_some(), "what is named stays");
}

async fn refused_answers_are_kept_up_to_an_end<S: Store>(store: &S) {
    let run = run_id(90);
    let refused = |seq: u32, why| RefusedAnswer {
        seq: Some(Seq(seq)),
        choice: Some(Choice::Once),
        channel: Channel::Client,
        why,
        wall: WallMs(u64::from(seq)),
        nonce: Some(Digest::of(&seq.to_le_bytes())),
    };
    let one = refused(1, NotDecided::TooFast);
    store.refuse(&run, &one).await.expect("nothing to keep it with");
    assert_eq!(store.refused(&run).await, Ok(Vec::new()), "of no run nothing is kept");
    store.create_run(&record(90)).await.expect("written");
    for seq in 0..60 {
        store.refuse(&run, &refused(seq, NotDecided::Forged)).await.expect("written");
    }
    assert_eq!(store.refused(&run).await.expect("read").len(), FORGED_KEPT);
    store.refuse(&run, &one).await.expect("written");
    let kept = store.refused(&run).await.expect("read");
    assert_eq!(kept.last(), Some(&one), "whoever forges does not use up the rest");
    store.remove_run(&run).await.expect("removed");
    assert_eq!(store.refused(&run).await, Ok(Vec::new()));
}
