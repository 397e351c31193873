//! What every way to upstream servers must do, shown on a source that offers a read.

use hub::model::digest::Digest;
use hub::model::time::{Tick, WallMs};
use hub::ports::sources::{CallError, Route, Sources, UpstreamCall};
use serde_json::Value;

/// Lists, calls and closes one source. `read` is a tool of it that takes `arguments`; `deadline` lies in
/// the future.
///
/// # Panics
/// The sources break a promise.
pub async fn sources<S: Sources>(
    sources: &S,
    source: &Route,
    read: &str,
    arguments: &Value,
    deadline: Tick,
) {
    let call = |listing| UpstreamCall {
        repeatable: false,
        // What no tool claims to be: another listing then allows nothing.
        contract: Digest::of(b"another contract"),
        raw: read.parse().expect("a name"),
        arguments: arguments.clone(),
        listing,
        timeout_ms: 5_000,
        deadline,
        result_bytes_max: 1 << 20,
    };
    let early = sources.call(source, &call(u64::MAX)).await;
    assert!(
        matches!(early, Err(CallError::NotSent(_))),
        "nothing is sent before a dial: {early:?}"
    );

    let first = sources.dial(source, None, deadline).await.expect("it is there");
    let names: Vec<_> =
        first.tools.iter().filter_map(hub::model::contract::Contract::raw_name).collect();
    assert!(names.iter().any(|name| name.as_str() == read), "{names:?}");
    let mut distinct = names.clone();
    distinct.dedup();
    assert_eq!(names, distinct, "a name occurs once");

    let again = sources.dial(source, None, deadline).await.expect("it is there");
    assert_eq!(first.number, again.number, "nothing changed, so nothing is listed anew");
    assert!(first.listed >= WallMs(0));

    let answer = sources.call(source, &call(first.number)).await.expect("it answers");
    assert!(!answer.is_error, "{answer:?}");
    let stale = sources.call(source, &call(first.number + 1_000)).await;
    assert!(
        matches!(stale, Err(CallError::NotSent(_))),
        "another listing allows nothing: {stale:?}"
    );

    sources.close(&source.record.id).await;
    sources.close(&source.record.id).await;
    sources.close_all().await;
    let after = sources.dial(source, None, deadline).await.expect("it can be had again");
    assert!(!after.tools.is_empty());
    sources.close_all().await;
}
