//! Running code and calls, and looking at what ran.

use crate::support::TestHub;
use serde_json::{Value, json};

#[test]
fn a_read_runs_without_asking_and_prints_its_result() {
    let hub = TestHub::with_notes();
    let ended = hub.run(["exec", "return (await notes.listNotes()).notes.map(n => n.text).join()"]);
    assert_eq!(
        (ended.status, ended.stdout.as_str()),
        (0, "buy milk,call mum\n"),
        "{}",
        ended.stderr
    );
    let ended = hub.run(["call", "notes.listNotes"]);
    assert_eq!(ended.status, 0);
    assert_eq!(serde_json::from_str::<Value>(&ended.stdout).unwrap()["notes"][1]["id"], 1);
    let (status, envelope) = hub.json(["call", "notes.listNotes", "{}"]);
    assert_eq!((status, &envelope["status"]), (0, &json!("completed")));
    assert_eq!(envelope["calls"][0]["address"], "notes.listNotes");
    assert_eq!(envelope["calls"][0]["ok"], true);
}

#[test]
fn code_is_read_from_standard_input() {
    let hub = TestHub::with_notes();
    let ended = hub.run_with(&hub.command(["exec", "-"]), "const x: number = 6;\nreturn x * 7");
    assert_eq!((ended.status, ended.stdout.as_str()), (0, "42\n"), "{}", ended.stderr);
}

#[test]
fn values_of_every_kind_arrive_whole() {
    let hub = TestHub::with_notes();
    let large = sim::server::LARGE_INTEGER;
    let (_, envelope) = hub.exec("const { number } = await notes.noteNumber(); return [typeof number, number, number + 1n, JSON.stringify({ number })]");
    assert_eq!(
        envelope["result"],
        json!(["bigint", large, large + 1, format!("{{\"number\":\"{large}\"}}")])
    );
    assert!(hub.ok(["call", "notes.noteNumber"]).contains(&format!("\"number\": {large}")));

    let (_, envelope) = hub.exec("return await notes.drawNote()");
    assert_eq!(envelope["result"]["type"], "image");
    assert_eq!(envelope["result"]["mimeType"], "image/png");
    assert!(
        envelope["result"]["handle"].is_string() && envelope["result"].get("data").is_none(),
        "{envelope:#}"
    );

    let code = "try { await notes.refuseNote() } catch (e) { return [e instanceof ToolError, e.code, e.message.includes('not today')] }";
    assert_eq!(hub.exec(code).1["result"], json!([true, "upstream_error", true]));
}

#[test]
fn a_large_integer_leaves_as_it_was_typed() {
    let hub = TestHub::with_notes();
    let large = sim::server::LARGE_INTEGER;
    let answered =
        hub.at_terminal("o", ["call", "notes.deleteNote", &format!("{{\"id\":{large}}}")]);
    assert_eq!(answered.status, 0, "{}", answered.output);
    assert!(
        answered.output.contains(&format!("\"id\": {large}")),
        "the question shows it whole: {}",
        answered.output
    );
    let calls = sim::server::calls(&hub.log("notes")).unwrap();
    assert_eq!(calls, [json!({ "name": "delete_note", "arguments": { "id": large } })]);
}

#[test]
fn a_write_without_a_terminal_prints_what_waits_and_sends_nothing() {
    let hub = TestHub::with_notes();
    let ended = hub.run(["exec", "return await notes.addNote({ text: 'milk and honey' })"]);
    assert_eq!((ended.status, ended.stdout.as_str()), (3, ""));
    for part in
        ["waits for you", "notes.addNote", "milk and honey", "capabilities hub approve run_"]
    {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    let ended = hub.run(["call", "notes.addNote", r#"{"text":"x"}"#]);
    assert_eq!(ended.status, 3);
    let mut command =
        hub.command(["--no-input", "exec", "return await notes.addNote({ text: 'x' })"]);
    assert_eq!(hub.at_terminal_with("", &command).status, 3);
    command = hub.command(["exec", "return await notes.addNote({ text: 'x' })"]);
    command.env("CLAUDECODE", "1");
    assert_eq!(hub.at_terminal_with("", &command).status, 3);
    assert!(hub.calls("notes").is_empty());
}

#[test]
fn a_failed_run_exits_with_one_and_says_where() {
    let hub = TestHub::with_notes();
    let check = |code: &str, expected: &str, shown: &str| {
        let (status, envelope) = hub.exec(code);
        assert_eq!((status, &envelope["status"]), (1, &json!("failed")), "{envelope:#}");
        assert_eq!(envelope["error"]["code"], expected, "{envelope:#}");
        assert!(envelope["error"]["message"].as_str().unwrap().contains(shown), "{envelope:#}");
        assert!(envelope["error"]["hint"].is_string(), "{envelope:#}");
    };
    check("throw new Error('no milk')", "uncaught_error", "no milk");
    check("return await notes.listNote()", "uncaught_error", "listNotes");
    check("return await notes.addNote({})", "uncaught_error", "text");
    check("return await new Promise(() => {})", "never_settles", "");
    let refused = hub.run(["exec", "return 1 +"]);
    assert_eq!(refused.status, 1, "{refused:#?}");
    assert!(refused.stderr.contains("return 1 +"), "{}", refused.stderr);
}

#[test]
fn a_server_that_dies_in_a_write_leaves_the_outcome_unknown_and_comes_back() {
    let hub = TestHub::with_notes();
    let code = "let lost; try { await notes.crash() } catch (e) { lost = [e.code, e.retryable] }\nreturn [lost, (await notes.listNotes()).notes.length]";
    let command = hub.command(["--json", "exec", code]);
    let answered = hub.at_terminal_with("o", &command);
    assert_eq!(answered.status, 0, "{}", answered.output);
    let last = answered.output.lines().last().unwrap();
    let envelope: Value = serde_json::from_str(last).unwrap();
    assert_eq!(envelope["result"], json!([["outcome_unknown", false], 2]), "{envelope:#}");
    assert_eq!(hub.calls("notes"), ["crash", "list_notes"]);
}

#[test]
fn runs_are_listed_filtered_and_shown() {
    let hub = TestHub::with_notes();
    assert_eq!(hub.ok(["runs"]), "No runs.\n");
    let (_, done) = hub.exec("return (await notes.listNotes()).notes.length");
    let waits = hub.waiting("// a comment\nreturn await notes.addNote({ text: 'x' })");
    let done = done["runId"].as_str().unwrap();

    let (status, listed) = hub.json(["runs"]);
    assert_eq!(status, 0);
    let ids: Vec<_> =
        listed["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [waits.as_str(), done], "newest first");
    let only = hub.ok(["runs", "--status", "awaiting_input"]);
    assert!(only.contains(&waits) && !only.contains(done), "{only}");
    assert_eq!(hub.ok(["runs", "--status", "failed"]), "No runs.\n");

    let shown = hub.ok(["runs", "show", done]);
    for part in
        ["completed", "listNotes()", "c1 asked    list_notes", "c1 settled  ok", "result\n2"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown = hub.ok(["runs", "show", &waits]);
    for part in [
        "awaiting_input",
        "   2 | return await",
        "waits for a person: c1 notes.addNote",
        "\"text\": \"x\"",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let (_, shown) = hub.json(["runs", "show", &waits]);
    assert_eq!(shown["undecided"][0]["address"], "notes.addNote");
}

#[test]
fn a_run_is_cancelled_whether_it_waits_or_runs() {
    let hub = TestHub::with_notes();
    let waits = hub.waiting("return await notes.addNote({ text: 'x' })");
    assert_eq!(hub.ok(["cancel", &waits]), format!("Cancelled {waits}.\n"));
    assert_eq!(hub.resume(&waits)["status"], "cancelled");
    assert_eq!(hub.json(["runs"]).1["runs"][0]["status"], "cancelled");
    assert!(
        hub.ok(["cancel", &waits]).contains("is over already")
            || hub.ok(["cancel", &waits]).contains("Cancelled")
    );
    let nothing = hub.at_terminal("", ["approve"]);
    assert!(nothing.output.contains("Nothing waits for you."), "{}", nothing.output);
    let late = hub.at_terminal("", ["approve", &waits]);
    assert_eq!(late.status, 1, "{}", late.output);

    let mut client = hub.serve();
    client.initialize("2025-11-25");
    let running = client.send(
        "tools/call",
        json!({ "name": "execute", "arguments": { "code": "return await notes.hangRead()" } }),
    );
    crate::support::until("the read", || (hub.calls("notes") == ["hang_read"]).then_some(()));
    let run = hub.json(["runs"]).1["runs"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(hub.ok(["cancel", &run]), format!("Cancelled {run}.\n"));
    assert_eq!(client.answer(running)["result"]["structuredContent"]["status"], "cancelled");
    assert_eq!(hub.calls("notes"), ["hang_read"]);
}
