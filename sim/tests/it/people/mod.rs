//! People decide, on every channel: their client's own prompt, the approval page, a terminal.

mod chromium;
mod page;
mod prompt;
mod sdk;
mod worlds;

use crate::support::{TestHub, until};
use serde_json::Value;

/// Calls that a server of the hub got, by tool.
fn made(hub: &TestHub, tool: &str) -> Vec<Value> {
    let all = sim::server::calls(&hub.log("notes")).unwrap_or_default();
    all.into_iter().filter(|call| call["name"] == tool).collect()
}

/// What a run's journal says of decisions: each with its channel.
fn decided(hub: &TestHub, run: &str) -> Vec<String> {
    let (_, view) = hub.json(["runs", "show", run]);
    let entries = view["entries"].as_array().expect("entries").clone();
    let decisions = entries.iter().filter_map(|entry| entry.get("decided"));
    decisions
        .map(|decided| {
            let word = |name: &str| decided[name].as_str().unwrap_or("?").to_owned();
            format!("{} by {}", word("choice"), word("channel"))
        })
        .collect()
}

/// Why answers about a run decided nothing.
fn refused(hub: &TestHub, run: &str) -> Vec<String> {
    let (_, view) = hub.json(["runs", "show", run]);
    let refused = view["refused"].as_array().expect("a list").clone();
    refused
        .iter()
        .map(|one| {
            let word = |name: &str| one[name].as_str().unwrap_or("?").to_owned();
            format!("{} by {}", word("why"), word("channel"))
        })
        .collect()
}

/// Waits until a run is over; how.
fn over(hub: &TestHub, run: &str) -> String {
    until("the run to be over", || {
        let (_, view) = hub.json(["runs", "show", run]);
        let status = view["status"].as_str().expect("a status").to_owned();
        (!["running", "awaiting_input"].contains(&status.as_str())).then_some(status)
    })
}
