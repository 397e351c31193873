//! Servers over HTTP that break at every byte.

use super::{allow_all, caught, client, hub_with, limit, manner, of_url, over_http};
use crate::support::{TestHub, until};
use serde_json::{Value, json};
use sim::awkward::http::{Fault, Kind, Manner, Running, rpc_error};
use sim::awkward::{Awkward, Server};

/// The fields of an error that programs go by.
fn error_of(value: &Value) -> String {
    let code = value["code"].as_str().unwrap_or("no error");
    let (status, retryable) = (&value["status"], &value["retryable"]);
    let headers = value["headers"].as_object().filter(|headers| !headers.is_empty());
    let headers = headers.map_or_else(String::new, |headers| format!(" {}", json!(headers)));
    format!(
        "{code} {status} retryable {retryable}{headers}: {}",
        value["message"].as_str().unwrap_or("")
    )
}

#[test]
fn every_status_is_an_error_of_its_own_for_reads_and_writes() {
    let running = over_http(manner(Kind::Json));
    let hub = hub_with(&of_url(&running));
    let mut client = client(&hub);
    let mut table = Vec::new();
    for (status, body) in [
        (400, "{\"error\":{\"message\":\"no such page\"}}"),
        (401, ""),
        (403, "{\"error\":\"insufficient_scope\",\"error_description\":\"needs repo:write\"}"),
        (404, ""),
        (408, ""),
        (413, "too large"),
        (429, ""),
        (500, "<html>oops</html>"),
        (501, ""),
        (502, ""),
        (503, ""),
        (504, ""),
    ] {
        for call in ["odd.readThing()", "odd.writeUnannotated()"] {
            let headers = vec![
                (
                    "content-type",
                    if body.starts_with('{') { "application/json" } else { "text/plain" }
                        .to_owned(),
                ),
                ("x-ratelimit-remaining", "0".to_owned()),
                ("set-cookie", "session=secret".to_owned()),
            ];
            running.fault("tools/call", Fault::Status(status, headers, body.to_owned()));
            table.push(format!("{call} {status} → {}", error_of(&caught(&mut client, call))));
        }
    }
    insta::assert_snapshot!(table.join("\n"));
    assert_eq!(running.calls().len(), table.len(), "nothing was sent twice");
}

#[test]
fn a_server_that_says_when_to_come_back_has_refused_and_one_that_does_not_may_have_done_it() {
    let running = over_http(manner(Kind::Json));
    let hub = hub_with(&of_url(&running));
    let mut client = client(&hub);
    for (headers, code) in [
        (vec![("retry-after", "0".to_owned())], "source_unavailable"),
        // What proxies and frameworks answer when whoever was at work took too long or broke off.
        (vec![], "outcome_unknown"),
    ] {
        running.fault("tools/call", Fault::Status(503, headers, String::new()));
        assert_eq!(caught(&mut client, "odd.writeUnannotated()")["code"], code);
    }
    assert_eq!(running.calls(), ["write_unannotated"; 2]);
}

#[test]
fn an_error_of_the_protocol_stays_one_in_any_envelope() {
    let running = over_http(manner(Kind::Json));
    let hub = hub_with(&of_url(&running));
    let headers = vec![("content-type", "application/json".to_owned())];
    running.fault("tools/call", Fault::Status(400, headers, rpc_error(-32602, "no such tool")));
    let error = caught(&mut client(&hub), "odd.readThing()");
    assert_eq!(error_of(&error), "upstream_error -32602 retryable false: no such tool");
}

#[test]
fn a_wait_that_the_server_asks_for_is_kept_within_the_wall() {
    let running = over_http(manner(Kind::Json));
    let hub = hub_with(&of_url(&running));
    limit(&hub, "wallMs", 5_000);
    let mut client = client(&hub);
    let wait = |seconds: u64| {
        Fault::Status(429, vec![("retry-after", seconds.to_string())], String::new())
    };
    // A read is asked once more, when the time has come.
    running.fault("tools/call", wait(1));
    assert_eq!(caught(&mut client, "odd.readThing()")["value"], "ran:read_thing");
    assert_eq!(running.calls(), ["read_thing"; 2]);
    // A write is not; whoever wrote it may, and what comes next waits.
    running.fault("tools/call", wait(1));
    let error = caught(&mut client, "odd.writeUnannotated()");
    insta::assert_snapshot!(error_of(&error), @r#"upstream_rate_limited 429 retryable true {"retry-after":"1"}: `odd`: the server answered with status 429 (too many requests); it asks to wait 1 s"#);
    assert_eq!(caught(&mut client, "odd.writeUnannotated()")["value"], "ran:write_unannotated");
    assert_eq!(running.calls().len(), 4);
    // Longer than the run may take: said at once, and nothing is sent meanwhile.
    running.fault("tools/call", wait(600));
    insta::assert_snapshot!(error_of(&caught(&mut client, "odd.readThing()")), @r#"upstream_rate_limited 429 retryable true {"retry-after":"600"}: `odd`: the server answered with status 429 (too many requests); it asks to wait 600 s"#);
    let calls = running.calls().len();
    assert_eq!(caught(&mut client, "odd.getUser()")["code"], "upstream_rate_limited");
    assert_eq!(running.calls().len(), calls);
}

#[test]
fn a_lost_session_is_opened_anew_and_only_reads_are_sent_again() {
    for status in [400, 404, 503] {
        let running = over_http(Manner { sessions: true, ..manner(Kind::Json) });
        let hub = hub_with(&of_url(&running));
        let mut client = client(&hub);
        assert_eq!(caught(&mut client, "odd.readThing()")["value"], "ran:read_thing");
        running.fault("tools/call", Fault::Forget(status));
        assert_eq!(caught(&mut client, "odd.readThing()")["value"], "ran:read_thing", "{status}");
        running.fault("tools/call", Fault::Forget(status));
        let before = running.calls().len();
        let error = caught(&mut client, "odd.writeUnannotated()");
        // A session that is not known was not looked at; the other may be said by whoever stands before.
        let forgotten = status != 503;
        let expected = if forgotten { "source_unavailable" } else { "outcome_unknown" };
        assert_eq!(error["code"], expected, "{error:#}");
        assert_eq!(error["retryable"], forgotten, "{error:#}");
        assert_eq!(running.calls().len(), before + 1, "a write is sent once");
        assert_eq!(caught(&mut client, "odd.writeUnannotated()")["value"], "ran:write_unannotated");
        let ends = |running: &Running| {
            running.seen().iter().filter(|seen| seen.line.starts_with("DELETE")).count()
        };
        let ended = ends(&running);
        client.close();
        until("the end of the session", || (ends(&running) > ended).then_some(()));
    }
}

#[test]
fn what_stalls_or_breaks_off_is_bounded_and_named() {
    let running = over_http(manner(Kind::Json));
    let hub = hub_with(&of_url(&running));
    limit(&hub, "upstreamTimeoutMs", 400);
    let mut client = client(&hub);
    let mut table = Vec::new();
    for fault in [
        Fault::StallHead,
        Fault::StallBody,
        Fault::HangUp,
        Fault::Half,
        Fault::Garbage,
        Fault::Page,
        Fault::DoneAndLost(502),
    ] {
        for call in ["odd.readThing()", "odd.writeUnannotated()"] {
            running.fault("tools/call", fault.clone());
            table.push(format!("{call} {fault:?} → {}", error_of(&caught(&mut client, call))));
            assert_eq!(caught(&mut client, "odd.getUser()")["value"], "ran:get.user", "{fault:?}");
        }
    }
    insta::assert_snapshot!(table.join("\n"));
    let writes = running.calls().iter().filter(|call| *call == "write_unannotated").count();
    assert_eq!(writes, 7, "each write left once");
}

#[test]
fn redirects_are_followed_within_the_origin_only() {
    let (running, other) = (over_http(manner(Kind::Json)), over_http(manner(Kind::Json)));
    let hub = hub_with(&of_url(&running));
    let mut client = client(&hub);
    let to = |place: String| Fault::Status(307, vec![("location", place)], String::new());
    running.fault("tools/call", to("/mcp/elsewhere/".to_owned()));
    assert_eq!(caught(&mut client, "odd.writeUnannotated()")["value"], "ran:write_unannotated");
    assert_eq!(running.seen().last().unwrap().line, "POST /mcp/elsewhere/");
    let mut table = Vec::new();
    for place in [format!("{}?token=secret", other.url()), "ftp://x/".to_owned(), "/mcp".to_owned()]
    {
        for _ in 0..if place == "/mcp" { 9 } else { 1 } {
            running.fault("tools/call", to(place.clone()));
        }
        let error = error_of(&caught(&mut client, "odd.writeUnannotated()"));
        table.push(error.replace(&other.port().to_string(), "PORT"));
        running.change(|manner| manner.faults.clear());
    }
    insta::assert_snapshot!(table.join("\n"), @r"
    upstream_error 307 retryable false: `odd`: the server answered with status 307: it redirects to `http://127.0.0.1:PORT/mcp?…`, which is another origin than the one you agreed to; add that address instead
    upstream_error 307 retryable false: `odd`: the server answered with status 307: it redirects to nowhere
    source_unavailable null retryable true: `odd` is not available: the server redirects more than 4 times
    ");
    assert!(other.seen().is_empty(), "nothing reached the other origin");
}

#[test]
fn a_stream_that_breaks_before_the_answer_is_taken_up_again() {
    let running = over_http(manner(Kind::Events));
    let hub = hub_with(&of_url(&running));
    running.fault("tools/call", Fault::Interrupted);
    let mut client = client(&hub);
    assert_eq!(caught(&mut client, "odd.writeUnannotated()")["value"], "ran:write_unannotated");
    assert_eq!(running.calls(), ["write_unannotated"]);
}

#[test]
fn a_call_that_is_given_up_is_taken_back_and_no_other() {
    for kind in [Kind::Events, Kind::Older(405)] {
        let running = over_http(manner(kind));
        let hub = hub_with(&of_url(&running));
        limit(&hub, "upstreamTimeoutMs", 400);
        let mut client = client(&hub);
        let gate = hub.file("gate");
        let code = format!(
            "const beside = odd.waitFor({{ path: {} }});\nconst hung = await odd.hang().catch((e) => e.code);\nreturn [hung, await odd.progress({{ times: 9, everyMs: 50 }})]",
            json!(gate.to_str().unwrap())
        );
        std::fs::write(&gate, "").unwrap();
        assert_eq!(client.execute(&code)["result"], json!(["outcome_unknown", "done"]));
        let seen = running.seen();
        let hung = seen.iter().find(|seen| seen.message["params"]["name"] == "hang").unwrap();
        let taken_back: Vec<&Value> = seen
            .iter()
            .filter(|seen| seen.message["method"] == "notifications/cancelled")
            .map(|seen| &seen.message["params"]["requestId"])
            .collect();
        assert_eq!(taken_back, [&hung.message["id"]], "{kind:?}");
    }
}

#[test]
fn an_older_server_is_found_by_its_refusal_and_by_nothing_else() {
    for status in [400, 404, 405, 406, 411] {
        let running = over_http(manner(Kind::Older(status)));
        let hub = hub_with(&of_url(&running));
        assert_eq!(
            caught(&mut client(&hub), "odd.readThing()")["value"],
            "ran:read_thing",
            "{status}"
        );
    }
    for status in [401, 403, 429, 500, 503] {
        let running = over_http(manner(Kind::Older(status)));
        let hub = TestHub::new();
        let added = hub.run(["add", "--accept", "--namespace", "odd", &running.url()]);
        if status == 401 {
            assert!(added.stdout.contains("wants a credential"), "{added:#?}");
        } else {
            assert!(added.stderr.contains(&format!("status {status}")), "{added:#?}");
        }
        let streams = running.seen().iter().filter(|seen| seen.line.starts_with("GET")).count();
        assert_eq!(streams, 0, "{status} does not say that the server is an older one");
    }
}

#[test]
fn what_cannot_be_added_says_why() {
    let running = over_http(manner(Kind::Json));
    let port = running.port();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut table = Vec::new();
    for (url, fault) in [
        (format!("http://127.0.0.1:{nobody}/mcp"), None),
        ("http://no-such-host.invalid/mcp".to_owned(), None),
        (format!("https://127.0.0.1:{port}/mcp"), None),
        (format!("http://127.0.0.1:{port}/mcp"), Some(Fault::Status(403, vec![], String::new()))),
        (format!("http://127.0.0.1:{port}/mcp"), Some(Fault::Page)),
        (format!("http://127.0.0.1:{port}/mcp"), Some(Fault::Garbage)),
        (format!("http://127.0.0.1:{port}/mcp"), Some(Fault::HangUp)),
        ("http://user:secret@127.0.0.1/mcp".to_owned(), None),
        ("ftp://127.0.0.1/mcp".to_owned(), None),
        ("https://".to_owned(), None),
        ("https://example.com/openapi.json".to_owned(), None),
    ] {
        if let Some(fault) = fault {
            running.fault("*", fault);
        }
        let hub = TestHub::new();
        let added = hub.run(["add", "--accept", "--namespace", "odd", &url]);
        assert_ne!(added.status, 0, "{url}");
        assert!(!added.stderr.contains("secret"), "{added:#?}");
        let last: Vec<&str> =
            added.stderr.lines().skip_while(|line| !line.starts_with("error")).collect();
        let text = format!("{url} → {} {}", added.status, last.join(" "));
        table.push(text.replace(&port.to_string(), "PORT").replace(&nobody.to_string(), "NOBODY"));
        assert_eq!(hub.json(["list"]).1["sources"], json!([]));
        running.change(|manner| manner.faults.clear());
    }
    insta::assert_snapshot!(table.join("\n"));
}

#[test]
fn the_query_of_an_address_is_sent_and_never_shown() {
    let running = over_http(manner(Kind::Json));
    let hub = TestHub::new();
    let url = format!("{}?apiKey=canary%20value&v=2", running.url());
    let mut shown = Vec::new();
    let added = hub.run(["add", "--accept", "--namespace", "odd", &url]);
    assert_eq!(added.status, 0, "{added:#?}");
    shown.extend([added.stdout, added.stderr]);
    assert!(
        running.seen().iter().all(|seen| seen.line.ends_with("/mcp?apiKey=canary%20value&v=2"))
    );
    allow_all(&hub);
    running.fault(
        "tools/call",
        Fault::Status(500, vec![], "at /mcp?apiKey=canary%20value".to_owned()),
    );
    let errors = hub.run(["exec", "return await odd.readThing()"]);
    shown.extend([errors.stdout, errors.stderr]);
    let echoed = hub.run(["exec", "return await odd.echoArgs({ a: 'x' })"]);
    shown.extend([echoed.stdout, echoed.stderr]);
    for words in
        [&["list"][..], &["--json", "list"], &["doctor"], &["--json", "doctor"], &["refresh"]]
    {
        let ran = hub.run(words.iter().copied());
        shown.extend([ran.stdout, ran.stderr]);
    }
    for text in shown {
        assert!(!text.contains("canary"), "{text}");
    }
}

#[test]
fn an_address_of_the_newer_internet_protocol_works() {
    let Ok(running) =
        Running::start_at(Server::new(Awkward::default()), manner(Kind::Json), "[::1]:0")
    else {
        eprintln!("skipped: this machine has no IPv6");
        return;
    };
    let hub = hub_with(&of_url(&running));
    assert_eq!(caught(&mut client(&hub), "odd.readThing()")["value"], "ran:read_thing");
}

#[test]
fn a_server_that_does_not_answer_holds_up_nobody_else() {
    let (stalled, fine) = (over_http(manner(Kind::Json)), over_http(manner(Kind::Json)));
    let hub = hub_with(&of_url(&fine));
    hub.ok(["add", "--accept", "--namespace", "stalled", &stalled.url()]);
    for _ in 0..8 {
        stalled.fault("*", Fault::StallHead);
    }
    let mut client = client(&hub);
    let code = json!({ "code": "return await stalled.readThing()" });
    client.send("tools/call", json!({ "name": "execute", "arguments": code }));
    assert_eq!(caught(&mut client, "odd.readThing()")["value"], "ran:read_thing");
    let found = client.text("search", &json!({ "query": "read thing" }));
    assert!(found.contains("stalled.readThing"), "{found}");
}
