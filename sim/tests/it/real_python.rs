//! Two servers from PyPI, which speak the newest protocol, through the real binary.

use crate::support::TestHub;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where `scripts/servers` installs them; without them the test says so and does nothing.
fn installed() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/servers");
    let found = folder.join("installed-python").exists();
    if !found {
        eprintln!("skipped: the servers from PyPI are not installed; run scripts/servers");
    }
    found.then(|| folder.join("python").canonicalize().expect("a folder"))
}

fn git(folder: &Path, words: &[&str]) {
    let done = Command::new("git").arg("-C").arg(folder).args(words).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn servers_from_pypi_read_a_repository_and_the_time() {
    let Some(packages) = installed() else { return };
    let hub = TestHub::new();
    let repository = hub.file("repository");
    std::fs::create_dir(&repository).unwrap();
    git(&repository, &["init", "--quiet", "--initial-branch", "main"]);
    std::fs::write(repository.join("note.txt"), "a note\n").unwrap();
    git(&repository, &["add", "note.txt"]);
    let who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
    git(&repository, &[&who[..], &["commit", "--quiet", "-m", "The first note"]].concat());
    let repository = repository.to_str().unwrap();
    let path = format!("PYTHONPATH={}", packages.display());
    for (namespace, words) in [
        ("git", vec!["-m", "mcp_server_git", "--repository", repository]),
        ("time", vec!["-m", "mcp_server_time", "--local-timezone", "UTC"]),
    ] {
        let before = ["add", "--accept", "--namespace", namespace, "--env", &path, "python3"];
        hub.ok(before.into_iter().chain(words));
    }
    let mut client = hub.serve();
    client.stateless();
    let code = format!(
        "const [log, now] = await Promise.all([git.gitLog({{ repo_path: {} }}), time.getCurrentTime({{ timezone: 'Europe/Berlin' }})]);\nreturn {{ log, now }}",
        json!(repository)
    );
    let done = client.execute(&code);
    assert_eq!(done["status"], "completed", "{done:#}");
    assert!(done["result"]["log"].to_string().contains("The first note"), "{done:#}");
    assert!(done["result"]["now"].to_string().contains("Europe/Berlin"), "{done:#}");
    // Staging a file changes something, so it asks.
    let code = format!(
        "return await git.gitAdd({{ repo_path: {}, files: ['note.txt'] }})",
        json!(repository)
    );
    assert_eq!(client.execute(&code)["status"], "awaiting_approval");
    let declared =
        client.text("describe", &json!({ "targets": ["time.convertTime", "git.gitDiff"] }));
    assert!(declared.contains("convertTime(input: {"), "{declared}");
}
