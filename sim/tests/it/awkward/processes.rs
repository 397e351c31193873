//! Local servers that talk too much, start late, die, hang, or leave something behind.

use super::{caught, client, command, hub_with, limit};
use crate::support::{TestHub, until};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

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

#[test]
fn a_server_that_reads_nothing_any_more_holds_up_no_call_and_no_end() {
    let hub = hub_with(&command(&["--quirk", "deaf"]));
    limit(&hub, "upstreamTimeoutMs", 300);
    limit(&hub, "wallMs", 4_000);
    let mut client = client(&hub);
    // More than fits between two processes, so that it is never written to its end.
    let code = "const text = 'x'.repeat(200000);
const hung = odd.hang().catch((e) => e.code);
const more = [1, 2].map(() => odd.echoArgs({ text }).catch((e) => e.code));
return [await hung, ...await Promise.all(more)]";
    let began = Instant::now();
    assert_eq!(client.execute(code)["result"], json!(vec!["outcome_unknown"; 3]));
    client.close();
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

fn alive(process: &str) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(process).join("stat"));
    // A zombie is dead: only nobody has looked yet.
    status.is_ok_and(|status| !status.contains(") Z "))
}

/// A hub that was started over wrappers, as many as there are names, and the processes that its servers
/// left behind.
fn with_grandchildren(names: &[&str]) -> (TestHub, crate::support::Client, Vec<String>) {
    let hub = TestHub::new();
    let mut left = Vec::new();
    for name in names {
        let log = hub.file(&format!("{name}.log"));
        let inner = command(&["--quirk", "grandchild", "--log", log.to_str().unwrap()]);
        let line = format!("'{}'; true", inner.join("' '"));
        // As package runners do: the server is the child of what was started.
        hub.ok(["add", "--accept", "--namespace", name, "sh", "-c", &line]);
        left.push(log.with_extension("grandchild"));
    }
    let mut client = client(&hub);
    let mut processes = Vec::new();
    for (name, left) in names.iter().zip(left) {
        std::fs::remove_file(&left).unwrap();
        let code = format!("return await {name}.readThing()");
        assert_eq!(client.execute(&code)["result"], "ran:read_thing");
        processes.push(std::fs::read_to_string(&left).unwrap());
    }
    assert!(processes.iter().all(|process| alive(process)));
    (hub, client, processes)
}

#[test]
fn nothing_of_a_server_outlives_the_hub() {
    let (_hub, client, processes) = with_grandchildren(&["odd"]);
    client.close();
    until("the end of what it left behind", || (!alive(&processes[0])).then_some(()));
}

#[test]
fn nothing_of_any_server_outlives_a_hub_that_is_killed() {
    let (_hub, client, processes) = with_grandchildren(&["odd", "even", "third"]);
    client.kill();
    for process in processes {
        until("the end of what it left behind", || (!alive(&process)).then_some(()));
    }
}

/// The process that ends what a hub leaves behind.
fn keeper_of(hub: u32) -> u32 {
    let keepers = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let process: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let read = |name: &str| std::fs::read(format!("/proc/{process}/{name}")).ok();
        let line = String::from_utf8(read("cmdline")?).ok()?;
        let status = String::from_utf8(read("status")?).ok()?;
        let child = status.lines().any(|line| line == format!("PPid:\t{hub}"));
        (child && line.contains("__source-keeper")).then_some(process)
    });
    keepers.last().expect("a keeper")
}

#[test]
fn a_keeper_that_died_is_replaced_by_one_that_knows_as_much() {
    use rustix::process::{Pid, Signal, kill_process};
    let (hub, mut client, processes) = with_grandchildren(&["odd"]);
    let keeper = keeper_of(client.process());
    kill_process(Pid::from_raw(keeper.cast_signed()).unwrap(), Signal::KILL).unwrap();
    until("the end of the keeper", || (!alive(&keeper.to_string())).then_some(()));
    let before = ["add", "--accept", "--namespace", "even"].map(str::to_owned);
    hub.ok(before.iter().chain(&command(&[])));
    assert_eq!(client.execute("return await even.readThing()")["result"], "ran:read_thing");
    client.kill();
    until("the end of what it left behind", || (!alive(&processes[0])).then_some(()));
}
