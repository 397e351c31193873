//! What a command said, with everything that differs from run to run taken out.

use crate::support::TestHub;
use std::path::Path;

/// Runs a command without a terminal; what it printed, and its exit status.
pub(super) fn said(hub: &TestHub, arguments: &[&str]) -> String {
    let ended = hub.run(arguments);
    let text = format!("{}{}exit status {}", ended.stdout, ended.stderr, ended.status);
    plain(&hub.file(""), &text)
}

/// Text without the folder it ran in, and with ids and digests as `…`.
pub(super) fn plain(folder: &Path, text: &str) -> String {
    let folder = folder.to_str().expect("a path that is text").trim_end_matches('/');
    let mut plain = text.replace(folder, "HOME").replace(env!("CARGO_BIN_EXE_sim"), "sim");
    plain = plain.replace(env!("CARGO_MANIFEST_DIR"), "HERE");
    for start in ["run_", "src_", "hub_", "HUB_", "SRC_"] {
        plain = without(&plain, start, 16);
    }
    for start in ["NOTES_TOKEN_", "SIGNING_KEY_"] {
        plain = without(&plain, start, 8);
    }
    let lines: Vec<&str> = plain.lines().map(without_time).collect();
    without(&lines.join("\n"), "blobs/", 64)
}

/// A line of a log without the time it begins with.
fn without_time(line: &str) -> &str {
    let time = line.split_once("Z  ").filter(|(time, _)| time.contains('T') && time.len() == 26);
    time.map_or(line, |(_, rest)| rest)
}

/// Takes out the `length` letters and digits behind each `start`.
fn without(text: &str, start: &str, length: usize) -> String {
    let mut parts = text.split(start);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let id = part.get(..length).filter(|id| id.chars().all(|c| c.is_ascii_alphanumeric()));
        plain.push_str(start);
        plain.push_str(if id.is_some() { "…" } else { "" });
        plain.push_str(id.map_or(part, |id| &part[id.len()..]));
    }
    plain
}
