//! The hub killed in the middle of a write.

use crate::support::{TestHub, until};
use serde_json::{Value, json};

/// A hub in which `notes.hangWrite` runs without asking.
fn hub_that_lets_it_hang() -> TestHub {
    let hub = TestHub::with_notes();
    let switch = ["add", "--namespace", "slow"].map(str::to_owned);
    // In the order of the review: addNote, crash, deleteNote, drawNote, halfNote, hangRead, hangWrite.
    let added =
        hub.at_terminal("yt\r\r\r\r\r\rrq", switch.into_iter().chain(hub.server("slow", &[])));
    assert_eq!(added.status, 0, "{}", added.output);
    hub
}

/// Runs `code` in a serving hub that is killed once `slow` got its call; the run's id.
fn killed_in(hub: &TestHub, code: &str) -> String {
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    client.send("tools/call", json!({ "name": "execute", "arguments": { "code": code } }));
    until("the write", || (hub.calls("slow") == ["hang_write"]).then_some(()));
    client.kill();
    let listed = hub.json(["runs"]).1;
    listed["runs"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_write_cut_off_by_a_kill_is_unknown_and_never_sent_again() {
    let hub = hub_that_lets_it_hang();
    let run = killed_in(&hub, "return await slow.hangWrite({ text: 'x' })");
    let (_, listed) = hub.json(["runs", "--status", "running"]);
    assert_eq!(
        listed["runs"][0]["id"],
        run.as_str(),
        "interrupted, and nobody goes on with it unasked"
    );

    let envelope = hub.resume(&run);
    assert_eq!(envelope["status"], "failed", "{envelope:#}");
    assert!(envelope["error"].to_string().contains("outcome_unknown"), "{envelope:#}");
    assert!(envelope["notices"].to_string().contains("slow.hangWrite"), "{envelope:#}");
    assert_eq!(hub.resume(&run), envelope, "a run that is over answers what it answered");
    assert_eq!(hub.calls("slow"), ["hang_write"]);
    let shown = hub.ok(["runs", "show", &run]);
    assert!(shown.contains("c1 sent") && shown.contains("outcome_unknown"), "{shown}");
}

#[test]
fn code_can_catch_the_unknown_outcome_and_look_before_it_goes_on() {
    let hub = hub_that_lets_it_hang();
    let code = "const first = await notes.listNotes();\ntry { await slow.hangWrite({ text: 'x' }) } catch (e) { return [e.code, e.retryable, first.notes.length, (await notes.listNotes()).notes.length] }";
    let run = killed_in(&hub, code);
    assert_eq!(hub.calls("notes"), ["list_notes"]);
    let envelope = hub.resume(&run);
    assert_eq!(envelope["result"], json!(["outcome_unknown", false, 2, 2]), "{envelope:#}");
    assert_eq!(hub.calls("slow"), ["hang_write"]);
    assert_eq!(hub.calls("notes"), ["list_notes"; 2], "the first read was replayed");
}

#[test]
fn an_approved_write_cut_off_by_a_kill_is_not_asked_about_again() {
    let hub = TestHub::with_notes();
    hub.add("slow", &[]);
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    let envelope = client.execute("return await slow.hangWrite({ text: 'x' })");
    let run = envelope["runId"].as_str().unwrap().to_owned();
    let approve = hub.command(["approve", &run]);
    let answering = std::thread::spawn(move || {
        sim::answer::answer(&approve, "o", crate::support::WITHIN, &mut std::io::sink()).unwrap()
    });
    until("the write", || (hub.calls("slow") == ["hang_write"]).then_some(()));
    client.kill();
    // The decider waits for the run and goes on with it once its first driver is dead.
    let answered = answering.join().unwrap();
    assert_eq!((answered.status, answered.prompts), (1, 1), "{}", answered.output);
    assert!(answered.output.contains("outcome_unknown"), "{}", answered.output);
    assert_eq!(hub.resume(&run)["status"], Value::from("failed"));
    assert_eq!(hub.calls("slow"), ["hang_write"]);
}
