//! Adding, reviewing, listing, refreshing and removing sources.

use crate::support::TestHub;
use serde_json::json;

#[test]
fn a_person_adds_reviews_lists_and_removes_a_source() {
    let hub = TestHub::new();
    let add = ["add", "--namespace", "notes"].map(str::to_owned);
    let added =
        hub.at_terminal("ya", add.into_iter().chain(hub.server("notes", &["--script", "notes"])));
    assert_eq!(added.status, 0, "{}", added.output);
    let shown = added.output.split("> y").next().unwrap();
    assert!(
        shown.contains("Source notes") && shown.contains(hub.log("notes").to_str().unwrap()),
        "{shown}"
    );
    for class in [
        "Read-only    run without asking (1)",
        "Writes       ask each time (2)",
        "Destructive  ask each time, deletes or overwrites (1)",
    ] {
        assert!(added.output.contains(class), "{}", added.output);
    }
    assert!(added.output.contains("Added notes: 4 tools, 4 reviewed."), "{}", added.output);

    assert!(hub.ok(["list"]).starts_with("notes  4 tools\n"));
    assert!(hub.ok(["review", "--accept"]).contains("Nothing to review."));
    let (status, found) = hub.exec("return await notes.listNotes()");
    assert_eq!((status, &found["result"]["notes"][0]["text"]), (0, &json!("buy milk")));

    assert!(hub.ok(["remove", "notes"]).contains("Removed notes"));
    assert!(hub.ok(["list"]).starts_with("No sources yet."));
    let gone = hub.run(["remove", "notes"]);
    assert_eq!((gone.status, gone.stdout.as_str()), (1, ""));
    assert!(gone.stderr.contains("there is no source `notes`"), "{}", gone.stderr);
    assert_ne!(hub.exec("return await notes.listNotes()").0, 0);
}

#[test]
fn a_person_who_says_no_adds_nothing_and_nothing_ran() {
    let hub = TestHub::new();
    for key in ["n", "\x1b", "\x03"] {
        let declined =
            hub.at_terminal(key, ["add".to_owned()].into_iter().chain(hub.server("notes", &[])));
        assert_eq!(declined.status, 1, "{}", declined.output);
        assert!(declined.output.contains("Nothing was added."), "{}", declined.output);
    }
    assert!(hub.ok(["list"]).starts_with("No sources yet."));
    assert!(!hub.log("notes").exists());
}

#[test]
fn an_agents_shell_adds_a_source_of_which_nothing_runs() {
    let hub = TestHub::new();
    let words = ["add", "--namespace", "notes"].map(str::to_owned);
    let mut add = hub.command(words.into_iter().chain(hub.server("notes", &[])));
    add.env("CLAUDECODE", "1");
    let added = hub.at_terminal_with("", &add);
    assert_eq!(added.status, 0, "{}", added.output);
    assert!(added.output.contains("Nothing of it runs until a person agrees"), "{}", added.output);

    assert!(hub.ok(["list"]).contains("not agreed to; nothing of it runs"));
    let refresh = hub.run(["refresh", "notes"]);
    assert_eq!(refresh.status, 1, "{refresh:#?}");
    assert!(
        refresh.stderr.contains("nobody has agreed")
            || refresh.stdout.contains("nobody has agreed"),
        "{refresh:#?}"
    );
    assert_eq!(hub.ok(["refresh"]).trim(), "No sources to refresh.");
    assert_eq!(hub.run(["doctor"]).status, 1);
    let (status, envelope) = hub.exec("return await notes.listNotes()");
    assert_eq!((status, &envelope["status"]), (1, &json!("failed")), "{envelope:#}");
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    assert!(!client.text("search", &json!({ "query": "notes" })).contains("listNotes"));
    assert!(!hub.log("notes").exists(), "something of it ran");

    let reviewed = hub.at_terminal("ya", ["review"]);
    assert!(reviewed.output.contains("11 tools reviewed; none is left."), "{}", reviewed.output);
    assert!(
        client.text("search", &json!({ "query": "list every note" })).contains("notes.listNotes"),
        "a running hub sees it"
    );
    assert_eq!(hub.exec("return await notes.listNotes()").0, 0);
}

#[test]
fn what_widens_authority_refuses_in_an_agents_shell() {
    let hub = TestHub::with_notes();
    let run = hub.waiting("return await notes.addNote({ text: 'x' })");
    let add = ["add", "--accept", "--namespace", "more"]
        .map(str::to_owned)
        .into_iter()
        .chain(hub.server("more", &[]))
        .collect();
    let words =
        |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    for variable in ["CLAUDECODE", "CURSOR_AGENT", "GEMINI_CLI", "CODEX_SANDBOX", "AGENT"] {
        for arguments in
            [&add, &words(&["approve", &run]), &words(&["review"]), &words(&["review", "--accept"])]
        {
            let mut command = hub.command(arguments);
            command.env(variable, "1");
            let refused = hub.at_terminal_with("", &command);
            assert_eq!(refused.status, 1, "{arguments:?}: {}", refused.output);
            assert!(
                refused.output.contains(&format!("{variable} is set")),
                "{arguments:?}: {}",
                refused.output
            );
            assert!(
                refused.output.contains("in your own terminal"),
                "{arguments:?}: {}",
                refused.output
            );
        }
    }
    assert!(!hub.log("more").exists());
    assert!(hub.calls("notes").is_empty());
}

#[test]
fn a_review_tool_by_tool_decides_each_of_them() {
    let hub = TestHub::new();
    let add = ["add", "--namespace", "notes"].map(str::to_owned);
    // addNote runs, deleteNote is denied, listNotes is as proposed, shareNote is skipped.
    let added = hub
        .at_terminal("ytrd\rs", add.into_iter().chain(hub.server("notes", &["--script", "notes"])));
    assert!(added.output.contains("Added notes: 4 tools, 3 reviewed."), "{}", added.output);
    assert!(hub.ok(["list"]).starts_with("notes  4 tools, 1 to review\n"));

    assert_eq!(hub.exec("return await notes.addNote({ text: 'x' })").0, 0);
    assert_eq!(hub.exec("return await notes.listNotes()").0, 0);
    let code = "try { await notes.deleteNote({ id: 1 }) } catch (e) { return [e.name, e.code, e.address, e.retryable] }";
    assert_eq!(
        hub.exec(code).1["result"],
        json!(["ToolError", "denied_by_policy", "notes.deleteNote", false])
    );
    hub.waiting("return await notes.shareNote({ text: 'x' })");
    assert_eq!(hub.calls("notes"), ["add_note", "list_notes"]);

    let found = hub.exec("return await hub.search('delete a note')").1;
    let text = found["result"].as_str().unwrap();
    assert!(
        !text.contains("deleteNote") && text.contains("hidden: denied by the user's policy"),
        "{text}"
    );
}

#[test]
fn a_refresh_says_what_is_changed() {
    let hub = TestHub::new();
    let switch = hub.file("changed");
    hub.add("notes", &["--script", "notes", "--changed-if", switch.to_str().unwrap()]);
    assert_eq!(hub.ok(["refresh"]), "notes  4 tools\n");
    std::fs::write(&switch, "").unwrap();
    let (status, said) = hub.json(["refresh", "notes"]);
    assert_eq!(status, 0);
    assert_eq!(said["sources"][0]["changed"], json!(["notes.shareNote"]));
    assert_eq!(said["toReview"], 1);
    let reviewed = hub.at_terminal("a", ["review", "notes"]);
    assert!(
        reviewed.output.contains("Changed since you reviewed it: shareNote"),
        "{}",
        reviewed.output
    );
    let change = "description: was \"Share a note with the team.\", is \"Share a note with everyone on the internet.\"";
    assert!(reviewed.output.contains(change), "{}", reviewed.output);
    assert_eq!(hub.json(["refresh"]).1["toReview"], 0);
}

#[test]
fn a_source_that_cannot_start_is_not_added_and_keeps_no_name() {
    let hub = TestHub::new();
    let failed = hub.run([
        "add",
        "--accept",
        "--namespace",
        "notes",
        "/bin/sh",
        "-c",
        "echo the disk is full >&2; exit 9",
    ]);
    assert_eq!(failed.status, 1);
    assert!(
        failed.stderr.contains("exit status: 9") && failed.stderr.contains("the disk is full"),
        "{}",
        failed.stderr
    );
    hub.add("notes", &[]);
    assert!(hub.ok(["list"]).starts_with("notes  11 tools\n"));
}

#[test]
fn a_source_that_starts_late_holds_up_nobody_else() {
    let hub = TestHub::with_notes();
    let gate = hub.file("gate");
    std::fs::write(&gate, "").unwrap();
    hub.add("late", &["--start-when", gate.to_str().unwrap()]);
    std::fs::remove_file(&gate).unwrap();
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    assert!(
        client
            .text("search", &json!({ "query": "", "namespace": "late" }))
            .contains("late.listNotes")
    );
    let waiting = client.send(
        "tools/call",
        json!({ "name": "execute", "arguments": { "code": "return await late.listNotes()" } }),
    );
    assert_eq!(client.execute("return (await notes.listNotes()).notes.length")["result"], 2);
    std::fs::write(&gate, "").unwrap();
    assert_eq!(client.answer(waiting)["result"]["structuredContent"]["status"], "completed");
}

#[test]
fn an_answer_that_is_half_read_when_another_call_leaves_is_not_lost() {
    let hub = TestHub::with_notes();
    let code = "const half = notes.halfNote();\nawait new Promise(resolve => setTimeout(resolve, 300));\nconst { notes: found } = await notes.listNotes();\nreturn [await half, found.length]";
    let (_, envelope) = hub.exec(code);
    assert_eq!(envelope["result"], json!(["two halves", 2]), "{envelope:#}");
    assert_eq!(hub.calls("notes"), ["half_note", "list_notes"]);
}
