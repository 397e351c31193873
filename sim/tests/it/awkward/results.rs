//! Every odd result is right, whatever the way it comes.

use super::{caught, client, command, hub_with, manner, of_url, over_http};
use serde_json::json;
use sim::awkward::http::{Kind, Manner, Running};
use sim::awkward::{Awkward, Quirk, Server};

/// Calls, and nothing about what they give: that is the snapshot.
const CALLS: &[&str] = &[
    "structuredOnly()",
    "structured({ kind: 'null' })",
    "structured({ kind: 'boolean', text: true })",
    "structured({ kind: 'integer' })",
    "structured({ kind: 'number', text: true })",
    "structured({ kind: 'string' })",
    "structured({ kind: 'array', text: true })",
    "structured({ kind: 'object' })",
    "declaredNotReturned()",
    "errStructured()",
    "errEmpty()",
    "bigint()",
    "surrogate()",
    "image()",
    "audio()",
    "resource()",
    "resourceLink()",
    "unknownBlock()",
    "mixed()",
    "multiText()",
    "deepStructured({ n: 100 })",
    "deepStructured({ n: 101 })",
    "deepStructured({ n: 6000 })",
    "empty()",
    "noContent()",
    "nullContent()",
    "badJsonText()",
    "numberText()",
    "twice()",
    "wrongIdFirst()",
    "both()",
    "noObject()",
    "inputRequired()",
    "aB()",
    "aB_2()",
    "delete_()",
    "getUser()",
    "日本語ツール()",
    "größe()",
    "toolWithSpace()",
    "_9lives()",
    "constructor_()",
    "then_()",
    "proto()",
    "toString_()",
    "hasOwnProperty()",
    "progress({ times: 3, everyMs: 1 })",
    "echoArgs({ big: 9007199254740993n, max: 18446744073709551615n, text: '\\ud83d\\ude00', deep: { a: [null, 1.5, -0] } })",
    "echoArgs({ lone: '\\ud800', nul: '\\u0000' })",
    "set({ value: { kept: [1] } })",
    "get()",
    "backtracking({ s: 'a'.repeat(5000) + 'b' })",
    "doubling({ a: 1 })",
    "deepSchema({ x: { x: 7 } })",
    "fileReference({ a: 1 })",
    "webReference({ a: 1 })",
    "contradiction({ n: 3 })",
    "hugeEnum({ e: 'v4999' })",
    "hugeEnum({ e: 'nope' })",
    "propNames({})",
    "anyOfRoot({})",
    "oldTuple({ t: ['a', 'b'] })",
    "noSuchTool()",
];

const PROGRAM: &str = "
const lines = [];
const show = (value) => { const text = JSON.stringify(value) ?? 'undefined'; return text.length > 300 ? text.slice(0, 300) + '…' : text };
for (const [name, call] of calls) {
  try {
    const value = await call();
    lines.push(name + ' → ' + typeof value + ' ' + show(value));
  } catch (e) {
    lines.push(name + ' ✗ ' + (e.code ?? e.name) + ' ' + e.message.slice(0, 300) + (e.detail === undefined ? '' : ' detail ' + show(e.detail)));
  }
}
return lines.join('\\n');";

/// Every call over one way, a line each.
fn all(server: &[String]) -> String {
    let hub = hub_with(server);
    let mut client = client(&hub);
    let calls: Vec<String> = CALLS
        .iter()
        .map(|call| {
            let name = serde_json::to_string(call).unwrap();
            // A name that is no identifier after a dot would be a syntax error here.
            format!("[{name}, () => odd.{call}]")
        })
        .collect();
    let envelope = client.execute(&format!("const calls = [{}];{PROGRAM}", calls.join(",\n")));
    assert_eq!(envelope["status"], "completed", "{envelope:#}");
    envelope["result"].as_str().unwrap_or_else(|| panic!("{envelope:#}")).to_owned()
}

#[test]
fn every_odd_result_is_right_over_every_way() {
    let over_stdio = all(&command(&[]));
    insta::assert_snapshot!(over_stdio);
    for manner in [
        manner(Kind::Json),
        manner(Kind::Events),
        manner(Kind::Older(405)),
        Manner { kind: Kind::Events, sessions: true, own_stream: true, ..Manner::default() },
    ] {
        let running = over_http(manner.clone());
        let over_http = all(&of_url(&running));
        assert_eq!(over_http, over_stdio, "{manner:?}");
    }
    let stateless = Awkward { quirks: vec![Quirk::Stateless], ..Awkward::default() };
    let running = Running::start(Server::new(stateless), manner(Kind::Json)).unwrap();
    assert_eq!(all(&of_url(&running)), over_stdio, "the stateless protocol");
    let call =
        running.seen().into_iter().find(|seen| seen.message["method"] == "tools/call").unwrap();
    assert_eq!(call.headers["mcp-protocol-version"], "2026-07-28");
    assert_eq!(
        (call.headers["mcp-method"].as_str(), call.headers["mcp-name"].as_str()),
        ("tools/call", "structured_only")
    );
    assert!(!call.headers.contains_key("mcp-session-id"));
    let seen = running.seen();
    let odd = seen.iter().find(|seen| seen.message["params"]["name"] == "größe").unwrap();
    assert_eq!(odd.headers["mcp-name"], "=?base64?Z3LDtsOfZQ==?=");
}

#[test]
fn a_result_of_five_megabytes_is_whole_in_the_code_and_short_in_the_answer() {
    for server in [
        command(&[]),
        of_url(over_http_for_ever(Kind::Json)),
        of_url(over_http_for_ever(Kind::Events)),
    ] {
        let hub = hub_with(&server);
        let mut client = client(&hub);
        let code =
            "const text = await odd.huge({ n: 5000000 }); return [text.length, text.slice(-2)]";
        assert_eq!(client.execute(code)["result"], json!([5_000_000, "zz"]), "{server:?}");
        let envelope = client.execute("return await odd.huge({ n: 5000000 })");
        assert!(envelope.to_string().len() <= 24 * 1024, "{}", envelope.to_string().len());
        assert_eq!(envelope["truncated"]["result"], true, "{envelope:#}");
        let over = caught(&mut client, "odd.huge({ n: 9000000 })");
        assert_eq!(over["code"], "result_too_large", "{over:#}");
    }
}

/// The most memory a process ever had, in megabytes.
fn peak(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[test]
fn very_many_values_in_few_bytes_are_not_even_read() {
    for server in [command(&[]), of_url(over_http_for_ever(Kind::Json))] {
        let hub = hub_with(&server);
        let mut client = client(&hub);
        let told = caught(&mut client, "odd.bomb({ piece: '{\"a\":0}' })");
        assert_eq!(told["code"], "outcome_unknown", "{told:#}");
        assert!(peak(client.process()) < 500, "{} MB", peak(client.process()));
        assert_eq!(caught(&mut client, "odd.getUser()")["value"], "ran:get.user");
    }
}

/// A server that nobody stops: the process ends with its tests.
fn over_http_for_ever(kind: Kind) -> &'static Running {
    Box::leak(Box::new(over_http(manner(kind))))
}

#[test]
fn text_that_is_nested_too_deep_stays_text() {
    let hub = hub_with(&command(&[]));
    let value = caught(&mut client(&hub), "odd.deepJsonText()");
    assert_eq!(value["value"].as_str().map(str::len), Some(10_000), "{value}");
}

#[test]
fn what_a_server_asks_for_is_declined_and_its_call_goes_on() {
    for server in [command(&[]), of_url(over_http_for_ever(Kind::Events))] {
        let hub = hub_with(&server);
        let told = caught(&mut client(&hub), "odd.ask()");
        insta::allow_duplicates! {
            insta::assert_snapshot!(told["value"].as_str().unwrap_or_default(), @r#"ping: {}; roots/list: {"roots":[]}; sampling/createMessage: error -32601; elicitation/create: {"action":"decline"}"#);
        }
    }
}

#[test]
fn a_child_gets_a_small_environment_and_what_it_was_declared() {
    let before = ["--env", "SHOWN=yes", "--env", "PASSED"].map(str::to_owned);
    let hub = crate::support::TestHub::new();
    let mut add = hub.command(["add", "--accept", "--namespace", "odd"]);
    add.args(before).args(command(&[])).env("PASSED", "a long value").env("HIDDEN", "canary");
    assert_eq!(hub.run_with(&add, "").status, 0);
    super::allow_all(&hub);
    let mut serve = hub.command(["exec", "return JSON.stringify(await odd.env())"]);
    serve.env("PASSED", "a long value").env("HIDDEN", "canary");
    let told = hub.run_with(&serve, "").stdout;
    assert!(told.contains("SHOWN") && told.contains("PASSED") && told.contains("PATH"), "{told}");
    assert!(!told.contains("HIDDEN") && !told.contains("CAPABILITIES_HOME"), "{told}");
}
