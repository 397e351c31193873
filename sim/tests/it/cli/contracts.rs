//! Tools that change after a person reviewed them.

use crate::support::TestHub;

const SHARE: &str = "return await notes.shareNote({ text: 'x' })";
const CHANGE: &str = "description: was \"Share a note with the team.\", is \"Share a note with everyone on the internet.\"";

/// A hub whose `notes.shareNote` changes with the returned file.
fn changing() -> (TestHub, std::path::PathBuf) {
    let hub = TestHub::new();
    let switch = hub.file("changed");
    hub.add("notes", &["--changed-if", switch.to_str().unwrap()]);
    (hub, switch)
}

#[test]
fn a_tool_that_was_always_allowed_asks_again_once_it_changed_and_says_what_changed() {
    let (hub, switch) = changing();
    let run = hub.waiting(SHARE);
    assert_eq!(hub.at_terminal("a", ["approve", &run]).status, 0);
    assert_eq!(hub.exec(SHARE).0, 0);
    std::fs::write(switch, "").unwrap();

    // Nobody typed `refresh`.
    let run = hub.waiting(SHARE);
    assert_eq!(hub.calls("notes").len(), 2);
    let answered = hub.at_terminal("d", ["approve", &run]);
    assert!(
        answered.output.contains("asks because the tool changed since it was reviewed"),
        "{}",
        answered.output
    );
    assert!(answered.output.contains(CHANGE), "{}", answered.output);
    assert_eq!(hub.calls("notes").len(), 2);

    // Always again: a rule for the tool as it is, which is also its review.
    let run = hub.waiting(SHARE);
    assert_eq!(hub.at_terminal("a", ["approve", &run]).status, 0);
    assert_eq!(hub.exec(SHARE).0, 0);
    assert_eq!(hub.json(["list"]).1["sources"][0]["toReview"], 0);
    assert_eq!(hub.calls("notes").len(), 4);
}

#[test]
fn a_decision_is_void_when_the_tool_changes_before_it_is_sent() {
    let (hub, switch) = changing();
    let run = hub.waiting(SHARE);
    std::fs::write(switch, "").unwrap();
    let answered = hub.at_terminal("oo", ["approve", &run]);
    assert_eq!(answered.status, 0, "{}", answered.output);
    let (first, second) = answered.output.split_once("> o\n").unwrap();
    assert!(!first.contains("changed"), "{first}");
    assert!(second.contains("changed") && second.contains(CHANGE), "{second}");
    assert_eq!(hub.calls("notes"), ["share_note"]);
}

#[test]
fn other_tools_of_the_source_are_not_held_up_by_one_that_changed() {
    let (hub, switch) = changing();
    std::fs::write(switch, "").unwrap();
    assert_eq!(hub.exec("return await notes.listNotes()").0, 0);
    assert!(hub.ok(["list"]).contains("11 tools, 1 to review"));
    let found = hub.exec("return await hub.search('share note')").1;
    assert!(found["result"].as_str().unwrap().contains("everyone on the internet"), "{found:#}");
}
