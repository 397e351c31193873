//! Questions and answers at a terminal.

use crate::support::{TestHub, until};
use serde_json::{Value, json};

const THREE: &str =
    "for (const text of ['a', 'b', 'c']) await notes.addNote({ text })\nreturn 'done'";

#[test]
fn a_question_shows_what_a_person_needs() {
    let hub = TestHub::with_notes();
    let run = hub.waiting("return await notes.addNote({ text: 'milk' })");
    let answered = hub.at_terminal("o", ["approve", &run]);
    for part in [
        run.as_str(),
        "c1 wants to call  notes.addNote",
        "the tool says: \"Add a note.\"",
        "\"text\": \"milk\"",
        "asks because the tool does not declare itself read-only",
        "open for 23 h 59 min",
        "[o] allow once   [r] allow for this run   [a] always allow   [d] deny",
    ] {
        assert!(answered.output.contains(part), "{part}: {}", answered.output);
    }
    assert!(answered.output.trim_end().ends_with("added: milk"), "{}", answered.output);
    assert_eq!(answered.status, 0);
    assert_eq!(hub.resume(&run)["result"], "added: milk");
}

#[test]
fn once_asks_for_every_call() {
    let hub = TestHub::with_notes();
    let run = hub.waiting(THREE);
    assert_eq!(hub.at_terminal("ooo", ["approve", &run]).status, 0);
    assert_eq!(hub.calls("notes"), ["add_note"; 3]);
}

#[test]
fn for_this_run_asks_once_and_ends_with_the_run() {
    let hub = TestHub::with_notes();
    let run = hub.waiting(THREE);
    assert_eq!(hub.at_terminal("r", ["approve", &run]).status, 0);
    assert_eq!(hub.calls("notes"), ["add_note"; 3]);
    hub.waiting(THREE);
    assert_eq!(hub.calls("notes").len(), 3);
}

#[test]
fn always_asks_once_for_every_run_of_that_tool_only() {
    let hub = TestHub::with_notes();
    let run = hub.waiting(THREE);
    assert_eq!(hub.at_terminal("a", ["approve", &run]).status, 0);
    assert_eq!(hub.exec(THREE).0, 0);
    assert_eq!(hub.calls("notes"), ["add_note"; 6]);
    hub.waiting("return await notes.shareNote({ text: 'x' })");
}

#[test]
fn a_denied_call_fails_in_the_code_and_the_same_call_is_denied_unasked() {
    let hub = TestHub::with_notes();
    let code = "const codes = []; for (const text of ['a', 'a', 'b']) try { await notes.addNote({ text }) } catch (e) { codes.push(e.code) }\nreturn codes";
    let run = hub.waiting(code);
    let answered = hub.at_terminal("do", ["approve", &run]);
    assert_eq!(answered.status, 0, "{}", answered.output);
    assert_eq!(hub.resume(&run)["result"], json!(["approval_denied", "approval_denied"]));
    let calls = sim::server::calls(&hub.log("notes")).unwrap();
    assert_eq!(calls, [json!({ "name": "add_note", "arguments": { "text": "b" } })]);

    let run = hub.waiting("return await notes.addNote({ text: 'c' })");
    let answered = hub.at_terminal("d", ["approve", &run]);
    assert_eq!(answered.status, 1, "{}", answered.output);
    assert!(answered.output.contains("approval_denied"), "{}", answered.output);
}

#[test]
fn calls_made_together_wait_together() {
    let hub = TestHub::with_notes();
    let code = "return await Promise.all(['a', 'b', 'c'].map(text => notes.addNote({ text })))";
    let (status, envelope) = hub.exec(code);
    assert_eq!(status, 3);
    assert_eq!(envelope["pending"].as_array().unwrap().len(), 3, "{envelope:#}");
    let run = envelope["runId"].as_str().unwrap();
    let answered = hub.at_terminal("r", ["approve", run]);
    assert_eq!(answered.status, 0, "{}", answered.output);
    assert_eq!(hub.resume(run)["result"], json!(["added: a", "added: b", "added: c"]));
}

#[test]
fn a_flag_preselects_what_enter_answers() {
    let hub = TestHub::with_notes();
    for (flag, word) in [
        ("--once", "allow once"),
        ("--run", "allow for this run"),
        ("--always", "always allow"),
        ("--deny", "deny"),
    ] {
        let tool = if flag == "--deny" { "shareNote" } else { "addNote" };
        let run = hub.waiting(&format!("return await notes.{tool}({{ text: '{flag}' }})"));
        let answered = hub.at_terminal("\r", ["approve", flag, &run]);
        assert!(answered.output.contains(&format!("[Enter] {word}")), "{}", answered.output);
        assert_eq!(answered.status, u32::from(flag == "--deny"), "{}", answered.output);
    }
    assert_eq!(hub.calls("notes"), ["add_note"; 3]);
}

#[test]
fn one_call_of_several_is_decided_alone_and_the_rest_waits() {
    let hub = TestHub::with_notes();
    let (_, envelope) =
        hub.exec("return await Promise.all(['a', 'b'].map(text => notes.addNote({ text })))");
    let run = envelope["runId"].as_str().unwrap();
    let answered = hub.at_terminal("o", ["approve", run, "--call", "c2"]);
    let (question, rest) = answered.output.split_once("> o\n").unwrap();
    assert!(
        question.contains("c2 wants to call") && !question.contains("c1 wants to call"),
        "{question}"
    );
    assert_eq!(answered.status, 3, "{}", answered.output);
    assert!(rest.contains("waits for you: c1") && !rest.contains("waits for you: c2"), "{rest}");
    assert!(hub.calls("notes").is_empty(), "nothing runs before everything is decided");
    assert_eq!(hub.at_terminal("o", ["approve", run]).status, 0);
    assert_eq!(hub.calls("notes"), ["add_note"; 2]);
}

#[test]
fn a_person_who_leaves_a_question_open_decides_nothing() {
    let hub = TestHub::with_notes();
    let run = hub.waiting(THREE);
    for key in ["\x1b", "\x03", "\x04"] {
        let left = hub.at_terminal(key, ["approve", &run]);
        assert_eq!(left.status, 3, "{}", left.output);
    }
    assert_eq!(hub.resume(&run)["status"], "awaiting_approval");
    assert!(hub.calls("notes").is_empty());
}

#[test]
fn what_is_piped_in_is_no_person() {
    let hub = TestHub::with_notes();
    let run = hub.waiting(THREE);
    for arguments in
        [&["approve", run.as_str()][..], &["approve", "--always", &run], &["--no-input", "approve"]]
    {
        let ended = hub.run_with(&hub.command(arguments), "ooo\na\ny\n");
        assert_eq!(ended.status, 3, "{ended:#?}");
        assert!(ended.stderr.contains("in your own terminal"), "{ended:#?}");
    }
    assert_eq!(hub.resume(&run)["status"], "awaiting_approval");
    assert!(hub.calls("notes").is_empty());
}

#[test]
fn a_task_over_two_sources_asks_exactly_once() {
    let hub = TestHub::new();
    hub.add("inbox", &["--script", "notes"]);
    hub.add("board", &["--script", "notes"]);
    let code = "const { notes } = await inbox.listNotes();\nconst top = notes.map(n => `• ${n.text} (#${n.id})`);\nreturn await board.addNote({ text: top.join('\\n') });";
    let answered = hub.at_terminal("o", ["exec", code]);
    assert_eq!(answered.status, 0, "{}", answered.output);
    assert!(answered.output.contains("• buy milk (#2)\\n• call mum (#1)"), "{}", answered.output);
    assert_eq!(
        (hub.calls("inbox"), hub.calls("board")),
        (vec!["list_notes".to_owned()], vec!["add_note".to_owned()])
    );
}

#[test]
fn a_read_that_is_replayed_is_not_sent_again() {
    let hub = TestHub::new();
    hub.add("inbox", &["--script", "notes"]);
    hub.add("board", &["--script", "notes"]);
    let code = "const before = Date.now(), dice = Math.random();\nconst { notes } = await inbox.listNotes();\nawait board.addNote({ text: notes[0].text + dice });\nreturn [notes.length, dice, Date.now() >= before]";
    let run = hub.waiting(code);
    assert_eq!(hub.calls("inbox"), ["list_notes"]);
    let answered = hub.at_terminal("o", ["approve", &run]);
    assert_eq!(answered.status, 0, "{}", answered.output);
    assert_eq!(hub.calls("inbox"), ["list_notes"]);
    let result = hub.resume(&run)["result"].clone();
    let written = sim::server::calls(&hub.log("board")).unwrap();
    assert_eq!(
        written[0]["arguments"]["text"],
        format!("buy milk{}", result[1]),
        "one seed for all attempts"
    );
    assert_eq!((hub.calls("inbox").len(), written.len()), (1, 1));
}

#[test]
fn a_client_whose_run_was_decided_elsewhere_gets_the_result() {
    let hub = TestHub::with_notes();
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    let asked = client.execute("return await notes.addNote({ text: 'x' })");
    assert_eq!(asked["status"], "awaiting_approval", "{asked:#}");
    let run = asked["runId"].as_str().unwrap().to_owned();
    let again = client.envelope(&json!({ "resume": run }));
    assert_eq!(again["status"], "awaiting_approval");
    for member in ["id", "kind", "address", "summary", "expires"] {
        assert_eq!(again["pending"][0][member], asked["pending"][0][member], "{again:#}");
    }
    assert!(hub.calls("notes").is_empty());
    assert_eq!(hub.at_terminal("o", ["approve", &run]).status, 0);
    assert_eq!(client.envelope(&json!({ "resume": run }))["result"], "added: x");
    assert_eq!(client.close(), 0);
    assert_eq!(hub.calls("notes"), ["add_note"]);
}

#[test]
fn approve_without_a_run_decides_all_that_wait() {
    let hub = TestHub::with_notes();
    let runs = ["a", "b"]
        .map(|text| hub.waiting(&format!("return await notes.addNote({{ text: '{text}' }})")));
    assert_eq!(hub.at_terminal("oo", ["approve"]).status, 0);
    let results = runs.map(|run| hub.resume(&run)["result"].clone());
    assert_eq!(results, [json!("added: a"), json!("added: b")]);
    assert_eq!(hub.at_terminal("", ["approve"]).output.trim(), "Nothing waits for you.");
}

#[test]
fn a_waiting_run_goes_on_where_it_began_as_soon_as_it_is_decided() {
    let hub = TestHub::with_notes();
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    let run = client.execute("return await notes.addNote({ text: 'x' })")["runId"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(hub.at_terminal("o", ["approve", &run]).status, 0);
    let status = until("the end of the run", || {
        let listed = hub.json(["runs"]).1;
        (listed["runs"][0]["status"] == "completed").then(|| listed["runs"][0]["status"].clone())
    });
    assert_eq!(status, Value::from("completed"));
    assert_eq!(hub.calls("notes"), ["add_note"]);
}
