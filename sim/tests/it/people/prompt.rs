//! The client's own prompt over the real binary: what goes out, what counts, and what is refused.

use super::{decided, made, over, refused};
use crate::support::{Client, TestHub, until};
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

const POSTS: &str = "return await notes.addNote({ text: 'milk' })";

/// A stateless client that can show a form.
fn client(hub: &TestHub) -> Client {
    let mut client = hub.serve();
    client.with_forms();
    client
}

/// `execute` as a client calls it; the whole result.
fn execute(client: &mut Client, arguments: &Value) -> Value {
    client.call("execute", arguments)
}

/// Sends the answers to a question back, with the call that brought it.
fn respond(client: &mut Client, arguments: &Value, asks: &Value, answer: &Value) -> Value {
    let mut responses = json!({});
    for key in asks["inputRequests"].as_object().expect("requests").keys() {
        responses[key] = answer.clone();
    }
    send(client, arguments, &asks["requestState"], &responses)
}

fn send(client: &mut Client, arguments: &Value, state: &Value, responses: &Value) -> Value {
    let params = json!({
        "name": "execute", "arguments": arguments, "requestState": state, "inputResponses": responses,
    });
    let answer = client.request("tools/call", params);
    assert!(answer.get("result").is_some(), "{answer:#}");
    answer["result"].clone()
}

fn accept(choice: &str) -> Value {
    json!({ "action": "accept", "content": { "decision": choice } })
}

/// Waits as long as a person needs at least.
fn think(since: Instant) {
    until("a person to have thought", || {
        (since.elapsed() >= Duration::from_millis(1_050)).then_some(())
    });
}

fn envelope(result: &Value) -> &Value {
    assert_eq!(result["resultType"], "complete", "{result:#}");
    &result["structuredContent"]
}

/// A question, and when it was asked.
fn asked(client: &mut Client, arguments: &Value) -> (Value, Instant) {
    let asks = execute(client, arguments);
    assert_eq!(asks["resultType"], "input_required", "{asks:#}");
    (asks, Instant::now())
}

fn run_of(hub: &TestHub) -> String {
    let (_, listed) = hub.json(["runs"]);
    listed["runs"][0]["id"].as_str().expect("a run").to_owned()
}

#[test]
fn a_question_shows_everything_and_offers_four_choices() {
    let hub = TestHub::with_notes();
    let mut client = client(&hub);
    let (asks, _) = asked(&mut client, &json!({ "code": POSTS }));
    let requests = asks["inputRequests"].as_object().expect("requests");
    assert_eq!(requests.len(), 1);
    let request = requests.values().next().expect("one");
    assert_eq!(request["method"], "elicitation/create");
    let params = &request["params"];
    let message = params["message"].as_str().expect("text").replace(&run_of(&hub), "<run>");
    insta::assert_snapshot!(message, @r#"
    Code of <run> wants to call notes.addNote.
    The tool says of itself: "Add a note."

    {
      "text": "milk"
    }

    Asks because the tool does not declare itself read-only.
    Open for 23 h 59 min.
    "#);
    assert_eq!(
        params["requestedSchema"]["properties"]["decision"]["oneOf"],
        json!([
            { "const": "deny", "title": "Deny" },
            { "const": "once", "title": "Allow once" },
            { "const": "run", "title": "Allow for this run" },
            { "const": "always", "title": "Always allow" },
        ])
    );
    assert_eq!(made(&hub, "add_note"), Vec::<Value>::new());
}

#[test]
fn each_choice_does_what_it_says() {
    let twice = "const out = []; for (const t of ['a', 'b']) out.push(await notes.addNote({ text: t }).catch((e) => e.code)); return out;";
    let cases = [
        (accept("once"), "b", "once by client"),
        (accept("run"), "", "run by client"),
        (accept("always"), "", "always by client"),
        (accept("deny"), "b", "deny by client"),
        (json!({ "action": "decline" }), "b", "deny by client"),
    ];
    for (answer, asks_again, decision) in cases {
        let hub = TestHub::with_notes();
        let mut client = client(&hub);
        let arguments = json!({ "code": twice });
        let (asks, since) = asked(&mut client, &arguments);
        think(since);
        let next = respond(&mut client, &arguments, &asks, &answer);
        let run = run_of(&hub);
        assert_eq!(decided(&hub, &run), [decision], "{answer}");
        if asks_again.is_empty() {
            assert_eq!(envelope(&next)["result"], json!(["added: a", "added: b"]), "{answer}");
        } else {
            assert_eq!(next["resultType"], "input_required", "{answer}: {next:#}");
            let text = next["inputRequests"].to_string();
            assert!(text.contains(asks_again), "{text}");
        }
    }
}

#[test]
fn an_answer_within_a_second_is_no_persons_and_turns_the_prompts_off() {
    for answer in [accept("always"), json!({ "action": "decline" })] {
        let hub = TestHub::with_notes();
        let mut client = client(&hub);
        let arguments = json!({ "code": POSTS });
        let (asks, since) = asked(&mut client, &arguments);
        let fast = respond(&mut client, &arguments, &asks, &answer);
        assert_eq!(envelope(&fast)["status"], "awaiting_approval", "{fast:#}");
        let run = run_of(&hub);
        assert_eq!(refused(&hub, &run), ["too_fast by client"]);
        assert_eq!(decided(&hub, &run), Vec::<String>::new());
        // Later it is no better: the state is used up, and this client is not asked any more.
        think(since);
        let late = respond(&mut client, &arguments, &asks, &answer);
        assert_eq!(envelope(&late)["status"], "awaiting_approval");
        assert_eq!(refused(&hub, &run), ["too_fast by client", "used by client"]);
        let next = execute(&mut client, &arguments);
        assert_eq!(envelope(&next)["status"], "awaiting_approval", "{next:#}");
        // Nor does another process of the hub take it.
        let mut other = super::prompt::client(&hub);
        respond(&mut other, &arguments, &asks, &answer);
        assert_eq!(refused(&hub, &run).last().map(String::as_str), Some("used by client"));
        assert_eq!(made(&hub, "add_note"), Vec::<Value>::new());
        // The person decides all the same.
        assert_eq!(hub.at_terminal("o", ["approve", &run]).status, 0);
        assert_eq!(decided(&hub, &run), ["once by terminal"]);
    }
}

#[test]
fn a_state_is_good_for_its_own_question_once() {
    let hub = TestHub::with_notes();
    let mut client = client(&hub);
    let arguments = json!({ "code": POSTS });
    let (asks, since) = asked(&mut client, &arguments);
    think(since);
    let state = asks["requestState"].as_str().expect("text");
    let key = asks["inputRequests"].as_object().expect("requests").keys().next().expect("one");
    let allow = json!({ key: accept("once") });
    let (payload, seal) = state.split_once('.').expect("two parts");
    let turned = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes[10] = if bytes[10] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).expect("text")
    };
    let bad = [
        json!(""),
        json!("x.y"),
        json!(payload),
        json!(format!("{payload}.")),
        json!(format!("{}.{seal}", turned(payload))),
        json!(format!("{payload}.{}", turned(seal))),
        json!("a".repeat(400_000)),
    ];
    for state in bad {
        let result = send(&mut client, &arguments, &state, &allow);
        let text = result["content"][0]["text"].as_str().expect("text");
        assert!(result["isError"] == true && text.starts_with("bad_approval_state: "), "{text}");
    }
    // A good state with another call's arguments, and answers with no state at all.
    let other = json!({ "code": "return await notes.addNote({ text: 'other' })" });
    assert_eq!(send(&mut client, &other, &json!(state), &allow)["isError"], true);
    let params = json!({ "name": "execute", "arguments": arguments, "inputResponses": allow });
    assert_eq!(client.request("tools/call", params)["result"]["isError"], true);
    let (_, listed) = hub.json(["runs"]);
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(1), "none of it began a run");
    let run = run_of(&hub);
    assert_eq!(made(&hub, "add_note"), Vec::<Value>::new());
    assert!(refused(&hub, &run).iter().all(|why| why == "forged by client"));
    assert!(!refused(&hub, &run).is_empty());
    // In another process of the same hub it counts, and never again.
    let mut second = super::prompt::client(&hub);
    let ended = send(&mut second, &arguments, &json!(state), &allow);
    assert_eq!(envelope(&ended)["result"], "added: milk");
    let again = send(&mut client, &arguments, &json!(state), &allow);
    assert_eq!(envelope(&again)["result"], "added: milk", "an answered question is a resume");
    assert_eq!(made(&hub, "add_note").len(), 1);
    assert_eq!(decided(&hub, &run), ["once by client"]);
    assert_eq!(refused(&hub, &run).last().map(String::as_str), Some("not_pending by client"));
}

#[test]
fn what_is_put_off_or_makes_no_sense_leaves_the_question_open() {
    let nonsense =
        [accept("yes"), accept(""), json!({ "action": "accept" }), json!({}), json!("once")];
    for (answer, whys) in std::iter::once((json!({ "action": "cancel" }), 0))
        .chain(nonsense.into_iter().map(|answer| (answer, 1)))
    {
        let hub = TestHub::with_notes();
        let mut client = client(&hub);
        let arguments = json!({ "code": POSTS });
        let (asks, since) = asked(&mut client, &arguments);
        think(since);
        let result = respond(&mut client, &arguments, &asks, &answer);
        assert_eq!(envelope(&result)["status"], "awaiting_approval", "{answer}: {result:#}");
        let run = run_of(&hub);
        assert_eq!(refused(&hub, &run), vec!["unreadable by client"; whys], "{answer}");
        assert_eq!(decided(&hub, &run), Vec::<String>::new());
        // Nobody answered at all: asked again, if this client still counts.
        let again = execute(&mut client, &json!({ "resume": run }));
        let kind = if whys == 0 { "input_required" } else { "complete" };
        assert_eq!(again["resultType"], kind, "{answer}");
    }
}

#[test]
fn a_terminal_that_is_faster_withdraws_the_question() {
    let hub = TestHub::with_notes();
    let mut client = client(&hub);
    let arguments = json!({ "code": POSTS });
    let (asks, since) = asked(&mut client, &arguments);
    let run = run_of(&hub);
    assert_eq!(hub.at_terminal("d", ["approve", &run]).status, 1);
    assert_eq!(over(&hub, &run), "failed");
    think(since);
    let late = respond(&mut client, &arguments, &asks, &accept("once"));
    assert_eq!(envelope(&late)["status"], "failed");
    assert_eq!(decided(&hub, &run), ["deny by terminal"]);
    assert_eq!(refused(&hub, &run), ["not_pending by client"]);
    assert_eq!(made(&hub, "add_note"), Vec::<Value>::new());
}

#[test]
fn many_calls_are_asked_about_by_tool_and_unshown_arguments_only_one_by_one() {
    let hub = TestHub::with_notes();
    let mut client = client(&hub);
    let long = "x".repeat(5_000);
    let code = format!(
        "return Promise.all([notes.addNote({{ text: 'a' }}), notes.addNote({{ text: 'b' }}), notes.shareNote({{ text: '{long}' }})])"
    );
    let arguments = json!({ "code": code });
    let (asks, since) = asked(&mut client, &arguments);
    let requests = asks["inputRequests"].as_object().expect("requests").clone();
    assert_eq!(requests.len(), 2, "{requests:#?}");
    think(since);
    let mut responses = json!({});
    for (key, request) in &requests {
        let text = request["params"]["message"].as_str().expect("text");
        let choices = request["params"]["requestedSchema"].to_string();
        let cut = text.contains("notes.shareNote");
        assert_eq!(cut, text.contains("more bytes are not shown"), "{text}");
        assert_eq!(cut, !choices.contains("always"), "{choices}");
        responses[key] = accept(if cut { "once" } else { "run" });
    }
    let ended = send(&mut client, &arguments, &asks["requestState"], &responses);
    assert_eq!(envelope(&ended)["status"], "completed", "{ended:#}");
    assert_eq!(made(&hub, "add_note").len(), 2);
    assert_eq!(made(&hub, "share_note").len(), 1);
    let run = run_of(&hub);
    let mut decisions = decided(&hub, &run);
    decisions.sort();
    assert_eq!(decisions, ["once by client", "run by client"]);
}

#[test]
fn who_cannot_show_a_form_or_may_not_gets_the_envelope() {
    let hub = TestHub::with_notes();
    for capabilities in
        [json!({}), json!({ "elicitation": { "url": {} } }), json!({ "sampling": {} })]
    {
        let mut client = hub.serve();
        client.stateless_with(&capabilities);
        let answer = execute(&mut client, &json!({ "code": POSTS }));
        assert_eq!(envelope(&answer)["status"], "awaiting_approval", "{capabilities}");
    }
    // An older protocol has no way back for an answer, whatever its client declares.
    let mut old = hub.serve();
    let capabilities = json!({ "elicitation": { "form": {} } });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": { "name": "old", "version": "1" } });
    old.request("initialize", params);
    old.notify("notifications/initialized", &json!({}));
    assert_eq!(old.execute(POSTS)["status"], "awaiting_approval");
    // And a person can turn it off; what is out already is not taken back in.
    let mut client = client(&hub);
    let arguments = json!({ "code": POSTS });
    let (asks, since) = asked(&mut client, &arguments);
    let path = hub.store().join("hub.json");
    let settings = std::fs::read_to_string(&path).expect("settings");
    let settings = settings.replace("\"clientPrompts\": true", "\"clientPrompts\": false");
    assert!(settings.contains("\"clientPrompts\": false"), "{settings}");
    std::fs::write(&path, settings).expect("written");
    think(since);
    let result = respond(&mut client, &arguments, &asks, &accept("once"));
    assert_eq!(envelope(&result)["status"], "awaiting_approval");
    assert_eq!(refused(&hub, &run_of(&hub)), ["not_heard by client"]);
    let next = execute(&mut client, &arguments);
    assert_eq!(envelope(&next)["status"], "awaiting_approval");
    assert_eq!(made(&hub, "add_note"), Vec::<Value>::new());
}

/// A session of its own with an unlocked keychain, or a locked one.
fn with_keychain(hub: &TestHub, unlocked: bool) -> Option<Client> {
    let there = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
    };
    if !there("dbus-run-session") || !there("gnome-keyring-daemon") {
        eprintln!("skipped: there is no Secret Service here; run scripts/packages");
        return None;
    }
    let unlock = if unlocked {
        "printf secret | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1;"
    } else {
        ""
    };
    let script = format!(
        "{unlock} gnome-keyring-daemon --start --components=secrets >/dev/null 2>&1; exec \"$@\""
    );
    let serve = hub.command(["serve", "--stdio"]);
    let mut session = Command::new("dbus-run-session");
    session.args(["--", "/bin/sh", "-c", &script, "sh"]);
    session.arg(serve.get_program()).args(serve.get_args());
    for (name, value) in serve.get_envs() {
        match value {
            Some(_) if name == "DBUS_SESSION_BUS_ADDRESS" => session.env_remove(name),
            Some(value) => session.env(name, value),
            None => session.env_remove(name),
        };
    }
    let mut client = Client::start(session);
    client.with_forms();
    Some(client)
}

#[test]
fn the_key_is_kept_in_the_systems_keychain_and_a_locked_one_asks_on_the_page() {
    let hub = TestHub::with_notes();
    std::fs::create_dir_all(hub.file("home")).expect("a folder");
    let file = hub.store().with_file_name(".env");
    let Some(mut client) = with_keychain(&hub, true) else { return };
    let arguments = json!({ "code": POSTS });
    let (asks, since) = asked(&mut client, &arguments);
    assert!(!file.exists(), "the key is in the keychain, not in {}", file.display());
    client.close();
    // Another session opens the same keychain: the state is good there, too.
    let Some(mut later) = with_keychain(&hub, true) else { return };
    think(since);
    let ended = respond(&mut later, &arguments, &asks, &accept("once"));
    assert_eq!(envelope(&ended)["result"], "added: milk");
    later.close();
    // Locked: no second key is made; the person is asked another way.
    let Some(mut locked) = with_keychain(&hub, false) else { return };
    let answer = execute(&mut locked, &arguments);
    assert_eq!(envelope(&answer)["status"], "awaiting_approval", "{answer:#}");
    assert!(!file.exists());
}

#[test]
fn without_a_keychain_the_key_is_in_a_file_that_only_its_owner_reads() {
    use std::os::unix::fs::PermissionsExt as _;
    let hub = TestHub::with_notes();
    let mut client = client(&hub);
    asked(&mut client, &json!({ "code": POSTS }));
    let file = hub.store().with_file_name(".env");
    let mode = std::fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).expect("text");
    assert!(text.starts_with("CAPABILITIES_HUB_") && text.contains("_HUB_SIGNING_KEY_"), "{text}");
    // A key that was damaged is said to be, and no other is put in its place.
    std::fs::write(&file, text.replace('=', "=*")).expect("written");
    let mut other = super::prompt::client(&hub);
    let answer = execute(&mut other, &json!({ "code": POSTS }));
    assert_eq!(envelope(&answer)["status"], "awaiting_approval");
    assert!(std::fs::read_to_string(&file).expect("text").contains("=*"));
}
