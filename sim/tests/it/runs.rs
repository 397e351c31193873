//! Runs end to end over fakes: what pauses, what a decision covers, what changes meanwhile, how runs end.

use crate::support::stage::{Stage, code_of, execute, go_on, resume, to_the_end, tool};
use hub::driver::{Decided, StopSignal};
use hub::model::envelope::EnvelopeStatus;
use hub::model::ids::RunId;
use hub::model::policy::{Choice, Effect};
use hub::model::run::RunStatus;
use hub::ports::Ports as _;
use hub::ports::store::{Store as _, StoreError};
use serde_json::{Value, json};
use sim::fakes::Seen;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn twenty_writes_at_once_wait_together_and_one_answer_for_the_run_settles_them() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[Choice::Run]);
    let program = "const all = Array.from({ length: 20 }, (_, k) => s.put({ k }));\nreturn (await Promise.all(all)).length;";
    let waiting = execute(&hub, program).await;
    assert_eq!(waiting.status, EnvelopeStatus::AwaitingApproval);
    assert_eq!(hub.undecided(&waiting.run_id).await.expect("read").len(), 20);
    assert_eq!(stage.reached("put"), [""; 0], "nothing leaves before it is decided");
    let ended = go_on(&hub, waiting).await;
    assert_eq!(ended.result, Some(json!(20)));
    assert_eq!(stage.reached("put").len(), 20);
    let answers = stage
        .history
        .all()
        .into_iter()
        .filter(|seen| matches!(seen, Seen::Answered { .. }))
        .count();
    assert_eq!(answers, 1);
}

#[tokio::test(start_paused = true)]
async fn code_that_returned_with_a_write_undecided_waits_and_keeps_its_result() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[Choice::Once]);
    let waiting = execute(&hub, "s.put({ k: 1 });\nreturn 'done';").await;
    assert_eq!(waiting.status, EnvelopeStatus::AwaitingApproval);
    let ended = go_on(&hub, waiting).await;
    assert_eq!((ended.status, ended.result), (EnvelopeStatus::Completed, Some(json!("done"))));
    assert_eq!(stage.reached("put").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn reads_and_timers_left_at_the_end_are_dropped() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[]);
    let ended =
        execute(&hub, "s.get({ k: 1 });\nsetTimeout(() => s.put({ k: 2 }), 30000);\nreturn 1;")
            .await;
    assert_eq!((ended.status, ended.result), (EnvelopeStatus::Completed, Some(json!(1))));
    assert!(stage.reached("put").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_fails_in_the_code_and_the_same_call_is_denied_unasked() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[Choice::Deny]);
    let program = "const out = [];\nfor (let i = 0; i < 3; i += 1) await s.put({ k: 1 }).catch((e) => out.push(e.code));\nreturn out;";
    let ended = to_the_end(&hub, program).await;
    assert_eq!(
        ended.result,
        Some(json!(["approval_denied", "approval_denied", "approval_denied"]))
    );
    let asked =
        stage.history.all().iter().filter(|seen| matches!(seen, Seen::Answered { .. })).count();
    assert_eq!(asked, 1);
    assert!(stage.reached("put").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_became_deny_while_the_run_waited_wins() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[Choice::Once]);
    let waiting = execute(&hub, "return await s.put({ k: 1 }).catch((e) => e.code);").await;
    stage.rule(&hub, "put", Effect::Deny).await;
    let ended = go_on(&hub, waiting).await;
    assert_eq!(ended.result, Some(json!("denied_by_policy")));
    assert!(stage.reached("put").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_changed_after_it_was_allowed_asks_again_and_says_what_changed() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[Choice::Once]);
    let waiting = execute(&hub, "return await s.put({ k: 1 });").await;
    assert_eq!(hub.put_to_person(&waiting.run_id).await.expect("read"), Decided::All);
    stage.offer(vec![tool("get", true, 1), tool("put", false, 2), tool("drop", false, 1)]);
    let again = resume(&hub, &waiting.run_id).await;
    assert_eq!(again.status, EnvelopeStatus::AwaitingApproval, "{again:?}");
    assert!(stage.reached("put").is_empty(), "what was allowed is not what would run");
    let questions = hub.undecided(&waiting.run_id).await.expect("read");
    assert_eq!(
        questions[0].changes,
        ["description: was \"Does put, edition 1.\", is \"Does put, edition 2.\""]
    );
    let ended = go_on(&hub, again).await;
    assert_eq!(ended.status, EnvelopeStatus::Completed);
    assert_eq!(stage.reached("put").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn always_holds_for_the_contract_it_was_given_for() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[Choice::Always]);
    assert_eq!(
        to_the_end(&hub, "return await s.put({ k: 1 });").await.status,
        EnvelopeStatus::Completed
    );
    let second = execute(&hub, "return await s.put({ k: 2 });").await;
    assert_eq!(second.status, EnvelopeStatus::Completed, "it is not asked again");
    stage.offer(vec![tool("put", false, 2)]);
    let third = execute(&hub, "return await s.put({ k: 3 });").await;
    assert_eq!(third.status, EnvelopeStatus::AwaitingApproval, "a changed tool is another one");
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_while_a_run_waits_is_said() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[Choice::Once]);
    let program = "return await s.put({ k: 1 }).catch((e) => e.code);";
    let (one, other) = (execute(&hub, program).await, execute(&hub, program).await);
    stage.offer(vec![tool("get", true, 1)]);
    assert_eq!(go_on(&hub, one).await.result, Some(json!("tool_gone")));
    hub.remove_source("s").await.expect("removed");
    assert_eq!(go_on(&hub, other).await.result, Some(json!("source_removed")));
    assert!(stage.reached("put").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_question_expires_a_day_after_it_was_first_published() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[]);
    let waiting = execute(&hub, "return await s.put({ k: 1 });").await;
    assert_eq!(resume(&hub, &waiting.run_id).await.status, EnvelopeStatus::AwaitingApproval);
    tokio::time::sleep(Duration::from_secs(24 * 3600 + 1)).await;
    let ended = resume(&hub, &waiting.run_id).await;
    assert_eq!((ended.status, code_of(&ended)), (EnvelopeStatus::Failed, "run_expired"));
    assert_eq!(hub.show_run(&waiting.run_id).await.expect("read").status, RunStatus::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_stays_cancelled_and_an_unknown_one_is_said() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[Choice::Once]);
    let waiting = execute(&hub, "await s.get({ k: 1 });\nreturn await s.put({ k: 1 });").await;
    assert_eq!(hub.cancel(&waiting.run_id).await.expect("there"), RunStatus::Cancelled);
    let ended = resume(&hub, &waiting.run_id).await;
    assert_eq!((ended.status, code_of(&ended)), (EnvelopeStatus::Cancelled, "run_cancelled"));
    assert_eq!(ended.calls.len(), 1, "what it did before is still said");
    let unknown = RunId::from_random([9; 10]);
    let error = hub.resume(&unknown, StopSignal::never()).await.expect_err("there is none");
    assert_eq!(error.code.as_str(), "unknown_run");
    assert!(matches!(
        hub.cancel(&unknown).await,
        Err(hub::driver::HubError::Store(StoreError::NoRun(_)))
    ));
}

#[tokio::test(start_paused = true)]
async fn resuming_a_finished_run_returns_what_it_returned() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[]);
    let ended = execute(&hub, "return [await s.get({ k: 1 }), Math.random(), Date.now()];").await;
    assert_eq!(resume(&stage.hub(2, &[]), &ended.run_id).await, ended);
    assert_eq!(stage.reached("get").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_run_s_clock_stands_still_while_it_waits() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[Choice::Once]);
    let program = "const before = Date.now();\nawait s.put({ k: 1 });\nreturn Date.now() - before;";
    let waiting = execute(&hub, program).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let ended = go_on(&hub, waiting).await;
    let passed = ended.result.as_ref().and_then(Value::as_u64).expect("a number");
    assert!(passed < 1_000, "{passed} ms passed for the code");
}

#[tokio::test(start_paused = true)]
async fn a_promise_that_nothing_can_settle_is_said_at_once() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[]);
    let began = tokio::time::Instant::now();
    let ended = execute(&hub, "await new Promise(() => {});").await;
    assert_eq!(code_of(&ended), "never_settles");
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn limits_end_a_run_with_their_own_code() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[]);
    let check = async |program: &str, expected: &str| {
        let ended = execute(&hub, program).await;
        assert_eq!(code_of(&ended), expected, "{program}");
        assert_eq!(
            execute(&hub, "return 1").await.result,
            Some(json!(1)),
            "the next run is unharmed"
        );
    };
    check("for (let k = 0; k < 501; k += 1) await s.get({ k });", "call_limit").await;
    check("for (;;) {}", "compute_limit").await;
    check(
        "for (let i = 0; i < 4; i += 1) await new Promise((r) => setTimeout(r, 30000));",
        "wall_limit",
    )
    .await;
    check("const a = []; for (;;) a.push(new Array(1000).fill(a.length));", "memory_limit").await;
    check("for (let i = 0; i < 300; i += 1) await hub.search('x' + i);", "request_limit").await;
    check("const a = {}; a.a = a; return a;", "result_not_json").await;
}

#[tokio::test(start_paused = true)]
async fn another_path_than_the_journal_s_is_a_divergence_with_both_sides() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[Choice::Once]);
    let waiting = execute(&hub, "await s.get({ k: 1 });\nreturn await s.put({ k: 2 });").await;
    let mut record = hub.show_run(&waiting.run_id).await.expect("read").record;
    record.program = record.program.replace("k: 1", "k: 7");
    let other = stage.hub(2, &[Choice::Once]);
    // The record is written once; a test may still show what a changed program meets.
    let journal = hub.ports().store().journal(&record.id).await.expect("read");
    let second = Stage::new().await;
    let hub = second.hub(3, &[Choice::Once]);
    drop(other);
    let snapshot =
        serde_json::to_string(&stage.hub(4, &[]).facts().await.expect("read").snapshot())
            .expect("json");
    hub.ports().store().put_blob(record.snapshot, &snapshot).await.expect("kept");
    hub.ports().store().create_run(&record).await.expect("made");
    let undecided = journal.len() - 2;
    hub.ports().store().append(&record.id, 0, &journal[..undecided], true).await.expect("appended");
    let ended = resume(&hub, &record.id).await;
    assert_eq!(code_of(&ended), "divergence");
    let message = ended.error.expect("failed").message;
    assert!(
        message.contains("call c1 was `s.get`") && message.contains("and is `s.get`"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_process_that_began_a_run_drives_it_on_after_another_decided() {
    let stage = Stage::new().await;
    let (first, second) = (stage.hub(1, &[]), stage.hub(2, &[Choice::Once]));
    let waiting = execute(&first, "return await s.put({ k: 1 });").await;
    assert_eq!(second.put_to_person(&waiting.run_id).await.expect("read"), Decided::All);
    let (here, there) =
        tokio::join!(resume(&first, &waiting.run_id), resume(&second, &waiting.run_id));
    assert_eq!(here.status, EnvelopeStatus::Completed);
    assert_eq!(here, there);
    assert_eq!(stage.reached("put").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_leaves_a_running_run_to_be_resumed() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[]);
    let going = hub.clone();
    let running = tokio::spawn(async move {
        execute(&going, "await s.get({ k: 1 });\nawait new Promise((r) => setTimeout(r, 20000));\nreturn await s.get({ k: 2 });").await
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    hub.shut_down().await;
    let left = running.await.expect("it ends");
    assert_eq!(left.status, EnvelopeStatus::Running);
    let ended = resume(&stage.hub(2, &[]), &left.run_id).await;
    assert_eq!(ended.status, EnvelopeStatus::Completed, "{ended:?}");
    assert_eq!(
        stage.reached("get"),
        ["{\"k\":1}", "{\"k\":2}"],
        "a settled read is not made again"
    );
}

#[tokio::test(start_paused = true)]
async fn two_hubs_in_one_process_share_nothing() {
    let (one, other) = (Stage::new().await, Stage::new().await);
    let (here, there) = (one.hub(1, &[]), other.hub(1, &[]));
    let ended = execute(&here, "return await s.get({ k: 1 });").await;
    assert!(there.resume(&ended.run_id, StopSignal::never()).await.is_err());
    here.remove_source("s").await.expect("removed");
    assert_eq!(execute(&there, "return Object.keys(s).length;").await.result, Some(json!(3)));
    assert!(other.reached("get").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_a_day_expires_nothing_until_an_hour_of_uptime_agrees() {
    let stage = Stage::new().await;
    let first = stage.hub(1, &[]);
    let waiting = execute(&first, "return await s.put({ k: 1 });").await;
    // It lets go of the run, as a process that ended has.
    first.shut_down().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Every process starts a minute of wall time after the one before: this one, two days on.
    let jumped = stage.hub(1 + 2 * 24 * 60, &[]);
    let at_once = resume(&jumped, &waiting.run_id).await;
    assert_eq!(at_once.status, EnvelopeStatus::AwaitingApproval, "{at_once:?}");
    tokio::time::sleep(Duration::from_secs(3601)).await;
    assert_eq!(code_of(&resume(&jumped, &waiting.run_id).await), "run_expired");
}

#[tokio::test(start_paused = true)]
async fn a_sweep_removes_what_ended_long_ago_and_keeps_what_is_still_named() {
    let stage = Stage::new().await;
    let hub = stage.hub(1, &[]);
    let ended = execute(&hub, "return await s.get({ k: 1 });").await;
    assert_eq!(hub.sweep().await.expect("swept").0, 0, "it is still young");
    let waiting = execute(&hub, "return await s.put({ k: 1 });").await;
    hub.shut_down().await;
    let later = stage.hub(8 * 24 * 60, &[Choice::Once]);
    assert_eq!(later.sweep().await.expect("swept").0, 0, "the clock may have jumped");
    tokio::time::sleep(Duration::from_secs(3601)).await;
    assert_eq!(later.sweep().await.expect("swept").0, 1);
    assert!(later.show_run(&ended.run_id).await.is_err());
    let left = later.show_run(&waiting.run_id).await.expect("it ended only now");
    assert_eq!(left.status, RunStatus::Expired);
    // A reviewed contract is still there to say what changed.
    stage.offer(vec![tool("get", true, 1), tool("put", false, 2)]);
    later.refresh(&later.source("s").await.expect("there")).await.expect("listed");
    let asks = execute(&later, "return await s.put({ k: 2 });").await;
    let questions = later.undecided(&asks.run_id).await.expect("read");
    let change = questions[0].changes.first().expect("it says what changed");
    assert!(change.contains("description"), "{change}");
}
