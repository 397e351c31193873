//! Exit statuses, `--json`, and input that no command takes.

use crate::support::TestHub;
use serde_json::{Value, json};

#[test]
fn every_command_prints_one_line_of_json() {
    let hub = TestHub::nowhere();
    let check = |arguments: &[&str], status: u32, member: &str| {
        let (found, value) = hub.json(arguments);
        assert_eq!(found, status, "{arguments:?}: {value:#}");
        assert!(value.get(member).is_some(), "{arguments:?}: {value:#}");
        value
    };
    assert_eq!(check(&["init"], 0, "connect")["made"], true);
    assert_eq!(check(&["init"], 0, "connect")["made"], false);
    check(&["list"], 0, "sources");
    let server = hub.server("notes", &[]);
    let mut add = vec!["add", "--accept", "--label", "what to do", "--namespace", "notes"];
    add.extend(server.iter().map(String::as_str));
    assert_eq!(check(&add, 0, "namespace")["reviewed"], 11);
    assert_eq!(check(&["list"], 0, "sources")["sources"][0]["label"], "what to do");
    check(&["refresh"], 0, "sources");
    check(&["review", "--accept"], 0, "reviewed");
    check(&["doctor"], 0, "findings");
    check(&["call", "notes.listNotes"], 0, "result");
    let waits =
        check(&["exec", "return await notes.addNote({ text: 'x' })"], 3, "pending")["runId"]
            .clone();
    let waits = waits.as_str().unwrap();
    check(&["runs"], 0, "runs");
    check(&["runs", "show", waits], 0, "entries");
    check(&["approve", waits], 3, "error");
    check(&["cancel", waits], 0, "status");
    check(&["cancel", "run_0000000000000000"], 1, "error");
    check(&["call", "nonsense"], 2, "error");
    check(&["add", "no-such-program-anywhere"], 2, "error");
    check(&["remove", "nothing"], 1, "error");
    check(&["remove", "notes"], 0, "removed");
}

#[test]
fn approve_prints_the_envelope_as_json_beside_its_question() {
    let hub = TestHub::with_notes();
    let run = hub.waiting("return await notes.addNote({ text: 'x' })");
    let out = hub.file("out");
    let approve = hub.command(["--json", "approve", &run]);
    let mut shell = hub.command([""; 0]);
    shell = {
        let mut redirected = std::process::Command::new("/bin/sh");
        redirected.args(["-c", "out=$1; shift; exec \"$@\" >\"$out\"", "sh"]).arg(&out);
        redirected.arg(approve.get_program()).args(approve.get_args());
        redirected.envs(shell.get_envs().filter_map(|(name, value)| Some((name, value?))));
        redirected
    };
    let answered = hub.at_terminal_with("o", &shell);
    assert_eq!(answered.status, 0, "{}", answered.output);
    let envelope: Value = serde_json::from_str(&std::fs::read_to_string(out).unwrap()).unwrap();
    assert_eq!(
        (&envelope["status"], &envelope["result"]),
        (&json!("completed"), &json!("added: x"))
    );
}

/// Checks that a command refuses, with this status, naming each of these.
#[track_caller]
fn refuses(hub: &TestHub, arguments: &[&str], status: u32, parts: &[&str]) {
    let ended = hub.run(arguments);
    assert_eq!((ended.status, ended.stdout.as_str()), (status, ""), "{arguments:?}: {ended:#?}");
    for part in parts {
        assert!(
            ended.stderr.contains(part),
            "{arguments:?} does not say {part}:\n{}",
            ended.stderr
        );
    }
}

#[test]
fn wrong_usage_exits_with_two_and_says_what_is_right() {
    let hub = TestHub::with_notes();
    let check = |arguments: &[&str], parts: &[&str]| refuses(&hub, arguments, 2, parts);
    check(&[], &["Usage"]);
    check(&["nonsense"], &["nonsense", "Usage"]);
    check(&["init", "extra"], &["extra"]);
    check(&["add"], &["COMMAND"]);
    check(&["add", ""], &["command is empty"]);
    check(&["add", "https://example.com/openapi.json"], &["OpenAPI", "planned"]);
    check(&["add", "https://no-such-host.invalid/mcp"], &["no-such-host.invalid", "not known"]);
    check(&["add", "--cwd", "/", "https://example.com/mcp"], &["--cwd"]);
    check(&["add", "--namespace", "hub", "/bin/cat"], &["hub", "--namespace"]);
    check(&["add", "--namespace", "two words", "/bin/cat"], &["two words", "--namespace"]);
    check(&["add", "--cwd", "/no/such/folder", "/bin/cat"], &["/no/such/folder", "--cwd"]);
    check(&["add", "--env", "1X=2", "/bin/cat"], &["1X", "NAME=value"]);
    check(&["add", "cat | sh"], &["|", "shell"]);
    check(&["add", "cat 'x"], &["quote"]);
    check(&["add", "no-such-program-anywhere"], &["no-such-program-anywhere", "PATH"]);
    check(&["add", "./no-such-file"], &["./no-such-file"]);
    check(&["list", "extra"], &["extra"]);
    check(&["remove"], &["NAMESPACE"]);
    check(&["refresh", "a", "b"], &["b"]);
    check(&["serve"], &["--stdio"]);
    check(&["serve", "--stdio", "--profile", "work"], &["work", "default"]);
    check(&["call"], &["ADDRESS"]);
    check(&["call", "notes"], &["notes"]);
    check(&["call", "notes.listNotes", "{"], &["not JSON"]);
    check(&["call", "notes.listNotes", "[]"], &["object"]);
    check(&["call", "notes.listNotes", "{}", "--profile", "work"], &["work", "default"]);
    check(&["exec"], &["CODE"]);
    check(&["exec", "return 1", "--profile", "work"], &["work", "default"]);
    check(&["runs", "--status", "odd"], &["odd", "awaiting_input"]);
    check(&["runs", "show"], &["RUN"]);
    check(&["runs", "show", "../../etc/passwd"], &["capabilities hub runs"]);
    check(&["cancel"], &["RUN"]);
    check(&["cancel", "RUN"], &["capabilities hub runs"]);
    check(&["approve", "--once", "--deny"], &["--once", "--deny"]);
}

#[test]
fn what_is_well_said_and_impossible_exits_with_one_and_a_hint() {
    let hub = TestHub::with_notes();
    let check = |arguments: &[&str], parts: &[&str]| refuses(&hub, arguments, 1, parts);
    check(&["remove", "nothing"], &["nothing", "capabilities hub list"]);
    check(&["refresh", "nothing"], &["nothing", "capabilities hub list"]);
    check(&["review", "--accept", "nothing"], &["nothing", "capabilities hub list"]);
    check(&["add", "--accept", "--namespace", "notes", "/bin/cat"], &["notes", "--namespace"]);
    check(
        &["runs", "show", "run_0000000000000000"],
        &["run_0000000000000000", "capabilities hub runs"],
    );
    check(&["cancel", "run_0000000000000000"], &["run_0000000000000000", "capabilities hub runs"]);
    check(&["exec", &"x".repeat(65 * 1024)], &["65536 are allowed", "Send less code"]);
    check(&["call", "nothing.atAll"], &["nothing"]);
    check(&["call", "notes.nothing"], &["nothing"]);
}

#[test]
fn code_that_is_empty_is_refused_as_it_is_over_mcp() {
    let hub = TestHub::new();
    for code in ["", "  \n"] {
        let ended = hub.run(["exec", code]);
        assert_ne!(ended.status, 0, "{ended:#?}");
        assert!(ended.stderr.contains("empty"), "{}", ended.stderr);
    }
}

#[test]
fn a_decision_flag_that_is_wrong_is_said_before_anything_is_asked() {
    let hub = TestHub::with_notes();
    hub.waiting("return await notes.addNote({ text: 'x' })");
    for (arguments, part) in [
        (["approve", "--call", "first"], "c1, c2"),
        (["approve", "not-a-run", "--once"], "capabilities hub runs"),
    ] {
        let refused = hub.at_terminal("", arguments);
        assert_eq!(refused.status, 2, "{}", refused.output);
        assert!(refused.output.contains(part), "{}", refused.output);
    }
    let unknown = hub.at_terminal("", ["approve", "run_0000000000000000"]);
    assert_eq!(unknown.status, 1, "{}", unknown.output);
}

#[test]
fn a_hub_that_is_not_there_is_said_with_the_command_that_makes_it() {
    let hub = TestHub::nowhere();
    for arguments in [
        &["list"][..],
        &["add", "--accept", "/bin/cat"],
        &["remove", "x"],
        &["refresh"],
        &["review", "--accept"],
        &["serve", "--stdio"],
        &["exec", "return 1"],
        &["call", "a.b"],
        &["runs"],
        &["cancel", "run_0000000000000000"],
        &["doctor"],
    ] {
        refuses(&hub, arguments, 1, &["capabilities hub init"]);
    }
    let mut relative = hub.command(["list"]);
    relative.env("CAPABILITIES_HOME", "here");
    let ended = hub.run_with(&relative, "");
    assert_eq!(ended.status, 2, "{ended:#?}");
    assert!(ended.stderr.contains("absolute"), "{}", ended.stderr);
}

#[test]
fn help_is_no_mistake_and_names_every_command() {
    let hub = TestHub::nowhere();
    let help = hub.ok(["--help"]);
    for command in [
        "init", "add", "list", "remove", "refresh", "review", "serve", "call", "exec", "runs",
        "approve", "cancel", "doctor",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
        assert!(!hub.ok([command, "--help"]).is_empty());
    }
}
