//! Both sandboxes pass one suite, and each keeps promises of its own.

use hub::adapters::sandbox::{InlineSandbox, WorkerSandbox};
use hub::model::call::Seq;
use hub::model::time::LogicalMs;
use hub::model::turn::{Answer, Delivery, GuestEnd, GuestLimit, Turn, Yielded};
use hub::ports::sandbox::{Guest, Sandbox, SandboxError};
use sim::conformance::sandbox::{
    Case, HOSTILE, Kind, TOPICS, mismatches, program, read, transcript,
};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[tokio::test]
async fn the_inline_sandbox_does_what_every_sandbox_must() {
    check(&InlineSandbox, Kind::Inline, TOPICS).await;
}

#[tokio::test]
async fn the_worker_sandbox_does_what_every_sandbox_must() {
    check(&workers(), Kind::Worker, TOPICS).await;
}

#[tokio::test]
async fn no_program_that_means_harm_does_any_to_the_inline_sandbox() {
    check(&InlineSandbox, Kind::Inline, HOSTILE).await;
}

#[tokio::test]
async fn no_program_that_means_harm_does_any_to_the_worker_sandbox() {
    check(&workers(), Kind::Worker, HOSTILE).await;
}

#[tokio::test]
async fn guests_at_once_do_not_disturb_each_other() {
    let sandbox = workers();
    let endless = case("Array.prototype.reverse.call({ length: 2 ** 31 });", 300);
    let quick =
        case("globalThis.n = (globalThis.n ?? 0) + 1;\nreturn [n, crypto.randomUUID()];", 1_000);
    let (stuck, a, b, c) = tokio::join!(
        transcript(&sandbox, &endless),
        transcript(&sandbox, &quick),
        transcript(&sandbox, &quick),
        transcript(&sandbox, &quick),
    );
    assert_eq!(stuck, "killed compute");
    assert_eq!(a, transcript(&InlineSandbox, &quick).await);
    assert!(a == b && b == c, "{a} {b} {c}");
}

#[tokio::test]
async fn a_guest_outlives_the_sandbox_that_opened_it() {
    let sandbox = workers();
    // Long enough for whatever ends with the sandbox to have ended.
    let code = "let n = 0;\nfor (let i = 0; i < 3e6; i += 1) n += 1;\nreturn n;";
    let mut guest = sandbox.open(program(&case(code, 10_000)).unwrap()).await.unwrap();
    drop(sandbox);
    let end = start(&mut guest, 10_000).await.unwrap().end;
    assert_eq!(end, Some(GuestEnd::Returned(Some("3000000".to_owned()))));
}

#[tokio::test]
async fn a_killed_guest_stays_dead() {
    let code = "Array.prototype.reverse.call({ length: 2 ** 31 });";
    let mut guest = workers().open(program(&case(code, 30)).unwrap()).await.unwrap();
    assert_eq!(start(&mut guest, 30).await, Err(SandboxError::Killed(GuestLimit::Compute)));
    assert!(matches!(start(&mut guest, 30).await, Err(SandboxError::Crashed(_))));
}

#[tokio::test]
async fn a_program_that_is_no_worker_of_this_build_is_refused() {
    let refusal = async |program: &str, build: &str| {
        let sandbox = WorkerSandbox::new(PathBuf::from(program), build.to_owned(), false).unwrap();
        transcript(&sandbox, &case("return 1;", 1_000)).await
    };
    let worker = env!("CARGO_BIN_EXE_sim");
    assert_eq!(
        refusal(worker, "another build").await,
        "unavailable: the program on disk was replaced while this process ran; restart it"
    );
    assert_eq!(
        refusal("/nonexistent/hub", hub::cli::BUILD).await,
        "unavailable: No such file or directory (os error 2)"
    );
    // `true` ends without a word.
    let silent = refusal("true", hub::cli::BUILD).await;
    assert!(silent.starts_with("unavailable: "), "{silent}");
}

#[tokio::test]
async fn a_worker_without_a_filter_runs_only_if_a_person_said_so() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("worker");
    // What such a worker says first: its build, and one layer that is missing.
    let build = hub::cli::BUILD;
    let frame = format!("\\000\\{:03o}{build}\\001\\007seccomp", build.len());
    let length = 1 + 1 + build.len() + 1 + 1 + "seccomp".len();
    let script =
        format!("#!/bin/sh\nprintf '\\{length:03o}\\000\\000\\000{frame}'\nhead -c 1 >/dev/null\n");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let opened = async |unfiltered| {
        let sandbox =
            WorkerSandbox::new(program.clone(), hub::cli::BUILD.to_owned(), unfiltered).unwrap();
        transcript(&sandbox, &case("return 1;", 1_000)).await
    };
    insta::assert_snapshot!(opened(false).await, @"unavailable: this system has no seccomp, so code could reach files and the network if it broke out of its engine; set CAPABILITIES_WITHOUT_SECCOMP=1 to run it all the same");
    // The script is no worker, so that is as far as it gets.
    let told = opened(true).await;
    assert!(told.starts_with("unavailable: ") && !told.contains("seccomp"), "{told}");
}

/// A worker that says everything ahead, and reads nothing.
fn deaf_worker(folder: &Path) -> WorkerSandbox {
    use std::os::unix::fs::PermissionsExt as _;
    let (program, build) = (folder.join("worker"), hub::cli::BUILD);
    let (ready, opened) =
        (format!("\\000\\{:03o}{build}\\000", build.len()), "\\002\\000\\000\\000\\002\\000");
    let length = 1 + 1 + build.len() + 1;
    let script = format!(
        "#!/bin/sh\nprintf '\\{length:03o}\\000\\000\\000{ready}{opened}'\nexec sleep 60\n"
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    WorkerSandbox::new(program, build.to_owned(), false).unwrap()
}

#[tokio::test]
async fn a_worker_that_reads_nothing_is_killed_as_one_that_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = deaf_worker(folder.path());
    let mut guest = sandbox.open(program(&case("return 1;", 1_000)).unwrap()).await.unwrap();
    // More than a pipe holds.
    let answer = Answer::Text("x".repeat(1 << 20));
    let delivery = Delivery::Call { seq: Seq(1), answer };
    let turn = Turn { delivery, at: LogicalMs(0), budget_us: 10_000 };
    assert_eq!(guest.step(turn).await, Err(SandboxError::Killed(GuestLimit::Compute)));
}

#[tokio::test]
async fn a_worker_that_was_killed_is_said_to_be_however_that_is_seen() {
    use rustix::process::{Pid, Signal, kill_process};
    let folder = tempfile::tempdir().unwrap();
    let mut guest =
        deaf_worker(folder.path()).open(program(&case("", 1_000)).unwrap()).await.unwrap();
    let process = Pid::from_raw(guest.process().cast_signed()).unwrap();
    kill_process(process, Signal::KILL).unwrap();
    let told = Err(SandboxError::Crashed("it ended with signal: 9 (SIGKILL)".to_owned()));
    assert_eq!(start(&mut guest, 1_000).await, told);
}

#[tokio::test]
async fn an_inline_guest_belongs_to_its_thread() {
    let mut guest = InlineSandbox.open(program(&case("return 1;", 1_000)).unwrap()).await.unwrap();
    let elsewhere = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(start(&mut guest, 1_000))
    });
    assert!(matches!(elsewhere.join().unwrap(), Err(SandboxError::Crashed(_))));
}

#[test]
fn a_case_that_does_not_read_is_named() {
    let error = |text: &str| format!("{:#}", read(text).unwrap_err());
    assert_eq!(
        error("=== a\nreturn 1;\n---\n> x1 2\n"),
        "in the case `a`: `x1 2`: a delivery begins with c, t or l"
    );
    assert_eq!(
        error("=== a | sede 1\n\n---\n"),
        "in the case `a | sede 1`: there is no option `sede`"
    );
    assert_eq!(error("=== a\nreturn 1;\n"), "in the case `a`: a case has a transcript after `---`");
}

async fn check<S: Sandbox>(sandbox: &S, kind: Kind, topics: &[(&str, &str)]) {
    let mut found = String::new();
    for (topic, text) in topics {
        let cases = read(text).unwrap();
        for mismatch in mismatches(sandbox, kind, &cases).await {
            writeln!(found, "\n[{topic}]\n{mismatch}").unwrap();
        }
    }
    assert!(found.is_empty(), "{found}");
}

fn workers() -> WorkerSandbox {
    WorkerSandbox::new(PathBuf::from(env!("CARGO_BIN_EXE_sim")), hub::cli::BUILD.to_owned(), false)
        .unwrap()
}

fn case(code: &str, budget_ms: u64) -> Case {
    let text = format!("=== inline | raw, budget_ms {budget_ms}\n{code}\n---\n");
    read(&text).unwrap().remove(0)
}

async fn start<G: Guest>(guest: &mut G, budget_ms: u64) -> Result<Yielded, SandboxError> {
    let turn = Turn { delivery: Delivery::Start, at: LogicalMs(0), budget_us: budget_ms * 1000 };
    guest.step(turn).await
}
