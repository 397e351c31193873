//! Errors that need more than one run of some code.

use super::super::disk::limited;
use super::scene::{Scene, Told, approved, catching, caught, connected, resumed};
use crate::support::{Client, TestHub, capabilities, until};
use hub::adapters::store::FileStore;
use hub::model::ids::RunId;
use hub::model::journal::Entry;
use hub::model::source::Settings;
use hub::model::time::WallMs;
use hub::ports::store::Store as _;
use serde_json::{Value, json};
use sim::awkward::http::{Fault, Manner, Running};
use sim::awkward::{Awkward, Server};
use std::path::{Path, PathBuf};

const ASKS: &str = "await notes.listNotes();\nreturn await notes.addNote({ text: 'x' })";
const SECRET: &str = "s3cr3t-t0ken-of-a-source";
const LIST: &str = "return (await notes.listNotes()).notes.length";

fn model(hub: &TestHub, arguments: &Value) -> Told {
    Told::by(hub, &connected(hub).call("execute", arguments))
}

/// What the model and a person are told when this code runs.
fn both(hub: &TestHub, code: &str) -> Told {
    let ended = hub.run(["exec", code]);
    model(hub, &json!({ "code": code })).and(hub, &ended.stderr, ended.status)
}

pub(super) fn invalid_input() -> Told {
    model(&TestHub::new(), &json!({ "code": "return 1", "approve": true }))
}

pub(super) fn code_too_large() -> Told {
    Scene::new().run(&format!("return '{}'", "x".repeat(400)))
}

/// A hub whose environment holds a secret of one of its sources.
fn with_secret() -> TestHub {
    let hub = TestHub::new();
    let words = ["add", "--accept", "--env", "NOTES_TOKEN", "--namespace", "notes"];
    let command = words.map(str::to_owned).into_iter().chain(hub.server("notes", &[]));
    let mut add = hub.command(command);
    add.env("NOTES_TOKEN", SECRET);
    let added = hub.run_with(&add, "");
    assert_eq!(added.status, 0, "{added:#?}");
    hub
}

fn knowing(hub: &TestHub) -> Client {
    let mut serve = hub.command(["serve", "--stdio"]);
    serve.env("NOTES_TOKEN", SECRET);
    let mut client = Client::start(serve);
    client.initialize("2025-11-25");
    client
}

pub(super) fn secret_in_code() -> Told {
    let hub = with_secret();
    let code = format!("return '{SECRET}'");
    let answer = knowing(&hub).call("execute", &json!({ "code": code }));
    let mut exec = hub.command(["exec", &code]);
    exec.env("NOTES_TOKEN", SECRET);
    let ended = hub.run_with(&exec, "");
    Told::by(&hub, &answer).and(&hub, &ended.stderr, ended.status)
}

pub(super) fn secret_in_arguments() -> Told {
    let hub = with_secret();
    let (start, end) = SECRET.split_at(8);
    let expression = format!("notes.addNote({{ text: '{start}' + '{end}' }})");
    let envelope = knowing(&hub).execute(&catching(&expression));
    let mut exec = hub.command(["exec", &format!("return await {expression}")]);
    exec.env("NOTES_TOKEN", SECRET);
    let ended = hub.run_with(&exec, "");
    caught(&hub, &envelope).and(&hub, &ended.stderr, ended.status)
}

/// A hub that gives its only source a credential; what of that is on the disk.
fn with_credential() -> (TestHub, PathBuf) {
    let hub = TestHub::with_notes();
    let mut auth = hub.command(["auth", "notes", "--env", "NOTES_TOKEN", "--stdin"]);
    auth.env("NOTES_TOKEN", SECRET);
    let entered = hub.run_with(&auth, &format!("{SECRET}\n"));
    assert_eq!(entered.status, 0, "{entered:#?}");
    let file = hub.store().with_file_name(".env");
    (hub, file)
}

/// What is told of a call that cannot get its credential.
fn listed(hub: &TestHub) -> Told {
    let ended = hub.run(["exec", LIST]);
    let envelope = connected(hub).execute(&catching("notes.listNotes()"));
    caught(hub, &envelope).and(hub, &ended.stderr, ended.status)
}

pub(super) fn credential_missing() -> Told {
    let (hub, file) = with_credential();
    std::fs::remove_file(file).expect("removed");
    listed(&hub)
}

pub(super) fn credential_elsewhere() -> Told {
    let (hub, _) = with_credential();
    let id = hub.json(["list"]).1["sources"][0]["id"].as_str().expect("an id").to_owned();
    let source = hub.store().join(format!("sources/{id}.json"));
    let text = std::fs::read_to_string(&source).expect("text");
    std::fs::write(&source, text.replace("\"server\"", "\"server\", \"--\"")).expect("written");
    // Agreed to anew: the other command may run, and gets nothing that was entered for this one.
    hub.run(["review", "--accept"]);
    listed(&hub)
}

pub(super) fn keychain_unavailable() -> Told {
    let (hub, file) = with_credential();
    let text = std::fs::read_to_string(&file).expect("text");
    std::fs::write(&file, text.replace('=', "=*")).expect("written");
    both(&hub, LIST)
}

fn record(hub: &TestHub, run: &str) -> PathBuf {
    hub.store().join("runs").join(format!("{run}.json"))
}

/// Replaces something in a file of the store.
fn edit(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path).expect("text");
    assert!(text.contains(from), "{text}");
    std::fs::write(path, text.replace(from, to)).expect("written");
}

/// A run that was decided, by a person whose process died before it went on.
fn decided(hub: &TestHub) -> String {
    let run = hub.waiting(ASKS);
    let id: RunId = run.parse().expect("an id");
    rewritten(hub, &id, |entries| {
        let mut asked = Vec::new();
        for entry in entries.iter() {
            if let Entry::Question(question) = entry {
                asked.push(question.seq);
            }
        }
        entries.push(Entry::Decided {
            seqs: asked,
            choice: hub::model::policy::Choice::Once,
            channel: hub::model::policy::Channel::Terminal,
            wall: WallMs(1),
            nonce: None,
        });
    });
    run
}

/// Writes a run's journal anew.
fn rewritten(hub: &TestHub, run: &RunId, change: impl FnOnce(&mut Vec<Entry>)) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let store = FileStore::new(hub.store());
    let mut entries = runtime.block_on(store.journal(run)).expect("a journal");
    change(&mut entries);
    let journal = hub.store().join("runs").join(format!("{run}.journal.jsonl"));
    std::fs::remove_file(journal).expect("a journal");
    runtime.block_on(store.append(run, 0, &entries, true)).expect("written");
}

pub(super) fn replay_limit() -> Told {
    let hub = TestHub::with_notes();
    let run = decided(&hub);
    // No code takes longer the second time; a record that was changed shows what one would meet.
    edit(
        &record(&hub, &run),
        "\\nawait notes.listNotes()",
        "\\nfor (;;) {} await notes.listNotes()",
    );
    let (said, status) = approved(&hub, &run, "");
    resumed(&hub, &run).and(&hub, &said, status)
}

pub(super) fn divergence() -> Told {
    let hub = TestHub::with_notes();
    let run = decided(&hub);
    edit(&record(&hub, &run), "text: 'x'", "text: 'y'");
    let told = resumed(&hub, &run);
    let (said, status) = approved(&hub, &run, "");
    told.and(&hub, &said, status)
}

/// Kills the workers of a serving hub while code runs in one of them.
pub(super) fn sandbox_crashed() -> Told {
    let hub = TestHub::with_notes();
    let mut client = connected(&hub);
    let code = "await notes.listNotes(); for (;;) {}";
    let request =
        client.send("tools/call", json!({ "name": "execute", "arguments": { "code": code } }));
    until("the read", || (!hub.calls("notes").is_empty()).then_some(()));
    let answer = until("the end", || {
        client.kill_workers();
        client.answered(request)
    });
    Told::by(&hub, &answer["result"])
}

/// Takes away the permission to run the program while it serves.
pub(super) fn sandbox_unavailable() -> Told {
    use std::os::unix::fs::PermissionsExt as _;
    let hub = TestHub::with_notes();
    let copy = hub.file("capabilities-copy");
    std::fs::copy(capabilities(), &copy).expect("copied");
    let serve = hub.command(["serve", "--stdio"]);
    let mut copied = std::process::Command::new(&copy);
    copied.args(serve.get_args());
    copied.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut client = Client::start(copied);
    client.initialize("2025-11-25");
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o600)).expect("ours");
    // Workers that were started before are used up first.
    let answer = until("a run without a worker", || {
        let answer = client.call("execute", &json!({ "code": "return 1" }));
        (answer["isError"] == true).then_some(answer)
    });
    Told::by(&hub, &answer)
}

pub(super) fn run_expired() -> Told {
    let hub = TestHub::with_notes();
    let run = hub.waiting(ASKS);
    rewritten(&hub, &run.parse().expect("an id"), |entries| {
        for entry in entries {
            if let Entry::Question(question) = entry {
                question.expires = WallMs(2);
            }
        }
    });
    let told = resumed(&hub, &run);
    let (said, status) = approved(&hub, &run, "");
    told.and(&hub, &said, status)
}

pub(super) fn run_cancelled() -> Told {
    let hub = TestHub::with_notes();
    let run = hub.waiting(ASKS);
    hub.ok(["cancel", &run]);
    let told = resumed(&hub, &run);
    let (said, status) = approved(&hub, &run, "");
    told.and(&hub, &said, status)
}

pub(super) fn unknown_run() -> Told {
    let hub = TestHub::new();
    let run = "run_0000000000000000";
    let told = resumed(&hub, run);
    let (said, status) = approved(&hub, run, "");
    told.and(&hub, &said, status)
}

pub(super) fn journal_corrupt() -> Told {
    let hub = TestHub::with_notes();
    let run = hub.waiting(ASKS);
    edit(&hub.store().join("runs").join(format!("{run}.journal.jsonl")), "asked", "asket");
    let told = resumed(&hub, &run);
    let (said, status) = approved(&hub, &run, "");
    told.and(&hub, &said, status)
}

pub(super) fn journal_write_failed() -> Told {
    let hub = TestHub::with_notes();
    let code = "for (let n = 0; n < 60; n += 1) await notes.listNotes()";
    let mut client = Client::start(limited(&hub.command(["serve", "--stdio"]), 12));
    client.initialize("2025-11-25");
    let answer = client.call("execute", &json!({ "code": code }));
    let ended = hub.run_with(&limited(&hub.command(["exec", code]), 12), "");
    Told::by(&hub, &answer).and(&hub, &ended.stderr, ended.status)
}

pub(super) fn hub_upgraded() -> Told {
    let hub = TestHub::with_notes();
    let mut client = connected(&hub);
    edit(&hub.store().join("hub.json"), "\"version\": 1", "\"version\": 2");
    let answer = client.call("execute", &json!({ "code": LIST }));
    let ended = hub.run(["exec", LIST]);
    Told::by(&hub, &answer).and(&hub, &ended.stderr, ended.status)
}

pub(super) fn store_failed() -> Told {
    let hub = TestHub::with_notes();
    std::fs::remove_dir_all(hub.store().join("runs")).expect("a folder");
    std::fs::write(hub.store().join("runs"), "").expect("written");
    both(&hub, LIST)
}

/// Runs a call that waits, lets something happen, and has the person allow or deny it.
fn meanwhile(hub: &TestHub, expression: &str, key: &str, happens: impl Fn()) -> Told {
    let code = catching(expression);
    let (caught_by, seen) =
        (hub.waiting(&code), hub.waiting(&format!("return await {expression}")));
    happens();
    assert_eq!(hub.at_terminal(key, ["approve", &caught_by]).status, 0);
    let (said, status) = approved(hub, &seen, key);
    caught(hub, &hub.resume(&caught_by)).and(hub, &said, status)
}

pub(super) fn approval_denied() -> Told {
    meanwhile(&TestHub::with_notes(), "notes.addNote({ text: 'x' })", "d", || {})
}

pub(super) fn source_removed() -> Told {
    let hub = TestHub::with_notes();
    meanwhile(&hub, "notes.addNote({ text: 'x' })", "o", || {
        hub.ok(["remove", "notes"]);
    })
}

/// A hub whose `notes` is started by a shell script.
fn scripted(script: &str) -> TestHub {
    let hub = TestHub::new();
    let words = ["add", "--accept", "--namespace", "notes", "/bin/sh", "-c", script, "sh"];
    let gate = hub.file("gate").to_str().expect("a path").to_owned();
    let before = words.map(str::to_owned).into_iter().chain([gate]);
    hub.ok(before.chain(hub.server("notes", &[])));
    hub
}

pub(super) fn tool_gone() -> Told {
    let script = "gate=$1; shift; if test -e \"$gate\"; then exec \"$@\" --script notes; else exec \"$@\"; fi";
    let hub = scripted(script);
    meanwhile(&hub, "notes.hangWrite({ text: 'x' })", "o", || {
        std::fs::write(hub.file("gate"), "").expect("written");
    })
}

pub(super) fn source_unavailable() -> Told {
    let script = "if test -e \"$1\"; then exit 9; fi; shift; exec \"$@\"";
    let hub = scripted(script);
    std::fs::write(hub.file("gate"), "").expect("written");
    let expression = "notes.listNotes()";
    let envelope = connected(&hub).execute(&catching(expression));
    let ended = hub.run(["exec", &format!("return await {expression}")]);
    caught(&hub, &envelope).and(&hub, &ended.stderr, ended.status)
}

/// A server over HTTP that answers every call with this status.
pub(super) fn answered_with(status: u16) -> Told {
    let server =
        Running::start(Server::new(Awkward::default()), Manner::default()).expect("a port");
    let hub = TestHub::new();
    hub.ok(["add", "--accept", "--namespace", "far", &server.url()]);
    let headers = || vec![("retry-after", "600".to_owned())];
    for _ in 0..2 {
        server.fault("tools/call", Fault::Status(status, headers(), "not like this".to_owned()));
    }
    let expression = "far.readThing()";
    let envelope = connected(&hub).execute(&catching(expression));
    let ended = hub.run(["exec", &format!("return await {expression}")]);
    caught(&hub, &envelope).and(&hub, &ended.stderr, ended.status)
}

/// A source whose answer carries what stands on every approval page of this hub.
pub(super) fn approval_surface() -> Told {
    let hub = TestHub::new();
    let settings = std::fs::read_to_string(hub.store().join("hub.json")).expect("settings");
    let settings: Settings = serde_json::from_str(&settings).expect("settings");
    let shows = format!("ON_THE_PAGE_{}=1", settings.page_mark());
    let words = ["add", "--accept", "--namespace", "odd", "--env", &shows].map(str::to_owned);
    let server = [env!("CARGO_BIN_EXE_sim"), "awkward"].map(str::to_owned);
    hub.ok(words.into_iter().chain(server));
    crate::awkward::allow_all(&hub);
    let envelope = connected(&hub).execute(&catching("odd.env()"));
    let ended = hub.run(["exec", "return await odd.env()"]);
    caught(&hub, &envelope).and(&hub, &ended.stderr, ended.status)
}

/// A client answers a question that nobody asked it.
pub(super) fn bad_approval_state() -> Told {
    let hub = TestHub::new();
    let mut client = hub.serve();
    client.stateless();
    let arguments = json!({ "code": "return 1" });
    let forged = json!({ "name": "execute", "arguments": arguments, "requestState": "forged" });
    Told::by(&hub, &client.request("tools/call", forged)["result"])
}
