//! Both sandboxes pass one suite.

use hub::adapters::sandbox::{InlineSandbox, WorkerSandbox};
use hub::ports::sandbox::Sandbox;
use sim::conformance::sandbox::{Kind, TOPICS, mismatches, read};
use std::path::PathBuf;

#[tokio::test]
async fn the_inline_sandbox_does_what_every_sandbox_must() {
    check(&InlineSandbox, Kind::Inline).await;
}

#[tokio::test]
async fn the_worker_sandbox_does_what_every_sandbox_must() {
    check(&workers(), Kind::Worker).await;
}

async fn check<S: Sandbox>(sandbox: &S, kind: Kind) {
    let mut found = String::new();
    for (topic, text) in TOPICS {
        let cases = read(text).unwrap();
        for mismatch in mismatches(sandbox, kind, &cases).await {
            found.push_str(&format!("\n[{topic}]\n{mismatch}"));
        }
    }
    assert!(found.is_empty(), "{found}");
}

fn workers() -> WorkerSandbox {
    WorkerSandbox::new(PathBuf::from(env!("CARGO_BIN_EXE_sim")), hub::cli::BUILD.to_owned()).unwrap()
}
