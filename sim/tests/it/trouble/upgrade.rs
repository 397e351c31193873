//! A newer hub takes the store over while an older one still serves.

use super::said::plain;
use crate::support::{TestHub, until};
use serde_json::json;
use std::fmt::Write as _;

/// Says in `hub.json` that the store has this format.
fn format(hub: &TestHub, from: u32, to: u32) {
    let path = hub.store().join("hub.json");
    let text = std::fs::read_to_string(&path).expect("settings");
    let (from, to) = (format!("\"version\": {from}"), format!("\"version\": {to}"));
    assert!(text.contains(&from), "{text}");
    std::fs::write(path, text.replacen(&from, &to, 1)).expect("written");
}

#[test]
fn an_older_hub_stops_writing_at_once_and_says_why() {
    let hub = TestHub::with_notes();
    let gate = hub.file("gate");
    std::fs::write(&gate, "").expect("written");
    hub.add("late", &["--start-when", gate.to_str().expect("a path")]);
    std::fs::remove_file(&gate).expect("there");
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    let waits = client.execute("return await notes.addNote({ text: 'x' })");
    let waits = waits["runId"].as_str().expect("an id").to_owned();
    let runs = || std::fs::read_dir(hub.store().join("runs")).expect("a folder").count();
    let before = runs();
    let code = "await late.listNotes(); return await notes.addNote({ text: 'y' })";
    let running =
        client.send("tools/call", json!({ "name": "execute", "arguments": { "code": code } }));
    until("the run", || (runs() > before).then_some(()));

    format(&hub, 1, 2);
    std::fs::write(&gate, "").expect("written");
    let mut text = String::new();
    let ended = client.answer(running)["result"]["structuredContent"].clone();
    let _ = writeln!(text, "== a run that is under way\n{:#}\n", ended["error"]);
    let run = ended["runId"].as_str().expect("an id").to_owned();
    let begins = client.refusal("execute", &json!({ "code": "return 1" }));
    let _ = writeln!(text, "== a run that begins\n{begins}\n");
    let resumed = client.refusal("execute", &json!({ "resume": waits }));
    let _ = writeln!(text, "== a run that is resumed\n{resumed}\n");
    let answered = hub.at_terminal("", ["approve", &waits]);
    let _ = writeln!(text, "== approve\n{}exit status {}", answered.output, answered.status);
    insta::assert_snapshot!(plain(&hub.file(""), &text));

    // Nothing is lost: a hub that knows the format goes on with both.
    format(&hub, 2, 1);
    assert!(hub.calls("notes").is_empty());
    assert_eq!(client.close(), 0);
    assert_eq!(hub.resume(&run)["status"], "awaiting_approval");
    assert_eq!(hub.at_terminal("o", ["approve", &run]).status, 0);
    assert_eq!(hub.at_terminal("o", ["approve", &waits]).status, 0);
    assert_eq!(hub.calls("notes"), ["add_note"; 2]);
}
