//! The canary hunt: a server that shows its credential in every encoding and every part of an answer, and no
//! byte of it in anything that the hub keeps, prints or answers.

use super::{CANARY, entered};
use crate::support::TestHub;
use serde_json::{Value, json};
use sim::leaky::{OverHttp, encodings};
use std::path::Path;

/// Code that calls everything there is, logs it, throws some of it away, and returns the rest.
const EVERYTHING: &str = r#"
const out = [];
for (const name of ["text", "structured", "failed", "refused", "link", "media", "status", "chunks"]) {
  try { const got = await leaky[name](); console.log(name, got, JSON.stringify(got)); out.push(got); }
  catch (error) { console.log(String(error), JSON.stringify(error), error.message, error.hint, error.detail, error.headers); out.push({ ...error, message: error.message }); }
}
return out;
"#;

/// Parts of the canary, as long as they must be to tell anything, in every encoding.
fn traces() -> Vec<(String, String)> {
    let mut traces = Vec::new();
    for (how, text) in encodings(CANARY) {
        // Its middle, which no neighbour has a part in.
        let all: Vec<char> = text.chars().collect();
        let middle: String = all[all.len() / 4..all.len() * 3 / 4].iter().collect();
        traces.push((how.to_owned(), middle));
    }
    // Half of it, from either side: what a cut would leave.
    traces.push(("its first half".to_owned(), CANARY[..10].to_owned()));
    traces.push(("its second half".to_owned(), CANARY[10..].to_owned()));
    traces
}

#[track_caller]
fn nothing_in(place: &str, text: &str) {
    for (how, trace) in traces() {
        let at = text.find(&trace).map(|at| at.saturating_sub(200));
        if let Some(at) = at {
            let around: String = text.chars().skip(at).take(500).collect();
            panic!("{place} holds the credential ({how}): …{around}…");
        }
    }
}

/// Looks at every file below a folder.
fn nothing_below(folder: &Path) -> usize {
    let mut looked = 0;
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            looked += nothing_below(&entry.path());
        } else {
            let bytes = std::fs::read(entry.path()).unwrap();
            nothing_in(&entry.path().display().to_string(), &String::from_utf8_lossy(&bytes));
            looked += 1;
        }
    }
    looked
}

/// Uses a leaky source in every way, and looks at everything that comes of it.
fn hunt(hub: &TestHub, dies: bool) {
    let code = if dies {
        EVERYTHING.replace(
            "return out;",
            "try { await leaky.dies(); } catch (e) { out.push(e.message) } return out;",
        )
    } else {
        EVERYTHING.to_owned()
    };
    let mut outputs = Vec::new();
    let mut run = |arguments: &[&str]| {
        let mut command = hub.command(arguments);
        command.env("CAPABILITIES_LOG", "trace");
        let ended = hub.run_with(&command, "");
        nothing_in(&format!("standard output of {arguments:?}"), &ended.stdout);
        nothing_in(&format!("standard error of {arguments:?}"), &ended.stderr);
        outputs.push(ended.stdout.clone());
        ended
    };
    let ended = run(&["--json", "exec", &code]);
    assert_eq!(ended.status, 0, "{}\n{}", ended.stdout, ended.stderr);
    let envelope: Value = serde_json::from_str(&ended.stdout).unwrap();
    let text = envelope.to_string();
    assert!(text.matches("[secret]").count() > 20, "{envelope:#}");
    let show = envelope["runId"].as_str().unwrap().to_owned();
    for arguments in [
        vec!["runs", "show", &show],
        vec!["--json", "runs", "show", &show],
        vec!["refresh"],
        vec!["list"],
        vec!["--json", "list"],
        vec!["connections", "leaky"],
        vec!["--json", "connections", "leaky"],
        vec!["doctor"],
        vec![
            "exec",
            "return [await hub.search({ query: 'credential', limit: 25 }), await hub.describe({ targets: ['leaky'] })]",
        ],
        vec!["exec", "throw new Error(JSON.stringify(await leaky.text()))"],
        vec!["call", "leaky.failed"],
    ] {
        run(&arguments);
    }
    // The model's own words carry it as well.
    let secret = json!(CANARY).to_string();
    let refused = run(&["--json", "exec", &format!("return await leaky.text({{ q: {secret} }})")]);
    assert!(refused.stdout.contains("secret_in_code"), "{refused:#?}");
    let pieces = format!(
        "const a = {}; const b = {}; try {{ return await leaky.text({{ q: a + b }}) }} catch (e) {{ return e.code }}",
        json!(CANARY[..7]),
        json!(CANARY[7..])
    );
    let ended = hub.run(["--json", "exec", &pieces]);
    assert!(ended.stdout.contains("secret_in_arguments"), "{ended:#?}");

    let mut client = hub.serve();
    client.initialize("2025-11-25");
    for (tool, arguments) in [
        ("search", json!({ "query": "credential" })),
        ("describe", json!({ "targets": ["leaky"] })),
        ("execute", json!({ "code": code })),
        ("execute", json!({ "resume": show })),
    ] {
        let answer = client.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        nothing_in(&format!("the answer to {tool}"), &answer.to_string());
    }
    client.close();
}

#[test]
fn a_local_server_that_shows_its_credential_in_every_way_shows_it_to_nobody() {
    let hub = TestHub::new();
    let program = env!("CARGO_BIN_EXE_sim");
    hub.ok(["add", "--accept", "--namespace", "leaky", program, "leaky"]);
    entered(&hub, &["leaky", "--env", "TOKEN"], CANARY);
    hub.ok(["review", "--accept"]);
    hunt(&hub, true);
    assert!(nothing_below(&hub.store()) > 10);
}

#[test]
fn a_server_over_http_that_shows_its_credential_in_every_way_shows_it_to_nobody() {
    let hub = TestHub::new();
    let server = OverHttp::start(("authorization", &format!("Bearer {CANARY}")), CANARY).unwrap();
    let added = hub.ok(["add", "--accept", "--namespace", "leaky", &server.url()]);
    assert!(added.contains("capabilities hub auth leaky"), "{added}");
    entered(&hub, &["leaky"], CANARY);
    hub.ok(["review", "--accept"]);
    hunt(&hub, false);
    assert!(nothing_below(&hub.store()) > 10);
}
