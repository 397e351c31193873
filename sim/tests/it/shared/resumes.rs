//! Two processes that resume one run at the same time.

use crate::support::{Client, TestHub, until, until_every};
use rustix::process::Signal;
use serde_json::{Value, json};
use sim::seed::Seed;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_micros(200);
/// How far apart the two requests may be, in microseconds.
const APART_US_MAX: u64 = 40_000;

/// Four writes that run without asking, one after the other and side by side.
const WRITES: &str = "const one = await notes.addNote({ text: 'TAG-1' }).catch((e) => e.code);
const more = await Promise.all(['TAG-2', 'TAG-3'].map((text) => notes.addNote({ text }).catch((e) => e.code)));
return [one, more, await notes.addNote({ text: 'TAG-4' }).catch((e) => e.code)];";

/// A hub whose `notes.addNote` runs without asking.
fn free() -> TestHub {
    let hub = TestHub::new();
    let add = ["add", "--namespace", "notes"].map(str::to_owned);
    let command = add.into_iter().chain(hub.server("notes", &["--script", "notes"]));
    assert_eq!(hub.at_terminal("ytr\r\r\r", command).status, 0);
    hub
}

fn connected(hub: &TestHub) -> Client {
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    client
}

fn send(client: &mut Client, arguments: &Value) -> u64 {
    client.send("tools/call", json!({ "name": "execute", "arguments": arguments }))
}

fn envelope(answer: &Value) -> Value {
    answer["result"]["structuredContent"].clone()
}

/// How often each text of a tag reached the server.
fn times(hub: &TestHub, tag: &str) -> Vec<usize> {
    let calls = sim::server::calls(&hub.log("notes")).expect("a log");
    let of = |text: String| calls.iter().filter(|call| call["arguments"]["text"] == text).count();
    (1..=4).map(|number| of(format!("{tag}-{number}"))).collect()
}

/// The newest run.
fn newest(hub: &TestHub) -> String {
    hub.json(["runs"]).1["runs"][0]["id"].as_str().expect("a run").to_owned()
}

/// Is every write of the tag sent at most once, and never if the envelope says so?
#[track_caller]
fn once(hub: &TestHub, tag: &str, told: &[&Value]) {
    let times = times(hub, tag);
    assert!(times.iter().all(|times| *times <= 1), "{times:?} {told:#?}");
    let mut ended = told.iter().filter(|envelope| envelope["status"] != "running");
    let first = ended.next().expect("one of them drives it to its end");
    assert_eq!(first["status"], "completed", "{first:#}");
    assert!(ended.all(|other| other == first), "{told:#?}");
    let said = first["result"].to_string();
    for (number, times) in (1..).zip(times) {
        let happened = said.contains(&format!("added: {tag}-{number}"));
        assert!(!happened || times == 1, "{tag}-{number}: {times} times, {first:#}");
    }
}

#[test]
fn an_interrupted_run_that_two_resume_at_once_is_driven_by_one() {
    let hub = free();
    for seed in 0..8 {
        let (tag, mut draw) = (format!("i{seed}"), Seed(seed).stream("resumes"));
        let before = hub.calls("notes").len();
        let mut client = connected(&hub);
        send(&mut client, &json!({ "code": WRITES.replace("TAG", &tag) }));
        until_every(LOOK_EVERY, "a write", || (hub.calls("notes").len() > before).then_some(()));
        client.kill();

        let run = newest(&hub);
        let (mut one, mut other) = (connected(&hub), connected(&hub));
        let first = send(&mut one, &json!({ "resume": run }));
        let (since, apart) = (Instant::now(), Duration::from_micros(draw.below(APART_US_MAX)));
        while since.elapsed() < apart {
            std::hint::spin_loop();
        }
        let second = send(&mut other, &json!({ "resume": run }));
        let (first, second) = (envelope(&one.answer(first)), envelope(&other.answer(second)));
        once(&hub, &tag, &[&first, &second]);
        assert_eq!((one.close(), other.close()), (0, 0));
    }
}

#[test]
fn a_run_that_is_driven_by_its_first_process_is_waited_for_by_another() {
    let hub = free();
    for seed in 0..4 {
        let tag = format!("d{seed}");
        let before = hub.calls("notes").len();
        let (mut one, mut other) = (connected(&hub), connected(&hub));
        let first = send(&mut one, &json!({ "code": WRITES.replace("TAG", &tag) }));
        until_every(LOOK_EVERY, "a write", || (hub.calls("notes").len() > before).then_some(()));
        let run = newest(&hub);
        let second = send(&mut other, &json!({ "resume": run }));
        let (first, second) = (envelope(&one.answer(first)), envelope(&other.answer(second)));
        once(&hub, &tag, &[&first, &second]);
        assert_eq!(times(&hub, &tag), [1; 4]);
    }
}

#[test]
fn a_decided_run_whose_first_process_is_gone_is_driven_by_one_of_three() {
    let hub = TestHub::new();
    hub.add("notes", &["--script", "notes"]);
    for seed in 0..4 {
        let tag = format!("t{seed}");
        let run = hub.waiting(&WRITES.replace("TAG", &tag));
        let (mut one, mut other) = (connected(&hub), connected(&hub));
        let approve = hub.command(["approve", "--run", &run]);
        let journal = hub.store().join("runs").join(format!("{run}.journal.jsonl"));
        let bytes = || std::fs::metadata(&journal).map_or(0, |meta| meta.len());
        let before = bytes();
        let deciding = std::thread::spawn(move || {
            sim::answer::answer(&approve, "\r", crate::support::WITHIN, &mut std::io::sink())
        });
        until_every(LOOK_EVERY, "the decision", || (bytes() > before).then_some(()));
        let first = send(&mut one, &json!({ "resume": run }));
        let second = send(&mut other, &json!({ "resume": run }));
        let (first, second) = (envelope(&one.answer(first)), envelope(&other.answer(second)));
        let decided = deciding.join().expect("no panic").expect("it ends");
        assert_eq!(decided.status, 0, "{}", decided.output);
        once(&hub, &tag, &[&first, &second]);
        assert_eq!(times(&hub, &tag), [1; 4]);
    }
}

#[test]
fn a_run_whose_driver_stands_still_is_answered_as_running_and_never_driven_twice() {
    let hub = free();
    let settings = hub.store().join("hub.json");
    let mut value: Value =
        serde_json::from_str(&std::fs::read_to_string(&settings).expect("read")).expect("JSON");
    value["limits"] = json!({ "wallMs": 1500 });
    std::fs::write(&settings, value.to_string()).expect("written");

    let (mut one, mut other) = (connected(&hub), connected(&hub));
    let first = send(&mut one, &json!({ "code": WRITES.replace("TAG", "s") }));
    until_every(LOOK_EVERY, "a write", || (!hub.calls("notes").is_empty()).then_some(()));
    one.signal(Signal::STOP);
    let run = newest(&hub);
    let waited = other.envelope(&json!({ "resume": run }));
    assert_eq!(
        (&waited["status"], &waited["runId"]),
        (&json!("running"), &json!(run)),
        "{waited:#}"
    );
    let shown = hub.run(["approve", &run]);
    assert_ne!(shown.status, 0, "there is nothing to decide, and no terminal: {shown:#?}");
    one.signal(Signal::CONT);
    let ended = envelope(&one.answer(first));
    assert_eq!(until("the end", || Some(other.envelope(&json!({ "resume": run })))), ended);
    let times = times(&hub, "s");
    assert!(times.iter().all(|times| *times <= 1), "{times:?}");
}
