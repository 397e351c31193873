//! The rules of direction, read from the source: who may name whom, and where the few doors are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which room may name which others; `core` and `adapters` are taken apart below.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("core/addresses", &["model"]),
    ("core/approvals", &["model"]),
    ("core/code", &["model"]),
    ("core/concerns", &["model"]),
    ("core/contract", &["model"]),
    ("core/outcome", &["model"]),
    ("core/policy", &["model"]),
    ("core/runs", &["model", "core/approvals"]),
    ("core/typegen", &["model"]),
    ("core/validate", &["model"]),
    // Search says what a ruling would be, and prints signatures and declarations.
    ("core/index", &["model", "ports", "core/addresses", "core/policy", "core/typegen"]),
    (
        "core/engine",
        &["model", "core/approvals", "core/contract", "core/policy", "core/runs", "core/validate"],
    ),
    ("ports", &["model", "core/approvals"]),
    ("driver", &["model", "ports", "core"]),
    ("adapters/clock", &["model", "ports"]),
    ("adapters/entropy", &["model", "ports"]),
    ("adapters/loopback", &[]),
    ("adapters/person", &["model", "ports", "core/approvals"]),
    ("adapters/postings", &["model", "ports"]),
    // The parser runs where the code does: it can be taken down by short texts.
    ("adapters/sandbox", &["model", "ports", "core/code"]),
    ("adapters/secrets", &["model", "ports", "adapters/whole"]),
    ("adapters/sources", &["model", "ports"]),
    ("adapters/store", &["model", "ports", "adapters/whole"]),
    // Files that are replaced whole: one way of doing it, for everyone who keeps some.
    ("adapters/whole", &["ports"]),
    ("surface", &["model", "ports", "driver", "core/engine"]),
    ("cli", &["model", "ports", "driver", "adapters", "core", "surface"]),
];

/// A crate that only these rooms may name.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("rmcp", &["surface", "adapters/sources"]),
    ("rquickjs", &["adapters/sandbox"]),
    ("oxc_", &["core/code"]),
    ("jsonschema", &["core/validate"]),
    ("clap", &["cli"]),
    ("tokio", &["driver", "adapters", "surface", "cli"]),
    ("rustix", &["adapters"]),
    ("hyper", &["adapters/sources", "adapters/person", "surface"]),
    ("maud", &["adapters/person"]),
    ("keyring", &["adapters/secrets"]),
    ("hmac", &["adapters/secrets"]),
    ("tantivy", &["adapters/postings"]),
    ("landlock", &["adapters/sandbox"]),
    ("seccompiler", &["adapters/sandbox"]),
];

/// Words that may stand in one file only: the doors of design 2.
const DOORS: &[(&str, &str)] = &[
    ("Entry::Decided {", "core/approvals.rs"),
    (".next_answer(", "driver/decide.rs"),
    (".read_response(", "driver/decide.rs"),
    (".decide(", "driver/decide.rs"),
    ("Decision {", "core/approvals.rs"),
    (".sources().call(", "driver/outbound.rs"),
];

/// Rooms that may look at a secret value; everyone else only carries it.
const MAY_EXPOSE: &[&str] = &["adapters/secrets", "adapters/sources", "cli"];

/// Files that may switch a ban off, with the reason at their top.
const EXEMPT: &[&str] = &[
    "adapters/clock.rs",
    "adapters/loopback.rs",
    "adapters/person/page/browser.rs",
    "adapters/person/page/peer.rs",
    "adapters/person/page/server.rs",
    "adapters/person/terminal.rs",
    "adapters/sandbox/process.rs",
    "adapters/secrets/kept.rs",
    "adapters/secrets/vault.rs",
    "adapters/sources/child.rs",
    "adapters/sources/http/connect.rs",
    "adapters/sources/http/exchange.rs",
    "adapters/sources/http/wire.rs",
    "adapters/sources/keeper.rs",
    "adapters/sources/session.rs",
    "adapters/sources/transport.rs",
    "adapters/store/journal.rs",
    "adapters/store/locks.rs",
    "adapters/whole.rs",
    "cli/run.rs",
    "cli/serve.rs",
    "cli/wire.rs",
    "core/approvals.rs",
    "driver/decide.rs",
    "driver/outbound.rs",
    "driver/runs.rs",
    "driver/waiting.rs",
    "surface/http.rs",
    "surface/server.rs",
];

/// Files that may hold `unsafe`.
const UNSAFE: &[&str] = &["adapters/sandbox/inherited.rs", "adapters/sandbox/raw.rs"];
/// Lines a file may have.
const LINES_MAX: usize = 600;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every source file by its path below `src`.
fn files() -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![source()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let name =
                    path.strip_prefix(source()).expect("below src").to_string_lossy().into_owned();
                files.insert(name, std::fs::read_to_string(&path).expect("text"));
            }
        }
    }
    assert!(files.len() > 60, "the source was found");
    files
}

/// The room of a file: its folder, one level deeper in `core` and `adapters`.
fn room(file: &str) -> String {
    let mut parts = file.trim_end_matches(".rs").split('/');
    let first = parts.next().unwrap_or("");
    match (first, parts.next()) {
        ("core" | "adapters", Some(second)) if second != "mod" => format!("{first}/{second}"),
        (first, _) => first.to_owned(),
    }
}

/// Code lines, without those of tests, which may name what they like.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .take_while(|line| *line != "#[cfg(test)]")
        .enumerate()
        .map(|(at, line)| (at + 1, line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Rooms named on a line, as `crate::room` or `crate::core::room`.
fn named(line: &str) -> Vec<String> {
    line.split("crate::")
        .skip(1)
        .map(|rest| {
            let word = |text: &str| {
                text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
            };
            let first = word(rest);
            let second = rest.get(first.len() + 2..).map(word).unwrap_or_default();
            if matches!(first.as_str(), "core" | "adapters") {
                format!("{first}/{second}")
            } else {
                first
            }
        })
        .collect()
}

fn fails(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn rooms_name_only_whom_they_may() {
    let mut faults = Vec::new();
    for (file, text) in files() {
        let own = room(&file);
        let Some((_, allowed)) = MAY_NAME.iter().find(|(name, _)| *name == own) else { continue };
        if file.ends_with("tests.rs") {
            continue;
        }
        for (number, line) in code(&text) {
            for other in named(line) {
                let fine = other == own
                    || allowed
                        .iter()
                        .any(|room| other == *room || other.starts_with(&format!("{room}/")));
                if !fine {
                    faults.push(format!(
                        "{file}:{number}: `{own}` may not name `{other}`; see MAY_NAME"
                    ));
                }
            }
            if line.contains("super::super") {
                faults.push(format!(
                    "{file}:{number}: name it from `crate`, so that this test sees it"
                ));
            }
        }
    }
    fails(&faults);
}

#[test]
fn crates_stay_in_their_rooms() {
    let mut faults = Vec::new();
    for (file, text) in files() {
        let own = room(&file);
        for (number, line) in code(&text) {
            for (name, rooms) in ONLY_IN {
                let hit = line.contains(&format!("{name}::"))
                    || name.ends_with('_') && line.contains(&format!("use {name}"));
                let fine =
                    rooms.iter().any(|room| own == *room || own.starts_with(&format!("{room}/")));
                let part_of_word = line.contains(&format!("_{name}::"));
                if hit && !fine && !part_of_word {
                    faults
                        .push(format!("{file}:{number}: `{name}` belongs to {}", rooms.join(", ")));
                }
            }
        }
    }
    fails(&faults);
}

#[test]
fn secret_values_are_looked_at_in_few_rooms() {
    let mut faults = Vec::new();
    for (file, text) in files() {
        let fine = MAY_EXPOSE.contains(&room(&file).as_str());
        for (number, line) in code(&text).filter(|(_, line)| line.contains(".expose()")) {
            if !fine {
                faults.push(format!("{file}:{number}: a secret value is looked at: {line}"));
            }
        }
    }
    fails(&faults);
}

#[test]
fn every_door_stands_in_one_place() {
    fails(&doors_elsewhere(&files()));
}

/// Lines that go through a door where it may not stand.
fn doors_elsewhere(files: &BTreeMap<String, String>) -> Vec<String> {
    let mut faults = Vec::new();
    for (file, text) in files {
        for (number, line) in code(text) {
            for (door, home) in DOORS {
                let made = line.contains(door) && !line.contains("..") && !line.contains("=> {");
                let pattern = line.trim_start().starts_with('|')
                    || line.contains("if let")
                    || line.contains("let Entry");
                let declared =
                    line.contains("struct ") || line.contains("enum ") || line.contains("impl ");
                if made && !pattern && !declared && file != home && door_is_code(line, door) {
                    faults.push(format!("{file}:{number}: `{door}` may stand in {home} only"));
                }
            }
        }
    }
    faults
}

#[test]
fn a_surface_that_decides_is_found_whichever_door_it_takes() {
    for door in [
        "let entry = Entry::Decided { seqs, choice, channel, wall, nonce };",
        "let answer = hub.ports().person().next_answer(&run).await;",
        "let read = person.read_response(&response, &client).await;",
        "let decision = docket.decide(&answer, now, believed);",
        "let decision = Decision { seqs, choice, channel, wall, binding, nonce };",
    ] {
        let mut planted = files();
        let surface = planted.get_mut("surface/server.rs").expect("the surface");
        *surface = surface.replacen("impl<P: Ports>", &format!("{door}\nimpl<P: Ports>"), 1);
        assert_eq!(doors_elsewhere(&planted).len(), 1, "{door}");
    }
}

/// `NoDecision {` and the like are other words.
fn door_is_code(line: &str, door: &str) -> bool {
    line.match_indices(door).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        door.starts_with('.') || before.is_none_or(|c| !c.is_alphanumeric())
    })
}

#[test]
fn bans_unsafe_and_size_keep_to_their_lists() {
    let mut faults = Vec::new();
    for (file, text) in files() {
        let switches = text.contains("expect(clippy::disallowed")
            || text.contains("clippy::disallowed_methods, reason");
        if switches && !EXEMPT.contains(&file.as_str()) {
            faults.push(format!("{file}: only files listed in EXEMPT may switch a ban off"));
        }
        if text.contains("unsafe {") && !UNSAFE.contains(&file.as_str()) {
            faults.push(format!("{file}: `unsafe` belongs into one reviewed file"));
        }
        if text.lines().count() > LINES_MAX {
            faults.push(format!("{file}: more than {LINES_MAX} lines; split it"));
        }
        if !text.starts_with("//!") {
            faults.push(format!("{file}: say in one sentence what belongs here"));
        }
        for (number, line) in code(&text) {
            if line.contains("select! {") && !text.contains("biased;") {
                faults.push(format!(
                    "{file}:{number}: a `select!` without `biased;` is not repeatable"
                ));
            }
            if ["todo!", "unimplemented!", "#[ignore"].iter().any(|mark| line.contains(mark)) {
                faults.push(format!("{file}:{number}: finish it"));
            }
        }
    }
    fails(&faults);
}

#[test]
fn every_error_code_stands_in_the_readme() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let text = std::fs::read_to_string(readme).expect("there is one");
    let missing: Vec<&str> = hub::model::error::ErrorCode::ALL
        .iter()
        .map(|code| code.as_str())
        .filter(|code| !text.contains(&format!("| `{code}` |")))
        .collect();
    assert!(missing.is_empty(), "not in the README's table: {}", missing.join(", "));
}

#[test]
fn the_rules_themselves_can_tell() {
    assert_eq!(
        named("use crate::core::policy::rule; use crate::model::x;"),
        ["core/policy", "model"]
    );
    assert_eq!(room("core/engine/mod.rs"), "core/engine");
    assert_eq!(room("core/policy.rs"), "core/policy");
    assert_eq!(room("cli/add.rs"), "cli");
    assert!(door_is_code("let d = Decision { seqs };", "Decision {"));
    assert!(!door_is_code("NoDecision { x }", "Decision {"));
}
