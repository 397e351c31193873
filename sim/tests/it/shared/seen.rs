//! What a person does in a terminal is seen by a hub that serves already, at its very next answer.

use crate::support::{Client, TestHub};
use serde_json::json;

/// A hub with `notes`, and a client that has used it already.
fn serving() -> (TestHub, Client) {
    let hub = TestHub::new();
    hub.add("notes", &["--script", "notes"]);
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    assert_eq!(client.execute(LIST)["result"], 2);
    (hub, client)
}

const LIST: &str = "return (await notes.listNotes()).notes.length";

fn search(client: &mut Client, namespace: &str) -> String {
    client.text("search", &json!({ "query": "", "namespace": namespace, "limit": 25 }))
}

#[test]
fn an_added_source_is_found_described_and_called() {
    let look: [fn(&mut Client); 3] = [
        |client| assert!(search(client, "more").contains("more.listNotes")),
        |client| {
            let types = client.text("describe", &json!({ "targets": ["more.listNotes"] }));
            assert!(types.contains("listNotes("), "{types}");
        },
        |client| {
            assert_eq!(client.execute("return (await more.listNotes()).notes.length")["result"], 2);
        },
    ];
    let (hub, mut client) = serving();
    for look in look {
        client.refusal("describe", &json!({ "targets": ["more.listNotes"] }));
        hub.add("more", &["--script", "notes"]);
        look(&mut client);
        hub.ok(["remove", "more"]);
    }
}

#[test]
fn a_removed_source_is_neither_found_nor_described_nor_called() {
    let look: [fn(&mut Client); 3] = [
        |client| {
            let refused =
                client.refusal("search", &json!({ "query": "list notes", "namespace": "more" }));
            assert!(refused.contains("more"), "{refused}");
        },
        |client| {
            let refused = client.refusal("describe", &json!({ "targets": ["more.listNotes"] }));
            assert!(refused.contains("more"), "{refused}");
        },
        |client| {
            let failed = client.execute("return await more.listNotes()");
            assert_eq!(failed["error"]["code"], "uncaught_error", "{failed:#}");
        },
    ];
    let (hub, mut client) = serving();
    for look in look {
        hub.add("more", &["--script", "notes"]);
        assert_eq!(client.execute("return (await more.listNotes()).notes.length")["result"], 2);
        let calls = hub.calls("more").len();
        hub.ok(["remove", "more"]);
        look(&mut client);
        assert_eq!(hub.calls("more").len(), calls);
    }
}

#[test]
fn a_source_that_is_removed_while_a_run_waits_is_not_called() {
    let (hub, mut client) = serving();
    let code = "return await notes.addNote({ text: 'x' }).catch((e) => e.code)";
    let asked = client.execute(code);
    hub.ok(["remove", "notes"]);
    let run = asked["runId"].as_str().expect("an id");
    assert_eq!(hub.at_terminal("o", ["approve", run]).status, 0);
    assert_eq!(client.envelope(&json!({ "resume": run }))["result"], "source_removed");
    assert_eq!(hub.calls("notes"), ["list_notes"]);
}

#[test]
fn a_review_is_seen_by_search_and_by_the_next_call() {
    let (hub, mut client) = serving();
    let words = ["add", "--namespace", "more"].map(str::to_owned);
    let command = words.into_iter().chain(hub.server("more", &["--script", "notes"]));
    assert_eq!(hub.at_terminal("ys", command).status, 0);
    let tag = |client: &mut Client, tool: &str| {
        let found = search(client, "more");
        found.lines().find(|line| line.contains(tool)).expect("it is found").to_owned()
    };
    assert!(tag(&mut client, "more.listNotes").contains("[asks]"), "not reviewed");
    let asked = client.execute("return (await more.listNotes()).notes.length");
    assert_eq!(asked["status"], "awaiting_approval", "{asked:#}");

    // addNote runs, the rest is as proposed.
    assert_eq!(hub.at_terminal("tr\r\r\r", ["review", "more"]).status, 0);
    assert!(!tag(&mut client, "more.listNotes").contains("[asks]"));
    assert!(!tag(&mut client, "more.addNote").contains("[asks]"));
    assert!(tag(&mut client, "more.shareNote").contains("[asks]"));
    assert_eq!(client.execute("return (await more.listNotes()).notes.length")["result"], 2);
    assert_eq!(client.execute("return await more.addNote({ text: 'x' })")["result"], "added: x");
    assert_eq!(hub.calls("more"), ["list_notes", "add_note"]);
}

#[test]
fn a_tool_that_a_person_denies_is_hidden_and_fails_at_the_next_call() {
    let (hub, mut client) = serving();
    let words = ["add", "--namespace", "more"].map(str::to_owned);
    let command = words.into_iter().chain(hub.server("more", &["--script", "notes"]));
    assert_eq!(hub.at_terminal("ys", command).status, 0);
    assert!(search(&mut client, "more").contains("more.addNote"));
    let code = "return await more.addNote({ text: 'x' }).catch((e) => e.code)";
    let asked = client.execute(code);
    assert_eq!(asked["status"], "awaiting_approval");

    assert_eq!(hub.at_terminal("td\r\r\r", ["review", "more"]).status, 0);
    assert!(!search(&mut client, "more").contains("more.addNote"));
    assert_eq!(client.execute(code)["result"], "denied_by_policy");
    // A person who allows the call that waited does not thereby lift the rule.
    let run = asked["runId"].as_str().expect("an id");
    assert_eq!(hub.at_terminal("o", ["approve", run]).status, 0);
    assert_eq!(client.envelope(&json!({ "resume": run }))["result"], "denied_by_policy");
    assert!(hub.calls("more").is_empty());
}

#[test]
fn a_decision_is_seen_by_the_hub_whose_run_waits() {
    let (hub, mut client) = serving();
    let code = "return await notes.addNote({ text: 'x' }).catch((e) => e.code)";
    for (key, expected) in [("d", "approval_denied"), ("o", "added: x"), ("a", "added: x")] {
        let asked = client.execute(code);
        let run = asked["runId"].as_str().expect("an id");
        assert_eq!(hub.at_terminal(key, ["approve", run]).status, 0);
        assert_eq!(client.envelope(&json!({ "resume": run }))["result"], expected);
    }
    assert_eq!(client.execute(code)["result"], "added: x", "always is seen as well");
    assert_eq!(hub.calls("notes"), ["list_notes", "add_note", "add_note", "add_note"]);
}

#[test]
fn what_a_hub_listed_before_a_review_does_not_undo_it() {
    let hub = TestHub::new();
    let switch = hub.file("changed");
    hub.add("notes", &["--script", "notes", "--changed-if", switch.to_str().expect("a path")]);
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    assert_eq!(client.execute(LIST)["result"], 2);
    std::fs::write(&switch, "").expect("written");
    assert_eq!(hub.json(["refresh"]).1["toReview"], 1);
    assert_eq!(hub.at_terminal("a", ["review", "notes"]).status, 0);

    // The hub that serves listed the tools before they changed, and nobody told it that they did.
    assert_eq!(client.execute(LIST)["result"], 2);
    assert_eq!(hub.json(["list"]).1["sources"][0]["toReview"], 0);
    let asked = client.execute("return await notes.shareNote({ text: 'x' })");
    let run = asked["runId"].as_str().expect("an id");
    let answered = hub.at_terminal("o", ["approve", run]);
    assert!(!answered.output.contains("changed"), "{}", answered.output);
    assert_eq!(client.envelope(&json!({ "resume": run }))["result"], "shared: x");
}
