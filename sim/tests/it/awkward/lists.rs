//! What an awkward server lists: pages, bad entries, changes.

use super::{allow_all, client, command, hub_with, of_url, over_http};
use crate::support::TestHub;
use serde_json::{Value, json};
use sim::awkward::http::{Kind, Manner, Running};
use sim::awkward::{Awkward, Quirk, Server};

fn notices(hub: &TestHub) -> (u64, String) {
    let listed = hub.json(["list"]).1["sources"][0].clone();
    let notices: Vec<&str> =
        listed["notices"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    (listed["tools"].as_u64().unwrap(), notices.join("\n"))
}

#[test]
fn a_bad_entry_drops_only_itself_and_is_named() {
    let (plain_count, plain_notices) = notices(&hub_with(&command(&[])));
    insta::assert_snapshot!(plain_notices, @r"
    `a-b` is listed twice; the first is kept
    the tool `nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn…` was dropped: its name is too long
    ");
    let hub = hub_with(&command(&["--quirk", "bad-tools"]));
    let (count, notices) = notices(&hub);
    insta::assert_snapshot!(notices, @r"
    `a-b` is listed twice; the first is kept
    the tool `nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn…` was dropped: its name is too long
    a tool without a name was dropped
    an entry of the list is not a tool
    the tool `too_deep` was dropped: it is nested deeper than 100 levels
    the tool `far_too_deep` was dropped: it is nested deeper than 100 levels
    the tool `fat` was dropped: it describes itself in 600 KB
    ");
    // What has an odd schema is offered all the same.
    assert_eq!(count, plain_count + 6);
    let mut client = client(&hub);
    let code = "return [await odd.noSchema(), await odd.nullSchema({ a: 1 }), await odd.textSchema(), await odd.boolProps({ a: 1 }), await odd.wrongType(), await odd.oddMembers()]";
    let ran =
        ["no_schema", "null_schema", "text_schema", "bool_props", "wrong_type", "odd_members"];
    let ran: Vec<String> = ran.iter().map(|name| format!("ran:{name}")).collect();
    assert_eq!(client.execute(code)["result"], json!(ran));
}

#[test]
fn a_cursor_that_does_not_advance_ends_the_list() {
    for server in [command(&["--quirk", "stuck-cursor"]), {
        let quirky = Awkward { quirks: vec![Quirk::StuckCursor], ..Awkward::default() };
        of_url(Box::leak(Box::new(Running::start(Server::new(quirky), Manner::default()).unwrap())))
    }] {
        let (tools, notices) = notices(&hub_with(&server));
        assert!(tools > 10, "{tools}");
        assert!(notices.contains("the list repeats a page; what came before is kept"), "{notices}");
    }
}

#[test]
fn a_refresh_that_fails_keeps_the_last_good_list() {
    let broken = tempfile::tempdir().unwrap().keep().join("broken");
    let hub = hub_with(&command(&["--fail-list-if", broken.to_str().unwrap()]));
    let before = notices(&hub);
    std::fs::write(&broken, "").unwrap();
    let refreshed = hub.run(["refresh"]);
    assert_eq!(refreshed.status, 1, "{refreshed:#?}");
    assert!(refreshed.stdout.contains("the list is on fire"), "{refreshed:#?}");
    assert_eq!(notices(&hub), before);
    let mut client = client(&hub);
    let found = client.text("search", &json!({ "query": "read thing", "namespace": "odd" }));
    assert!(found.contains("readThing"), "{found}");
    std::fs::remove_file(&broken).unwrap();
    assert_eq!(client.execute("return await odd.readThing()")["result"], "ran:read_thing");
}

#[test]
fn a_change_that_is_announced_is_compared_before_the_next_call() {
    let own_stream =
        over_http(Manner { kind: Kind::Events, own_stream: true, ..Manner::default() });
    for server in [command(&[]), of_url(&own_stream)] {
        let hub = TestHub::new();
        let before = ["add", "--accept", "--namespace", "odd"].map(str::to_owned);
        hub.ok(before.iter().chain(&server));
        let mut client = client(&hub);
        assert_eq!(client.execute("return await odd.readThing()")["result"], "ran:read_thing");
        allow_all(&hub);
        assert_eq!(client.execute("return await odd.change()")["result"], "changed");
        let envelope = client.execute("return await odd.readThing()");
        assert_eq!(envelope["status"], "awaiting_approval", "{envelope:#}");
        let appeared = client.text("search", &json!({ "query": "appeared" }));
        assert!(appeared.contains("odd.appeared"), "{appeared}");
    }
}

#[test]
fn what_hides_in_names_and_texts_is_written_out() {
    let hub = TestHub::new();
    let before = ["add", "--accept", "--namespace", "odd"].map(str::to_owned);
    let mut shown = Vec::new();
    let added = hub.run(before.iter().chain(&command(&["--quirk", "bad-tools"])));
    shown.extend([added.stdout, added.stderr]);
    for words in [&["list"][..], &["--json", "list"], &["doctor"], &["review"]] {
        let ran = hub.run(words.iter().copied());
        shown.extend([ran.stdout, ran.stderr]);
    }
    let waiting = hub.run(["exec", "return await odd.poison()"]);
    shown.extend([waiting.stdout, waiting.stderr]);
    let hidden = ['\u{202e}', '\u{200b}', '\u{e0041}', '\u{1b}', '\u{7}'];
    for text in shown {
        assert!(!text.contains(hidden), "{}", text.escape_debug());
    }
}

#[test]
fn names_that_meet_are_told_apart_and_a_huge_enum_is_short() {
    let hub = hub_with(&command(&[]));
    let mut client = client(&hub);
    let described = client.text(
        "describe",
        &json!({ "targets": ["odd.aB", "odd.aB_2", "odd.hugeEnum", "odd.poison"] }),
    );
    insta::assert_snapshot!(described);
}
