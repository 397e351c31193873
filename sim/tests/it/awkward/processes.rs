//! Local servers that talk too much, start late, die, hang, or leave something behind.

use super::{caught, client, command, hub_with, limit};
use crate::support::{TestHub, until};
use serde_json::json;
use std::path::Path;

#[test]
fn lines_that_are_no_messages_are_skipped() {
    let hub = hub_with(&command(&["--quirk", "banner"]));
    assert_eq!(caught(&mut client(&hub), "odd.getUser()")["value"], "ran:get.user");
}

#[test]
fn any_amount_of_error_output_is_drained() {
    let hub = hub_with(&command(&["--quirk", "noise"]));
    assert_eq!(caught(&mut client(&hub), "odd.getUser()")["value"], "ran:get.user");
}

#[test]
fn a_server_that_ends_before_it_answers_leaves_its_status_and_last_word() {
    let hub = TestHub::new();
    let before = ["add", "--accept", "--namespace", "odd"].map(str::to_owned);
    let added = hub.run(before.iter().chain(&command(&["--quirk", "dies-first"])));
    assert_eq!(added.status, 1, "{added:#?}");
    assert!(
        added.stderr.contains("exit status: 3") && added.stderr.contains("no API key in sight"),
        "{added:#?}"
    );
    assert_eq!(hub.json(["list"]).1["sources"], json!([]), "its name is free again");
}

#[test]
fn a_server_that_starts_late_holds_up_nobody_else() {
    let hub = hub_with(&command(&[]));
    let gate = hub.file("gate");
    std::fs::write(&gate, "").unwrap();
    let late = command(&["--start-when", gate.to_str().unwrap()]);
    let before = ["add", "--accept", "--namespace", "late"].map(str::to_owned);
    hub.ok(before.iter().chain(&late));
    std::fs::remove_file(&gate).unwrap();
    let mut client = client(&hub);
    let late = client.send(
        "tools/call",
        json!({ "name": "execute", "arguments": { "code": "return await late.readThing()" } }),
    );
    // While that waits, everything else is answered.
    let found = client.text("search", &json!({ "query": "read thing" }));
    assert!(found.contains("late.readThing") && found.contains("odd.readThing"), "{found}");
    assert_eq!(caught(&mut client, "odd.readThing()")["value"], "ran:read_thing");
    std::fs::write(&gate, "").unwrap();
    assert_eq!(client.answer(late)["result"]["structuredContent"]["result"], "ran:read_thing");
}

#[test]
fn a_server_that_dies_in_a_call_is_started_again() {
    let hub = hub_with(&command(&[]));
    let mut client = client(&hub);
    let crashed = caught(&mut client, "odd.crash()");
    assert_eq!(crashed["code"], "outcome_unknown");
    assert!(crashed["message"].as_str().unwrap().contains("exit status: 70"), "{crashed:#}");
    assert_eq!(caught(&mut client, "odd.getUser()")["value"], "ran:get.user");
}

#[test]
fn a_call_that_hangs_ends_alone() {
    let hub = hub_with(&command(&[]));
    limit(&hub, "upstreamTimeoutMs", 300);
    let mut client = client(&hub);
    let code = "await odd.set({ value: 'kept' });
const hung = odd.hang().catch((e) => e.code);
const beside = await odd.waitFor({ path: '/' });
return [await hung, beside, await odd.get()]";
    let envelope = client.execute(code);
    assert_eq!(
        envelope["result"],
        json!(["outcome_unknown", "it is there", "\"kept\""]),
        "the server lives on: {envelope:#}"
    );
}

#[test]
fn progress_extends_a_call_up_to_the_wall() {
    let hub = hub_with(&command(&[]));
    limit(&hub, "upstreamTimeoutMs", 400);
    limit(&hub, "wallMs", 3_000);
    let mut client = client(&hub);
    let slow = "odd.progress({ times: 12, everyMs: 100 })";
    assert_eq!(caught(&mut client, slow)["value"], "done");
    let endless = client.execute("return await odd.progress({ times: 1000, everyMs: 50 })");
    assert_eq!(endless["error"]["code"], "wall_limit", "{endless:#}");
    assert!(endless["notices"].to_string().contains("odd.progress"), "{endless:#}");
    assert_eq!(caught(&mut client, "odd.getUser()")["value"], "ran:get.user");
}

fn alive(process: &str) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(process).join("stat"));
    // A zombie is dead: only nobody has looked yet.
    status.is_ok_and(|status| !status.contains(") Z "))
}

/// A hub that was started over a wrapper, and the process that its server left behind.
fn with_a_grandchild() -> (TestHub, crate::support::Client, String) {
    let hub = TestHub::new();
    let log = hub.file("odd.log");
    let inner = command(&["--quirk", "grandchild", "--log", log.to_str().unwrap()]);
    let line = format!("'{}'; true", inner.join("' '"));
    // As package runners do: the server is the child of what was started.
    hub.ok(["add", "--accept", "--namespace", "odd", "sh", "-c", &line]);
    let left = log.with_extension("grandchild");
    std::fs::remove_file(&left).unwrap();
    let mut client = client(&hub);
    assert_eq!(client.execute("return await odd.readThing()")["result"], "ran:read_thing");
    let process = std::fs::read_to_string(&left).unwrap();
    assert!(alive(&process));
    (hub, client, process)
}

#[test]
fn nothing_of_a_server_outlives_the_hub() {
    let (_hub, client, process) = with_a_grandchild();
    client.close();
    until("the end of what it left behind", || (!alive(&process)).then_some(()));
}

#[test]
fn nothing_of_a_server_outlives_a_hub_that_is_killed() {
    let (_hub, client, process) = with_a_grandchild();
    client.kill();
    until("the end of what it left behind", || (!alive(&process)).then_some(()));
}
