//! Every limit of the hub, reached through whole runs: its own error, to the byte, and nothing harmed.

use hub::driver::{Code, Decided, Hub, NewSource, Reviewed, StopSignal};
use hub::model::call::UpstreamResult;
use hub::model::envelope::{Envelope, EnvelopeStatus};
use hub::model::error::Failure;
use hub::model::ids::SourceId;
use hub::model::journal::Entry;
use hub::model::limits::{LOOKUPS_MAX, Limits, TIMERS_MAX};
use hub::model::policy::Choice;
use hub::model::source::Settings;
use hub::model::time::{Tick, WallMs};
use hub::ports::Ports as _;
use hub::ports::clock::Clock as _;
use hub::ports::sources::{CallError, Listing, Route, Sources, UpstreamCall};
use hub::ports::store::Store as _;
use serde_json::{Value, json};
use sim::fakes::{
    Disk, FakeTool, Faults, History, SimPerson, SimPorts, SimSources, SimStore, Upstreams,
};
use sim::seed::Seed;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type SimHub = Hub<SimPorts<SimStore, Measured, SimPerson>>;

#[tokio::test(start_paused = true)]
async fn code_may_have_exactly_code_bytes() {
    let stage = Stage::new(json!({}), &[]).await;
    let most = usize::try_from(Limits::default().code_bytes).unwrap();
    let code = |bytes: usize| format!("return 1 //{}", "x".repeat(bytes - 11));
    // Bytes are counted, not characters.
    let wide = |bytes: usize| format!("return 1 //{}é", "x".repeat(bytes - 13));
    stage.check(&code(most), "returned 1").await;
    stage.check(&wide(most), "returned 1").await;
    let refused = "code_too_large: the code has 65537 bytes; at most 65536 are allowed\nSend less code: pass data through tools instead of literals, or split the task over several runs.";
    stage.check(&code(most + 1), refused).await;
    stage.check(&wide(most + 1), refused).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_may_compute_for_compute_ms_over_all_its_steps() {
    let stage = Stage::new(json!({ "computeMs": 200 }), &[]).await;
    let over = "compute_limit: the code computed for more than 200 ms\nDo less work per run: filter early, avoid quadratic loops, or split the task.";
    stage.check("for (;;) {}", over).await;
    // It counts over all steps of an attempt, of which each is short enough.
    let program = |steps: u32| {
        format!(
            "for (let k = 0; k < {steps}; k += 1) {{ await s.get({{ k }}); for (let i = 0; i < 3000000; i += 1); }}\nreturn 1;"
        )
    };
    stage.check(&program(1), "returned 1").await;
    stage.check(&program(4), over).await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_may_take_less_than_wall_ms() {
    let stage = Stage::new(json!({ "wallMs": 10_000 }), &[]).await;
    let waits =
        |ms: u32| format!("await new Promise((done) => setTimeout(done, {ms}));\nreturn 1;");
    stage.check(&waits(9_999), "returned 1").await;
    let over = "wall_limit: the attempt took longer than 10000 ms, and was waiting for a timer\nMake fewer or faster calls per run, in parallel where they do not depend on each other.";
    stage.check(&waits(10_000), over).await;
    // A call that does not answer is over with it.
    let began = tokio::time::Instant::now();
    stage.check("await s.hang({ k: 1 });", &over.replace("a timer", "`s.hang`")).await;
    assert!(began.elapsed() < Duration::from_millis(10_250), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_guest_may_hold_memory_bytes() {
    let stage = Stage::new(json!({ "memoryBytes": 8 << 20 }), &[]).await;
    let over = "memory_limit: the code used more than 8 MB of memory\nKeep less at once: ask tools for smaller pages and keep only the fields you need.";
    stage.check("return new Uint8Array(9 << 20).length;", over).await;
    stage.check("const a = []; for (;;) a.push({ a });", over).await;
    stage.check("return new Uint8Array(5 << 20).length;", "returned 5242880").await;
}

#[tokio::test(start_paused = true)]
async fn a_run_may_make_exactly_max_calls() {
    let stage = Stage::new(json!({}), &[]).await;
    let calls = |count: u32| {
        format!("for (let k = 0; k < {count}; k += 1) await s.get({{ k }});\nreturn 1;")
    };
    stage.check(&calls(500), "returned 1").await;
    let over = "call_limit: the run made more than 500 calls; the next was `s.get`\nAsk for larger pages, or split the task over several runs.";
    stage.check(&calls(501), over).await;
    assert_eq!(stage.calls.load(Ordering::SeqCst), 1_000, "the last one never left");
    let at_once = "await Promise.all(Array.from({ length: 501 }, (_, k) => s.get({ k })));";
    stage.check(at_once, over).await;
    assert!(stage.calls.load(Ordering::SeqCst) <= 1_500);
}

#[tokio::test(start_paused = true)]
async fn max_calls_counts_all_attempts_together() {
    let stage = Stage::new(json!({ "maxCalls": 3 }), &[Choice::Once]).await;
    let program = |calls: u32| {
        format!(
            "await s.get({{ k: 0 }});\nawait s.put({{ k: 1 }});\nfor (let k = 2; k < {calls}; k += 1) await s.get({{ k }});\nreturn 1;"
        )
    };
    stage.check(&program(3), "returned 1").await;
    let over = "call_limit: the run made more than 3 calls; the next was `s.get`\nAsk for larger pages, or split the task over several runs.";
    stage.check(&program(4), over).await;
}

#[tokio::test(start_paused = true)]
async fn at_most_max_concurrent_calls_are_in_flight() {
    for (limits, most) in
        [(json!({}), 8), (json!({ "maxConcurrent": 3 }), 3), (json!({ "maxConcurrent": 1 }), 1)]
    {
        let stage = Stage::new(limits, &[]).await;
        let program = "return (await Promise.all(Array.from({ length: 20 }, (_, k) => s.slow({ k })))).length;";
        stage.check(program, "returned 20").await;
        assert_eq!(stage.calls_at_once.load(Ordering::SeqCst), most);
    }
}

#[tokio::test(start_paused = true)]
async fn an_envelope_has_at_most_inline_result_bytes() {
    for (limits, most) in [(json!({}), 24 * 1024), (json!({ "inlineResultBytes": 8_192 }), 8_192)] {
        let stage = Stage::new(limits, &[]).await;
        // The longest that passes whole, found by halves.
        let (mut fits, mut too_long) = (0, most);
        while too_long - fits > 1 {
            let middle = usize::midpoint(fits, too_long);
            let envelope = stage.run(&format!("return 'é'.repeat({middle});")).await.unwrap();
            if envelope.truncated.is_none() { fits = middle } else { too_long = middle }
        }
        let whole = stage.run(&format!("return 'é'.repeat({fits});")).await.unwrap();
        assert_eq!(whole.result, Some(json!("é".repeat(fits))));
        let bytes = serde_json::to_string(&whole).unwrap().len();
        assert!(bytes <= most && bytes > most - 100, "{bytes} of {most}");
        let cut = stage.run(&format!("return 'é'.repeat({too_long});")).await.unwrap();
        let bytes = serde_json::to_string(&cut).unwrap().len();
        assert!(bytes <= most && bytes > most - 400, "{bytes} of {most}");
        assert_eq!(
            (cut.status, cut.truncated.map(|cut| cut.result)),
            (EnvelopeStatus::Completed, Some(true))
        );
        let shown = cut.result.as_ref().and_then(Value::as_str).unwrap();
        assert!(shown.starts_with("\"éé") && shown.ends_with('é'), "cut at a character");
        let notice = format!(
            "The result has {} bytes; the first {} are shown, as a string. Return less: pick fields, filter or summarise in code.",
            2 * too_long + 2,
            shown.len()
        );
        assert_eq!(cut.notices, [notice]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_may_be_silent_for_upstream_timeout_ms() {
    for (limits, most) in [(json!({}), 30_000), (json!({ "upstreamTimeoutMs": 100 }), 100)] {
        let stage = Stage::new(limits, &[Choice::Once]).await;
        let tried = |call: &str| {
            format!(
                "const began = Date.now();\nconst e = await {call}.catch((e) => e);\nreturn [e.code, e.retryable, e.message, e.hint, Date.now() - began];"
            )
        };
        let read = json!([
            "upstream_timeout",
            true,
            format!("`s.hang` gave no answer: it did not answer within {most} ms"),
            "Try again with a smaller request.",
            most
        ]);
        stage.check(&tried("s.hang({ k: 1 })"), &format!("returned {read}")).await;
        let write = json!([
            "outcome_unknown",
            false,
            format!(
                "`s.hangWrite` may or may not have happened: it did not answer within {most} ms"
            ),
            "Do not repeat the call. Check with a read whether it happened, or ask the user.",
            most
        ]);
        stage.check(&tried("s.hangWrite({ k: 1 })"), &format!("returned {write}")).await;
        assert_eq!(stage.calls.load(Ordering::SeqCst), 2, "nothing is sent again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_for_exactly_approval_ttl_ms() {
    let stage = Stage::new(json!({ "approvalTtlMs": 120_000 }), &[]).await;
    let waiting = stage.run("return await s.put({ k: 1 });").await.unwrap();
    let question = stage.hub.undecided(&waiting.run_id).await.unwrap().remove(0);
    assert_eq!(question.expires, WallMs(question.asked.0 + 120_000));
    let until = async |wall: u64| {
        let left = wall - stage.hub.ports().clock().wall().0;
        tokio::time::sleep(Duration::from_millis(left)).await;
    };
    until(question.expires.0 - 10).await;
    let still = stage.hub.resume(&waiting.run_id, StopSignal::never()).await.unwrap();
    assert_eq!(still.status, EnvelopeStatus::AwaitingApproval);
    until(question.expires.0).await;
    let ended = stage.hub.resume(&waiting.run_id, StopSignal::never()).await;
    assert_eq!(
        said(&ended),
        "run_expired: nobody decided about c1 `s.put` before the question expired\nStart a new run if the task is still wanted."
    );
    assert_eq!(stage.calls.load(Ordering::SeqCst), 0);
    stage.check("return 2;", "returned 2").await;
}

#[tokio::test(start_paused = true)]
async fn a_result_may_have_exactly_call_result_bytes() {
    for (limits, most) in [(json!({}), 8 << 20), (json!({ "callResultBytes": 1024 }), 1024)] {
        let stage = Stage::new(limits, &[]).await;
        let tried = |bytes: u64| {
            format!(
                "return await s.big({{ k: {bytes} }}).then((got) => got.length, (e) => [e.code, e.message, e.hint, e.retryable]);"
            )
        };
        stage.check(&tried(most), &format!("returned {}", most - 2)).await;
        let refused = json!([
            "result_too_large",
            format!(
                "`s.big`: the call was made; the result has {} bytes; at most {most} are allowed",
                most + 1
            ),
            "Ask for less: a smaller page, a filter or fewer fields.",
            false
        ]);
        stage.check(&tried(most + 1), &format!("returned {refused}")).await;
    }
    // What the code returns has the same bound, before the envelope cuts it.
    let stage = Stage::new(json!({ "callResultBytes": 1024 }), &[]).await;
    let (fits, over) = (
        "x".repeat(1022),
        "result_not_json: the returned value cannot be used: it has 1025 bytes as JSON; at most 1024 are allowed\nReturn plain data: objects, arrays, strings, numbers, booleans or null.",
    );
    stage.check("return 'x'.repeat(1022);", &format!("returned \"{fits}\"")).await;
    stage.check("return 'x'.repeat(1023);", over).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_may_make_two_hundred_lookups_and_have_ten_thousand_timers() {
    let stage = Stage::new(json!({}), &[]).await;
    let over = "request_limit: the code set more than 10000 timers or made more than 200 lookups\nSet fewer timers and make fewer `hub.search` and `hub.describe` lookups.";
    let lookups = |count: u32| {
        format!("for (let i = 0; i < {count}; i += 1) await hub.search('x' + i);\nreturn 1;")
    };
    stage.check(&lookups(LOOKUPS_MAX), "returned 1").await;
    stage.check(&lookups(LOOKUPS_MAX + 1), over).await;
    // Timers count as long as they are set, over all steps.
    let timers = |count: usize| {
        format!(
            "for (let i = 0; i < {count}; i += 1) setTimeout(() => 0, 30000);\nawait s.get({{ k: 1 }});\nsetTimeout(() => 0, 30000);\nawait s.get({{ k: 2 }});\nreturn 1;"
        )
    };
    stage.check(&timers(TIMERS_MAX - 1), "returned 1").await;
    stage.check(&timers(TIMERS_MAX), over).await;
    stage.check(&timers(TIMERS_MAX + 1), over).await;
}

#[tokio::test(start_paused = true)]
async fn replaying_may_take_four_times_as_long_and_a_second() {
    // A bit over the second that replaying may always take.
    let program = "for (let i = 0; i < 52000000; i += 1);\nawait s.get({ k: 1 });\nreturn await s.put({ k: 2 }).then(() => 1);";
    let stage = Stage::new(json!({}), &[]).await;
    let waiting = stage.run(program).await.unwrap();
    let record = stage.hub.show_run(&waiting.run_id).await.unwrap().record;
    let store = stage.hub.ports().store();
    let journal = store.journal(&record.id).await.unwrap();
    let snapshot = store.blob(record.snapshot).await.unwrap().unwrap();
    let mut free = journal.clone();
    for entry in &mut free {
        if let Entry::Settled { cost_us, .. } | Entry::Paused { cost_us, .. } = entry {
            *cost_us = 0;
        }
    }
    for (entries, expected) in [
        (&journal, "returned 1"),
        (
            &free,
            "replay_limit: replaying the journal took far longer than the first time\nStart a new run with the same code; look at the calls already made first.",
        ),
    ] {
        let other = Stage::new(json!({}), &[Choice::Once]).await;
        let store = other.hub.ports().store();
        store.put_blob(record.snapshot, &snapshot).await.unwrap();
        store.create_run(&record).await.unwrap();
        store.append(&record.id, 0, entries, true).await.unwrap();
        assert_eq!(other.hub.put_to_person(&record.id).await.unwrap(), Decided::All);
        assert_eq!(said(&other.hub.resume(&record.id, StopSignal::never()).await), expected);
        other.check("return 2;", "returned 2").await;
    }
}

/// A hub over fakes with some limits lowered, and what its one source, `s`, saw.
struct Stage {
    hub: SimHub,
    calls: Arc<AtomicU64>,
    calls_at_once: Arc<AtomicU64>,
}

impl Stage {
    async fn new(limits: Value, choices: &[Choice]) -> Stage {
        let history = History::default();
        let upstreams = Upstreams::new(Seed(5), history.clone());
        let sources = Measured::new(SimSources::new(upstreams.clone(), Faults::default()));
        let (calls, calls_at_once) =
            (Arc::clone(&sources.calls), Arc::clone(&sources.calls_at_once));
        let store = Disk::default().store(Faults::default(), history.clone());
        let person = SimPerson::new(history, choices.to_vec());
        let hub = Hub::new(SimPorts::new(Seed(5), 1, store, sources, person), "sim");
        let mut settings = Settings::new("hub_0000000000000000".parse().unwrap());
        settings.limits = serde_json::from_value(limits).unwrap();
        hub.ports().store().write_settings(&settings).await.unwrap();
        let transport = sim::catalog::command("/bin/s");
        let new =
            NewSource { namespace: "s".parse().unwrap(), label: None, transport, consented: true };
        let record = hub.add_source(new).await.unwrap();
        let tool =
            |name: &str, read_only| FakeTool { name: name.to_owned(), read_only, edition: 1 };
        let tools = [
            ("get", true),
            ("slow", true),
            ("hang", true),
            ("big", true),
            ("put", false),
            ("hang_write", false),
        ];
        upstreams.offer(&record.id, tools.map(|(name, reads)| tool(name, reads)).to_vec());
        hub.refresh(&record).await.unwrap();
        let items = hub.to_review(None).await.unwrap();
        let reviewed: Vec<_> =
            items.into_iter().map(|item| Reviewed { item, rule: None }).collect();
        hub.review(&reviewed).await.unwrap();
        Stage { hub, calls, calls_at_once }
    }

    async fn run(&self, text: &str) -> Result<Envelope, Failure> {
        let code = Code { text: text.to_owned(), profile: "default".to_owned() };
        let mut ended = self.hub.execute(code, StopSignal::never()).await;
        while let Ok(Envelope { status: EnvelopeStatus::AwaitingApproval, run_id, .. }) = &ended
            && self.hub.put_to_person(run_id).await.unwrap() == Decided::All
        {
            ended = self.hub.resume(&run_id.clone(), StopSignal::never()).await;
        }
        ended
    }

    /// Runs `text` to its end, and then a program that must come to no harm by it.
    async fn check(&self, text: &str, expected: &str) {
        let ended = self.run(text).await;
        assert_eq!(said(&ended), expected, "{}", text.chars().take(200).collect::<String>());
        let next = self.run("return [1 + 1, (await s.get({ k: 9 })).got.k];").await;
        assert_eq!(said(&next), "returned [2,9]", "the next run is unharmed");
        self.calls.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How a run ended: what it returned, or its error and what the hub advises.
fn said(ended: &Result<Envelope, Failure>) -> String {
    let failure = match ended {
        Ok(Envelope { status: EnvelopeStatus::Completed, result, .. }) => {
            return format!("returned {}", result.as_ref().unwrap_or(&Value::Null));
        }
        Ok(envelope) => envelope.error.clone().expect("a run that did not complete says why"),
        Err(failure) => failure.clone(),
    };
    format!("{failure}\n{}", failure.hint.as_deref().unwrap_or_default())
}

/// A source that counts its calls, and has tools that are slow, silent or large.
#[derive(Debug, Clone)]
struct Measured {
    inner: SimSources,
    calls: Arc<AtomicU64>,
    open: Arc<Mutex<u64>>,
    calls_at_once: Arc<AtomicU64>,
}

impl Measured {
    fn new(inner: SimSources) -> Measured {
        Measured {
            inner,
            calls: Arc::default(),
            open: Arc::default(),
            calls_at_once: Arc::default(),
        }
    }

    async fn answer(
        &self,
        route: &Route,
        call: &UpstreamCall,
    ) -> Result<UpstreamResult, CallError> {
        match call.raw.as_str() {
            "slow" => tokio::time::sleep(Duration::from_secs(1)).await,
            "hang" | "hang_write" => {
                tokio::time::sleep(Duration::from_millis(call.timeout_ms)).await;
                return Err(CallError::Lost(format!(
                    "it did not answer within {} ms",
                    call.timeout_ms
                )));
            }
            "big" => {
                let bytes =
                    call.arguments["k"].as_u64().and_then(|bytes| usize::try_from(bytes).ok());
                let text = Value::String("x".repeat(bytes.expect("a size") - 2));
                return Ok(UpstreamResult {
                    blocks: Vec::new(),
                    structured: Some(text),
                    is_error: false,
                });
            }
            _ => {}
        }
        self.inner.call(route, call).await
    }
}

impl Sources for Measured {
    async fn dial(
        &self,
        route: &Route,
        listed_after: Option<WallMs>,
        deadline: Tick,
    ) -> Result<Arc<Listing>, CallError> {
        self.inner.dial(route, listed_after, deadline).await
    }

    async fn call(&self, route: &Route, call: &UpstreamCall) -> Result<UpstreamResult, CallError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let open = {
            let mut open = self.open.lock().expect("not poisoned");
            *open += 1;
            *open
        };
        self.calls_at_once.fetch_max(open, Ordering::SeqCst);
        let answer = self.answer(route, call).await;
        *self.open.lock().expect("not poisoned") -= 1;
        answer
    }

    async fn close(&self, source: &SourceId) {
        self.inner.close(source).await;
    }

    async fn close_all(&self) {
        self.inner.close_all().await;
    }
}
