//! What a serving hub is worth after code that means harm: its own limits, its memory, the size of its answers.

use crate::support::{Client, TestHub, until};
use serde_json::{Value, json};

/// Bytes of one envelope, and of its parts.
const ENVELOPE_BYTES_MAX: usize = 24 * 1024;
const LOG_BYTES_MAX: usize = 4 * 1024;
const NOTICE_BYTES_MAX: usize = 2 * 1024;
const PENDING_BYTES_MAX: usize = 6 * 1024;

#[test]
fn a_worker_ends_at_its_limits_and_the_next_run_is_unharmed() {
    let hub = TestHub::with_notes();
    lower(&hub, &json!({ "computeMs": 200, "memoryBytes": 8 << 20, "upstreamTimeoutMs": 100 }));
    let mut client = served(&hub);
    let compute = "Do less work per run: filter early, avoid quadratic loops, or split the task.";
    let memory =
        "Keep less at once: ask tools for smaller pages and keep only the fields you need.";
    let stopped = "the code computed for more than 200 ms";
    for (code, expected) in [
        ("for (;;) {}", ["compute_limit", stopped, compute]),
        (
            "Array.prototype.reverse.call({ length: 2 ** 31 });",
            ["compute_limit", "the code computed for more than 200 ms and was killed", compute],
        ),
        ("await notes.listNotes(); for (;;) await null;", ["compute_limit", stopped, compute]),
        (
            "return new Uint8Array(9 << 20).length;",
            ["memory_limit", "the code used more than 8 MB of memory", memory],
        ),
        (
            "const a = []; for (;;) a.push({ a });",
            ["memory_limit", "the code used more than 8 MB of memory", memory],
        ),
    ] {
        let ended = client.execute(code);
        let error = &ended["error"];
        assert_eq!(ended["status"], "failed", "{code}: {ended:#}");
        assert_eq!(["code", "message", "hint"].map(|member| &error[member]), expected, "{code}");
        unharmed(&mut client);
    }
    let silent =
        client.execute("return await notes.hangRead().catch((e) => [e.code, e.retryable]);");
    assert_eq!(silent["result"], json!(["upstream_timeout", true]), "{silent:#}");
    unharmed(&mut client);
    assert_eq!(client.close(), 0);
}

#[test]
fn code_of_nothing_but_nesting_does_not_end_the_hub() {
    let hub = TestHub::with_notes();
    let mut client = served(&hub);
    // Open only, for the hub's own parser; then closed, so that the engine's compiler gets it as well.
    for (open, middle, close) in [
        ("(", "", ""),
        ("[", "", ""),
        ("`${", "", ""),
        ("{", "", ""),
        ("!", "1", ""),
        ("a=>", "1", ""),
        ("a:", ";", ""),
        ("if(1)", ";", ""),
        ("1?", "1", ":1"),
        ("(", "1", ")"),
        ("[", "", "]"),
        ("{", "", "}"),
        ("`${", "1", "}`"),
        ("({a:", "1", "})"),
        ("(()=>{", "", "})()"),
        ("(class A{a=", "1", "})"),
        ("function f(){", "", "}"),
        ("try{", "", "}finally{}"),
    ] {
        let times = (65_536 - middle.len()) / (open.len() + close.len());
        let code = format!("{}{middle}{}", open.repeat(times), close.repeat(times));
        let answer = client.call("execute", &json!({ "code": code }));
        let said = answer["content"][0]["text"].as_str().unwrap();
        // Read, refused, or too much for the engine: all the same, as long as it is an answer.
        let known = [
            "\"status\":\"completed\"",
            "\"code\":\"syntax_error\"",
            "\"code\":\"memory_limit\"",
            "syntax_error: ",
        ];
        assert!(known.iter().any(|known| said.contains(known)), "{open}: {said}");
        unharmed(&mut client);
    }
    assert_eq!(client.close(), 0);
}

#[test]
fn half_characters_and_nothing_at_all_in_code_do_not_end_the_hub() {
    let hub = TestHub::with_notes();
    let mut client = served(&hub);
    let nul = client.call("execute", &json!({ "code": "return 'a\0b';" }));
    let said = nul["content"][0]["text"].as_str().unwrap();
    assert!(
        said.starts_with("syntax_error: a NUL character cannot stand in code at line 1, column 10"),
        "{said}"
    );
    // No JSON of ours can hold half a pair, so the line is none.
    client.line(r#"{"jsonrpc":"2.0","id":900,"method":"tools/call","params":{"name":"execute","arguments":{"code":"return '\ud800'"}}}"#);
    unharmed(&mut client);
    let halves = client.execute("const half = '\\ud83d';\nconsole.log(half);\nconst e = await notes.addNote({ text: 7, [half]: half }).catch((e) => e.code);\nreturn { [half]: [half, e, 'a\\0b'] };");
    assert_eq!(
        halves["result"],
        json!({ "\u{fffd}": ["\u{fffd}", "invalid_arguments", "a\0b"] }),
        "{halves:#}"
    );
    assert_eq!(halves["logs"], json!(["\u{fffd}"]));
    unharmed(&mut client);
    assert_eq!(client.close(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn twenty_full_heaps_leave_neither_processes_nor_memory_behind() {
    let hub = TestHub::with_notes();
    let mut client = served(&hub);
    let bombs = [
        "const a = []; for (;;) a.push(new Uint8Array(1 << 20));",
        "const a = []; for (;;) a.push('x'.repeat(1 << 20) + a.length);",
        "const a = []; for (;;) a.push({ a });",
        "console.log('x'.repeat(8 << 20)); return new Array(2 << 20).fill('x').join('').padEnd(6 << 20, 'y');",
    ];
    for code in bombs {
        client.execute(code);
    }
    unharmed(&mut client);
    let before = resident_kb(client.id());
    for code in bombs.iter().cycle().take(20) {
        client.execute(code);
    }
    unharmed(&mut client);
    // One source, and at most two workers that were started ahead.
    until("the end of every worker that was used", || (children(client.id()) <= 3).then_some(()));
    let after = resident_kb(client.id());
    // Keeping what only one of them held would be more.
    assert!(after < before + 48 * 1024, "{before} kB became {after} kB");
    assert_eq!(client.close(), 0);
}

#[test]
fn no_answer_is_larger_than_its_budget_and_each_part_keeps_its_share() {
    let hub = TestHub::with_notes();
    let mut client = served(&hub);
    let long = "'é😀\\n\\u0001\"'.repeat(9000)";

    let calls = client.execute("for (let i = 0; i < 250; i += 1) { await notes.listNotes(); await notes.noteNumber(); }\nreturn 1;");
    within(&calls);
    let lines = calls["calls"].as_array().unwrap();
    assert_eq!(lines.len(), 22, "two tools, then the last twenty: {calls:#}");
    for (line, address) in lines.iter().zip(["notes.listNotes", "notes.noteNumber"]) {
        assert_eq!(
            (&line["address"], &line["count"], &line["ok"]),
            (&json!(address), &json!(250), &json!(true))
        );
    }

    let full = client.execute(&format!("for (let i = 0; i < 250; i += 1) {{ await notes.listNotes(); await notes.noteNumber(); }}\nfor (let i = 0; i < 400; i += 1) console.log(i, {long}.slice(0, i * 3));\nreturn [{long}];"));
    within(&full);
    assert_eq!(full["truncated"], json!({ "result": true, "logs": true }), "{full:#}");
    assert!(full["result"].as_str().unwrap().starts_with("[\"é😀\\n\\u0001\\\"é😀"), "{full:#}");
    let notices = full["notices"].as_array().unwrap();
    assert!(notices.last().unwrap().as_str().unwrap().starts_with("The result has "), "{full:#}");
    assert!(full.to_string().len() > ENVELOPE_BYTES_MAX - 1024, "the budget is used");

    // Rewrites are notices, and an error of its own is cut.
    let failed = client.execute(&format!("```ts\nexport const a: number = 1;\nconsole.error({long});\nthrow new ToolError({long}, {{ code: 'x', hint: {long} }});\n```"));
    within(&failed);
    assert_eq!(failed["error"]["code"], "uncaught_error", "{failed:#}");
    assert!(!failed["notices"].as_array().unwrap().is_empty(), "{failed:#}");

    let asks = client.execute(&format!("await Promise.all(Array.from({{ length: 200 }}, (_, i) => notes.addNote({{ text: i + {long}.slice(0, 3000) }})));"));
    within(&asks);
    assert_eq!(asks["status"], "awaiting_approval", "{asks:#}");
    let shown = asks["pending"].as_array().unwrap().len();
    assert!(shown > 5, "{asks:#}");
    assert_eq!(
        asks["notices"][0],
        format!("{} more calls wait for the same decision.", 200 - shown)
    );
    let again = client.envelope(&json!({ "resume": asks["runId"] }));
    within(&again);
    assert_eq!(again["pending"], asks["pending"]);
    assert_eq!(client.close(), 0);
}

/// Holds an envelope, and the same as text, to their budgets.
#[track_caller]
fn within(envelope: &Value) {
    let bytes = |part: &str| envelope.get(part).map_or(0, |part| part.to_string().len());
    // Text and structured content are the same, byte by byte: the client has compared them.
    let whole = envelope.to_string().len();
    assert!(whole <= ENVELOPE_BYTES_MAX, "{whole} bytes: {envelope:#}");
    assert!(bytes("logs") <= LOG_BYTES_MAX, "{} bytes of logs", bytes("logs"));
    let notices = bytes("error") + bytes("notices");
    assert!(notices <= NOTICE_BYTES_MAX, "{notices} bytes of error and notices: {envelope:#}");
    assert!(bytes("pending") <= PENDING_BYTES_MAX, "{} bytes of pending", bytes("pending"));
}

#[track_caller]
fn unharmed(client: &mut Client) {
    let ended = client.execute("return [(await notes.listNotes()).notes.length, 1 + 1];");
    assert_eq!(ended["result"], json!([2, 2]), "{ended:#}");
}

fn served(hub: &TestHub) -> Client {
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    client
}

/// Lowers limits, as a person who edits `hub.json` does.
fn lower(hub: &TestHub, limits: &Value) {
    let path = hub.file("capabilities/hub/hub.json");
    let mut settings: Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    settings["limits"] = limits.clone();
    std::fs::write(&path, settings.to_string()).unwrap();
}

/// Processes that `parent` started and that are still there.
#[cfg(target_os = "linux")]
fn children(parent: u32) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let stats =
        processes.filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok());
    // The name in parentheses may hold anything; state and parent follow it.
    let parents =
        stats.filter_map(|stat| stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok());
    parents.filter(|found: &u32| *found == parent).count()
}

#[cfg(target_os = "linux")]
fn resident_kb(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
