//! A store that cannot be read, written or locked: one clear error each, and nothing of it is lost.

use super::said::said;
use crate::support::TestHub;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// What stands where a file or folder of the store should be. Works for every user, root too.
enum Obstacle {
    File,
    Folder,
    /// The first text is replaced by the second.
    Edit(&'static str, &'static str),
}

const LIST: &[&str] = &["exec", "return (await notes.listNotes()).notes.length"];
const REMOVE: &[&str] = &["remove", "notes"];

/// Puts an obstacle in a place; the original waits beside it.
fn damage(path: &Path, obstacle: &Obstacle) -> PathBuf {
    let aside = path.with_extension("aside");
    std::fs::rename(path, &aside).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    match obstacle {
        Obstacle::File => std::fs::write(path, ""),
        Obstacle::Folder => std::fs::create_dir(path),
        Obstacle::Edit(from, to) => {
            let text = std::fs::read_to_string(&aside).expect("text");
            assert!(text.contains(from), "{text}");
            std::fs::write(path, text.replacen(from, to, 1))
        }
    }
    .expect("an obstacle");
    // Whatever this process's own habits are: only the obstacle is wrong with it.
    let mode = if path.is_dir() { 0o700 } else { 0o600 };
    open(path, mode);
    aside
}

fn open(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
}

fn repair(path: &Path, aside: &Path) {
    if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }
        .expect("an obstacle");
    std::fs::rename(aside, path).expect("the original");
}

#[test]
fn each_trouble_is_one_clear_error_and_nothing_is_lost() {
    let hub = TestHub::new();
    hub.add("notes", &["--script", "notes"]);
    hub.ok(LIST);
    let id = hub.json(["list"]).1["sources"][0]["id"].as_str().expect("an id").to_owned();
    let (policy, source) = (format!("policies/{id}.json"), format!("sources/{id}.json"));
    let connections = format!("connections/{id}.json");
    std::fs::write(hub.store().join(&connections), "{\"version\": 1}").expect("written");
    open(&hub.store().join(&connections), 0o600);
    let server = hub.server("two", &["--script", "notes"]);
    let mut add = vec!["add", "--accept", "--namespace", "two"];
    add.extend(server.iter().map(String::as_str));
    let mut text = String::new();
    let mut check = |place: &str, obstacle: Obstacle, commands: &[&[&str]]| {
        let path = hub.store().join(place);
        let what = match obstacle {
            Obstacle::File => "is a file".to_owned(),
            Obstacle::Folder => "is a folder".to_owned(),
            Obstacle::Edit(_, to) => format!("says {}", to.trim()),
        };
        let aside = damage(&path, &obstacle);
        for command in commands {
            let shown = said(&hub, command);
            let words: Vec<&str> = command.iter().take(2).copied().collect();
            let _ = writeln!(text, "== {place} {what}: {}\n{shown}\n", words.join(" "));
        }
        repair(&path, &aside);
        let listed = hub.json(["list"]).1;
        assert_eq!(listed["sources"].as_array().map(Vec::len), Some(1), "{place}: {listed:#}");
        assert_eq!(listed["sources"][0]["toReview"], 0, "{place}: {listed:#}");
        assert_eq!(hub.ok(LIST), "2\n", "{place}");
    };
    check("generation", Obstacle::Folder, &[&add, REMOVE]);
    check("runs", Obstacle::File, &[LIST, &["runs"]]);
    check("blobs", Obstacle::File, &[LIST]);
    check("sources", Obstacle::File, &[&["list"]]);
    check("locks", Obstacle::File, &[LIST, REMOVE]);
    check("locks/hub.lock", Obstacle::Folder, &[REMOVE, &add]);
    check("hub.json", Obstacle::File, &[LIST]);
    check(
        "hub.json",
        Obstacle::Edit("\"retentionDays\"", "\"retention\""),
        &[LIST, &["serve", "--stdio"], &["doctor"]],
    );
    check("hub.json", Obstacle::Edit("\"limits\": {}", "\"limits\": {\"maxCalls\": 501}"), &[LIST]);
    check("hub.json", Obstacle::Edit("\"limits\": {}", "\"limits\": {\"maxcalls\": 5}"), &[LIST]);
    check("hub.json", Obstacle::Edit("Days\": 7", "Days\": 91"), &[LIST]);
    check("hub.json", Obstacle::Edit("\"version\": 1", "\"version\": 2"), &[LIST, REMOVE]);
    check(
        &policy,
        Obstacle::Edit("\"pins\"", "\"pinned\""),
        &[LIST, &["list"], &["review", "--accept"]],
    );
    check(&policy, Obstacle::Edit("\"version\": 1", "\"version\": 2"), &[LIST]);
    check(&source, Obstacle::Edit("\"namespace\"", "\"name\""), &[&["list"], &["doctor"]]);
    check(&connections, Obstacle::Edit("version", "verzion"), &[LIST]);
    let text = text.replace(&id, "src_…");
    let text: String = text
        .split_inclusive('\n')
        // A log line begins with the time of day.
        .map(|line| {
            line.split_once("  WARN ").map_or(line.to_owned(), |(_, rest)| format!("WARN {rest}"))
        })
        .collect();
    insta::assert_snapshot!(text);
    assert!(!hub.log("two").exists(), "what failed to be added never ran");
}

#[test]
fn files_that_other_users_may_read_are_named_by_doctor_and_when_serving_begins() {
    let hub = TestHub::with_notes();
    let (settings, runs) = (hub.store().join("hub.json"), hub.store().join("runs"));
    let mut text = String::new();
    let mut look = |what: &str| {
        let doctor = said(&hub, &["doctor"]);
        let found = doctor.lines().find(|line| line.contains("permissions")).expect("looked at");
        let serve = said(&hub, &["serve", "--stdio"]);
        let _ = writeln!(text, "== {what}\n{found}\n{serve}\n");
    };
    look("as it is made");
    open(&settings, 0o644);
    look("a file");
    open(&settings, 0o600);
    open(&runs, 0o750);
    look("a folder");
    open(&runs, 0o700);
    open(&hub.store(), 0o755);
    look("the hub's folder");
    insta::assert_snapshot!(text);
}
