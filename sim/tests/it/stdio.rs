//! A bare client against `serve --stdio`: handshakes, three tools, and nothing but JSON-RPC.

use crate::support::{Client, TestHub, modern_meta, until};
use serde_json::{Value, json};

const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The three tools, whichever way the client asks.
#[track_caller]
fn lists_three_tools(client: &mut Client) {
    let listed = client.request("tools/list", json!({}))["result"].clone();
    let tools = listed["tools"].as_array().expect("a list").clone();
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["search", "describe", "execute"]);
    for tool in &tools[..2] {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool:#}");
        assert_eq!(tool["annotations"]["idempotentHint"], true, "{tool:#}");
    }
    let execute = &tools[2];
    assert_eq!(execute["annotations"]["readOnlyHint"], false);
    assert_eq!(execute["annotations"]["openWorldHint"], true);
    let schema = &execute["outputSchema"];
    assert_eq!(schema["type"], "object");
    for member in
        ["runId", "status", "result", "error", "logs", "calls", "pending", "truncated", "notices"]
    {
        assert!(schema["properties"].get(member).is_some(), "{member}: {schema:#}");
    }
    for tool in &tools {
        assert_eq!(tool["inputSchema"]["type"], "object");
        assert!(tool["description"].as_str().is_some_and(|text| !text.is_empty()));
    }
}

#[test]
fn every_version_with_a_handshake_is_spoken() {
    let hub = TestHub::with_notes();
    for version in LEGACY {
        let mut client = hub.serve();
        let answer = client.initialize(version);
        assert_eq!(answer["protocolVersion"], version);
        assert_eq!(answer["serverInfo"]["name"], "capabilities");
        assert!(answer["capabilities"].get("tools").is_some());
        let instructions = answer["instructions"].as_str().unwrap();
        assert!(instructions.contains("notes (11 tools)"), "{instructions}");
        assert_eq!(client.request("ping", json!({}))["result"], json!({}));
        lists_three_tools(&mut client);
        let result = client.execute("return (await notes.listNotes()).notes.length");
        assert_eq!((&result["status"], &result["result"]), (&json!("completed"), &json!(2)));
        assert_eq!(client.close(), 0);
    }
}

#[test]
fn an_unknown_version_gets_the_newest_with_a_handshake() {
    let hub = TestHub::new();
    for version in ["1999-01-01", "2026-07-28"] {
        assert_eq!(hub.serve().initialize(version)["protocolVersion"], "2025-11-25");
    }
}

#[test]
fn a_stateless_client_needs_no_handshake() {
    let hub = TestHub::with_notes();
    let mut client = hub.serve();
    client.stateless();
    let found = client.request("server/discover", json!({}))["result"].clone();
    let versions: Vec<&str> =
        found["supportedVersions"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for version in LEGACY.into_iter().chain(["2026-07-28"]) {
        assert!(versions.contains(&version), "{versions:?}");
    }
    assert!(found["instructions"].as_str().unwrap().contains("notes (11 tools)"), "{found:#}");
    assert!(found["ttlMs"].is_u64() && found["cacheScope"].is_string(), "{found:#}");
    assert_eq!(
        found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "capabilities",
        "{found:#}"
    );

    let listed = client.request("tools/list", json!({}))["result"].clone();
    assert_eq!(listed["resultType"], "complete");
    assert!(listed["ttlMs"].is_u64() && listed["cacheScope"].is_string(), "{listed:#}");
    lists_three_tools(&mut client);
    let result =
        client.call("execute", &json!({ "code": "return (await notes.listNotes()).notes.length" }));
    assert_eq!(
        (&result["resultType"], &result["structuredContent"]["result"]),
        (&json!("complete"), &json!(2))
    );
    assert_eq!(client.close(), 0);
}

#[test]
fn a_stateless_request_may_come_first_and_needs_its_meta() {
    let hub = TestHub::new();
    let mut client = hub.serve();
    client.stateless();
    lists_three_tools(&mut client);
    let mut other = modern_meta();
    other["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    let mut client = hub.serve();
    let refused = client.request("tools/list", json!({ "_meta": other }));
    assert_eq!(refused["error"]["code"], -32022, "{refused:#}");
    assert!(
        refused["error"]["data"]["supported"].to_string().contains("2026-07-28"),
        "{refused:#}"
    );
}

#[test]
fn search_describe_and_execute_work_in_that_order() {
    let hub = TestHub::with_notes();
    let mut client = hub.serve();
    client.initialize("2025-06-18");
    let found = client.text("search", &json!({ "query": "add a note", "limit": 3 }));
    assert!(found.starts_with("notes\n"), "{found}");
    assert!(
        found.contains("  notes.addNote(input: { text: string }): Promise<")
            && found.contains("[asks]"),
        "{found}"
    );
    assert!(found.contains("    Add a note."), "{found}");
    let listed = client.text("search", &json!({ "query": "" }));
    assert!(listed.contains("notes (11 tools)"), "{listed}");
    let all = client.text("search", &json!({ "namespace": "notes", "limit": 25 }));
    assert_eq!(all.matches("  notes.").count(), 11, "{all}");

    let types =
        client.text("describe", &json!({ "targets": ["notes.addNote", "notes.listNotes"] }));
    assert!(
        types.contains("declare const notes: {") && types.contains("/** What it says. */"),
        "{types}"
    );
    assert!(types.contains("options?: CallOptions"), "{types}");
    assert!(types.contains("notes: "), "the output schema is described: {types}");

    let done = client.execute("console.log('hello', { a: 1 });\nconst { notes: found } = await notes.listNotes(); found.length");
    assert_eq!((&done["status"], &done["result"]), (&json!("completed"), &json!(2)), "{done:#}");
    assert!(done["logs"][0].as_str().unwrap().contains("hello"), "{done:#}");
    assert!(
        !done["notices"].as_array().unwrap().is_empty(),
        "a returned last expression is noted: {done:#}"
    );
    assert_eq!(done["calls"][0]["address"], "notes.listNotes");
    let again = client.envelope(&json!({ "resume": done["runId"] }));
    assert_eq!(again, done);
    assert_eq!(hub.calls("notes"), ["list_notes"]);

    let asks = client.execute("return await notes.addNote({ text: 'x' })");
    let pending = &asks["pending"][0];
    assert_eq!(
        (&asks["status"], &pending["kind"], &pending["address"]),
        (&json!("awaiting_approval"), &json!("approval"), &json!("notes.addNote"))
    );
    assert!(
        pending["summary"].as_str().unwrap().contains('x') && pending["id"].is_string(),
        "{asks:#}"
    );
    assert!(pending["message"].as_str().unwrap().contains("capabilities hub approve"), "{asks:#}");
}

#[test]
fn nothing_but_json_rpc_comes_back_whatever_is_sent() {
    let hub = TestHub::with_notes();
    let mut client = hub.serve();
    // Before the handshake: what some clients really send, and what none should.
    client.notify("notifications/cancelled", &json!({ "requestId": 7 }));
    client.notify("notifications/initialized", &json!({}));
    client.line("");
    client.line("not json");
    client.line("{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}");
    assert_eq!(client.initialize("2025-11-25")["serverInfo"]["name"], "capabilities");
    for line in [
        "}",
        "[]",
        "42",
        "null",
        "\"text\"",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
        "{\"id\":true}",
        "\u{0}\u{1b}[31m",
        "{\"jsonrpc\":\"2.0\"",
    ] {
        client.line(line);
    }
    client.line(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1000,\"method\":\"ping\",\"params\":{{\"x\":\"{}\"}}}}",
        "y".repeat(100_000)
    ));
    client.notify("notifications/nobody/knows", &json!({ "x": 1 }));
    for method in
        ["nonsense", "resources/list", "prompts/get", "tools/nothing", "completion/complete"]
    {
        let refused = client.request(method, json!({}));
        assert!(refused["error"]["code"].is_i64(), "{method}: {refused:#}");
    }
    let unknown =
        client.request("tools/call", json!({ "name": "delete_everything", "arguments": {} }));
    let said = unknown.to_string();
    assert!(said.contains("search, describe and execute"), "{unknown:#}");
    // Code that prints, and a source that writes to its error output, do not reach it either.
    let done = client
        .execute("console.log('{\"jsonrpc\":\"2.0\"}\\nplain'); console.error('x'); return 'ok'");
    assert_eq!(done["result"], "ok");
    assert_eq!(client.close(), 0);
}

#[test]
fn a_client_that_only_looks_leaves_nothing_behind() {
    let hub = TestHub::with_notes();
    let client = hub.serve();
    assert_eq!(client.close(), 0);
    let mut client = hub.serve();
    client.stateless();
    client.request("server/discover", json!({}));
    client.notify("notifications/cancelled", &json!({ "requestId": 1 }));
    assert_eq!(client.close(), 0);
    assert!(hub.calls("notes").is_empty());
}

#[test]
fn input_out_of_range_names_field_and_range() {
    let hub = TestHub::with_notes();
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    let mut check = |tool: &str, arguments: Value, parts: &[&str]| {
        let shown = arguments.to_string();
        let said = client.refusal(tool, &arguments);
        for part in parts {
            assert!(said.contains(part), "{tool} {shown} does not say {part}: {said}");
        }
    };
    check("search", json!({ "query": "x".repeat(201) }), &["`query`", "201", "0 to 200"]);
    check("search", json!({ "query": 7 }), &["`query`", "0 to 200"]);
    for limit in [json!(0), json!(26), json!(-1), json!(1.5), json!("8"), json!([])] {
        check("search", json!({ "query": "x", "limit": limit }), &["`limit`", "1 to 25"]);
    }
    check("search", json!({ "namespace": 1 }), &["`namespace`", "string"]);
    check("search", json!({ "namespace": "note" }), &["note", "notes"]);
    check("search", json!({ "q": "x" }), &["`q`", "`query`"]);
    check("describe", json!({}), &["`targets`", "1 to 10"]);
    check("describe", json!({ "targets": [] }), &["`targets`", "1 to 10"]);
    check("describe", json!({ "targets": vec!["notes"; 11] }), &["`targets`", "1 to 10"]);
    check("describe", json!({ "targets": 7 }), &["`targets`", "1 to 10"]);
    check("describe", json!({ "targets": [1] }), &["`targets`"]);
    check("describe", json!({ "targets": ["notes.addNot"] }), &["notes.addNot", "addNote"]);
    check("execute", json!({}), &["`code`", "`resume`"]);
    check("execute", json!({ "code": "", "resume": "" }), &["`code`", "`resume`"]);
    check(
        "execute",
        json!({ "code": "return 1", "resume": "run_0000000000000000" }),
        &["exactly one", "`code`", "`resume`"],
    );
    check("execute", json!({ "code": 7 }), &["`code`", "string"]);
    check("execute", json!({ "code": "   " }), &["`code`"]);
    check("execute", json!({ "code": "x".repeat(64 * 1024 + 1) }), &["code", "65536"]);
    check("execute", json!({ "resume": "nonsense" }), &["`resume`", "run_"]);
    check("execute", json!({ "resume": "run_0000000000000000" }), &["run_0000000000000000"]);
    check("execute", json!({ "code": "return 1", "approve": true }), &["`approve`"]);
    assert!(
        client
            .text("search", &json!({ "query": "x".repeat(200), "limit": 25 }))
            .contains("Nothing matches")
    );
    assert_eq!(client.execute(&format!("return 1//{}", "x".repeat(64 * 1024 - 10)))["result"], 1);
    assert_eq!(client.close(), 0);
}

#[test]
fn no_argument_decides_what_only_a_person_may() {
    let hub = TestHub::with_notes();
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    let run = client.execute("return await notes.addNote({ text: 'x' })")["runId"].clone();
    for extra in ["approve", "decision", "choice", "inputResponses", "requestState", "answer"] {
        let mut arguments = json!({ "resume": run });
        arguments[extra] = json!("once");
        client.refusal("execute", &arguments);
    }
    let params = json!({ "name": "execute", "arguments": { "resume": run }, "inputResponses": { "c1": { "action": "accept", "content": { "choice": "once" } } }, "requestState": "x" });
    let answer = client.request("tools/call", params);
    assert_ne!(answer["result"]["structuredContent"]["status"], "completed", "{answer:#}");
    assert_eq!(client.envelope(&json!({ "resume": run }))["status"], "awaiting_approval");
    assert!(hub.calls("notes").is_empty());
}

#[test]
fn a_cancelled_request_ends_its_run_and_nothing_else() {
    let hub = TestHub::with_notes();
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    let waits = client.execute("return await notes.addNote({ text: 'x' })")["runId"].clone();
    let running = client.send(
        "tools/call",
        json!({ "name": "execute", "arguments": { "code": "return await notes.hangRead()" } }),
    );
    until("the read", || (hub.calls("notes") == ["hang_read"]).then_some(()));
    client.notify("notifications/cancelled", &json!({ "requestId": running, "reason": "enough" }));
    until("the end of the run", || {
        let listed = hub.json(["runs", "--status", "cancelled"]).1;
        (listed["runs"].as_array().is_some_and(|runs| runs.len() == 1)).then_some(())
    });
    assert_eq!(
        client.execute("return (await notes.listNotes()).notes.length")["result"],
        2,
        "the source still works"
    );
    assert_eq!(client.envelope(&json!({ "resume": waits }))["status"], "awaiting_approval");
    assert_eq!(client.close(), 0);
}

#[test]
fn the_end_of_input_leaves_a_waiting_run_waiting() {
    let hub = TestHub::with_notes();
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    let run = client.execute("return await notes.addNote({ text: 'x' })")["runId"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(client.close(), 0);
    assert_eq!(hub.resume(&run)["status"], "awaiting_approval");
    assert_eq!(hub.at_terminal("o", ["approve", &run]).status, 0);
    assert_eq!(hub.calls("notes"), ["add_note"]);
}

#[test]
fn the_end_of_input_leaves_a_running_run_interrupted() {
    let hub = TestHub::with_notes();
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    let code = "const { notes: found } = await notes.listNotes(); await notes.hangRead(); return found.length";
    client.send("tools/call", json!({ "name": "execute", "arguments": { "code": code } }));
    until("the read", || (hub.calls("notes") == ["list_notes", "hang_read"]).then_some(()));
    assert_eq!(client.close(), 0);
    let (_, listed) = hub.json(["runs"]);
    assert_eq!(
        listed["runs"][0]["status"], "running",
        "interrupted, neither failed nor cancelled: {listed:#}"
    );
}

#[test]
fn what_a_person_adds_meanwhile_is_seen_without_a_restart() {
    let hub = TestHub::new();
    let mut client = hub.serve();
    let answer = client.initialize("2025-11-25");
    assert!(answer["instructions"].as_str().unwrap().contains("no sources yet"), "{answer:#}");
    assert!(
        client.text("search", &json!({ "query": "notes" })).contains("no sources")
            || client.text("search", &json!({ "query": "notes" })).contains("Nothing matches")
    );
    hub.add("notes", &[]);
    assert!(client.text("search", &json!({ "query": "list notes" })).contains("notes.listNotes"));
    assert_eq!(client.execute("return (await notes.listNotes()).notes.length")["result"], 2);
    hub.ok(["remove", "notes"]);
    assert!(!client.text("search", &json!({ "query": "list notes" })).contains("notes.listNotes"));
    assert_eq!(client.execute("return await notes.listNotes()")["status"], "failed");
}
