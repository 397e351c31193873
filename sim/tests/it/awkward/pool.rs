//! The pool by itself: what callers beside each other, and callers that give up, leave behind.

use super::{manner, over_http};
use crate::support::until;
use hub::adapters::clock::SystemClock;
use hub::adapters::sources::McpSources;
use hub::model::digest::Digest;
use hub::model::http::{AddressClass, HttpEndpoint};
use hub::model::ids::SourceId;
use hub::model::source::{SourceRecord, Transport};
use hub::model::time::{Tick, WallMs};
use hub::ports::clock::Clock as _;
use hub::ports::sources::{CallError, Route, Sources as _, UpstreamCall};
use serde_json::json;
use sim::awkward::http::{Fault, Kind, Manner, Running};
use sim::fakes::SimSecrets;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

fn pool(clock: SystemClock) -> McpSources<SimSecrets, SystemClock> {
    let keeper = PathBuf::from(env!("CARGO_BIN_EXE_sim"));
    McpSources::new(Arc::new(SimSecrets::default()), clock, keeper)
}

fn source(running: &Running) -> Route {
    let url = running.url().parse().unwrap();
    let record = SourceRecord {
        id: SourceId::from_random([7; 10]),
        namespace: "odd".parse().unwrap(),
        label: None,
        transport: Transport::Http(HttpEndpoint { url, reaches: AddressClass::Loopback }),
        consent: None,
        added: WallMs(0),
    };
    Route { record, connection: None }
}

fn call(tool: &str, listing: u64, deadline: Tick) -> UpstreamCall {
    UpstreamCall {
        raw: tool.parse().unwrap(),
        arguments: json!({}),
        listing,
        // What the tool does not claim: only the very listing named allows the call.
        contract: Digest::of(b"something else"),
        timeout_ms: 5_000,
        deadline,
        result_bytes_max: 1 << 20,
        repeatable: false,
    }
}

#[tokio::test]
async fn a_newer_listing_in_which_the_tool_is_the_same_changes_nothing() {
    let running = over_http(manner(Kind::Json));
    let (clock, source) = (SystemClock::new(), source(&running));
    let (pool, deadline) = (pool(clock), clock.tick().after(Duration::from_secs(20)));
    let first = pool.dial(&source, None, deadline).await.unwrap();
    let contract = first
        .tools
        .iter()
        .find(|tool| tool.raw_name().is_some_and(|raw| raw.as_str() == "write_unannotated"))
        .unwrap()
        .digest();
    let newer = pool.dial(&source, Some(WallMs(u64::MAX)), deadline).await.unwrap();
    assert_ne!(first.number, newer.number);
    let write = call("write_unannotated", first.number, deadline);
    assert!(matches!(pool.call(&source, &write).await, Err(CallError::NotSent(_))));
    pool.call(&source, &UpstreamCall { contract, ..write }).await.unwrap();
    assert_eq!(running.calls(), ["write_unannotated"]);
}

#[tokio::test]
async fn a_call_that_waited_is_not_sent_by_a_listing_that_is_not_the_newest() {
    let running = over_http(manner(Kind::Json));
    let (clock, source) = (SystemClock::new(), source(&running));
    let (pool, deadline) = (pool(clock), clock.tick().after(Duration::from_secs(20)));
    let listing = pool.dial(&source, None, deadline).await.unwrap().number;
    let wait = Fault::Status(429, vec![("retry-after", "1".to_owned())], String::new());
    running.fault("tools/call", wait);
    let refused = pool.call(&source, &call("read_thing", listing, deadline)).await;
    assert!(matches!(refused, Err(CallError::Status(_))), "{refused:?}");
    // While this one waits as the server asked, somebody else has the tools listed anew.
    let (write, newest) = (call("write_unannotated", listing, deadline), Some(WallMs(u64::MAX)));
    let (done, listed) =
        tokio::join!(pool.call(&source, &write), pool.dial(&source, newest, deadline));
    assert_ne!(listed.unwrap().number, listing);
    assert!(matches!(done, Err(CallError::NotSent(_))), "{done:?}");
    assert_eq!(running.calls(), ["read_thing"]);
}

#[tokio::test]
async fn where_an_older_servers_stream_ended_nothing_is_sent_whose_answer_nobody_would_hear() {
    let running = over_http(manner(Kind::Older(405)));
    let (clock, source) = (SystemClock::new(), source(&running));
    let (pool, deadline) = (pool(clock), clock.tick().after(Duration::from_secs(20)));
    let listing = pool.dial(&source, None, deadline).await.unwrap().number;
    let hang = call("hang", listing, deadline);
    let ending = async {
        while running.calls().is_empty() {
            tokio::task::yield_now().await;
        }
        running.end_streams();
    };
    let (lost, ()) = tokio::join!(pool.call(&source, &hang), ending);
    let why = "the server's stream ended before the answer arrived".to_owned();
    assert_eq!(lost, Err(CallError::Lost(why)));
    let write = pool.call(&source, &call("write_unannotated", listing, deadline)).await;
    assert!(matches!(write, Err(CallError::NotSent(_))), "{write:?}");
    assert_eq!(running.calls(), ["hang"]);
    // Whoever dials again has a new stream.
    let listing = pool.dial(&source, None, deadline).await.unwrap().number;
    pool.call(&source, &call("write_unannotated", listing, deadline)).await.unwrap();
}

#[tokio::test]
async fn an_older_server_names_no_place_but_its_own() {
    let other = over_http(manner(Kind::Json));
    let running = over_http(Manner { endpoint: Some(other.url()), ..manner(Kind::Older(405)) });
    let clock = SystemClock::new();
    let deadline = clock.tick().after(Duration::from_secs(20));
    let dialled = pool(clock).dial(&source(&running), None, deadline).await;
    assert!(matches!(dialled, Err(CallError::Status(_) | CallError::NotSent(_))), "{dialled:?}");
    assert!(other.seen().is_empty(), "nothing reached the other origin");
}

#[tokio::test]
async fn a_list_that_nobody_waits_for_is_taken_back() {
    let running = over_http(manner(Kind::Json));
    let (clock, source) = (SystemClock::new(), source(&running));
    let pool = pool(clock);
    running.fault("tools/list", Fault::StallHead);
    let deadline = clock.tick().after(Duration::from_millis(500));
    let dialled = pool.dial(&source, None, deadline).await;
    assert!(matches!(dialled, Err(CallError::NotSent(_))), "{dialled:?}");
    tokio::task::spawn_blocking(move || {
        until("the list to be taken back", || {
            let seen = running.seen();
            let stalled = seen.iter().find(|seen| seen.message["method"] == "tools/list")?;
            let id = &stalled.message["id"];
            let taken_back = |message: &serde_json::Value| {
                message["method"] == "notifications/cancelled"
                    && message["params"]["requestId"] == *id
            };
            seen.iter().any(|seen| taken_back(&seen.message)).then_some(())
        });
    })
    .await
    .unwrap();
}
