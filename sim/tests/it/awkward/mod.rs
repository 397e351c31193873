//! The awkward server through the real binary: over its standard streams, and over HTTP in every way.

mod http;
mod lists;
mod pool;
mod processes;
mod results;
mod tls;

use crate::support::{Client, TestHub};
use serde_json::{Value, json};
use sim::awkward::http::{Kind, Manner, Running};
use sim::awkward::{Awkward, Server};
use std::path::PathBuf;

/// The awkward server over HTTP, in this process.
fn over_http(manner: Manner) -> Running {
    Running::start(Server::new(Awkward::default()), manner).expect("a free port")
}

fn manner(kind: Kind) -> Manner {
    Manner { kind, ..Manner::default() }
}

/// A hub with the source `odd`, of which every tool runs without asking.
fn hub_with(server: &[String]) -> TestHub {
    let hub = TestHub::new();
    let before = ["add", "--accept", "--namespace", "odd"].map(str::to_owned);
    hub.ok(before.iter().chain(server));
    allow_all(&hub);
    hub
}

/// The command line of the awkward server over its standard streams.
fn command(arguments: &[&str]) -> Vec<String> {
    let fixed = [env!("CARGO_BIN_EXE_sim"), "awkward"];
    fixed.iter().chain(arguments).map(|word| (*word).to_owned()).collect()
}

fn of_url(running: &Running) -> Vec<String> {
    vec![running.url()]
}

/// Where a hub keeps its files.
fn store(hub: &TestHub) -> PathBuf {
    hub.file("capabilities/hub")
}

/// Lets every reviewed tool of every source run, as a person who edits the policies would.
pub(crate) fn allow_all(hub: &TestHub) {
    for file in std::fs::read_dir(store(hub).join("policies")).unwrap() {
        let path = file.unwrap().path();
        let mut policy: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        policy["rules"] = json!([{ "scope": {}, "effect": "allow" }]);
        std::fs::write(&path, policy.to_string()).unwrap();
    }
}

/// Lowers a limit of the hub.
fn limit(hub: &TestHub, name: &str, value: u64) {
    let path = store(hub).join("hub.json");
    let mut settings: Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    settings["limits"][name] = json!(value);
    std::fs::write(&path, settings.to_string()).unwrap();
}

fn client(hub: &TestHub) -> Client {
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    client
}

/// What one call gives, or the fields of its error.
fn caught(client: &mut Client, call: &str) -> Value {
    let code = format!(
        "try {{ return {{ value: await {call} }} }} catch (e) {{ const {{ code, status, retryable, headers, detail, message }} = e; return {{ code, status, retryable, headers, detail, message }} }}"
    );
    let envelope = client.execute(&code);
    assert_eq!(envelope["status"], "completed", "{envelope:#}");
    envelope["result"].clone()
}
