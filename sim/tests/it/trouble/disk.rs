//! A disk that is full: what cannot be written did not happen, or is said to be unknown.

use super::said::plain;
use crate::kills::judge::judge;
use crate::support::{TestHub, damaged, through_shell};
use hub::adapters::store::FileStore;
use hub::core::runs::status;
use hub::model::ids::RunId;
use hub::ports::store::Store as _;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::Command;

/// Reads and writes, one after the other; errors are caught, so that only the disk ends it.
const CODE: &str = "const out = [];
for (const text of ['a', 'b', 'c']) {
  out.push((await notes.listNotes()).notes.length);
  out.push(await notes.addNote({ text }).catch((e) => e.code));
}
return out;";

/// The same command, in whose process no file can grow beyond so many blocks of 512 bytes. A disk that is
/// full fails in the middle of a write, and so does this.
pub(super) fn limited(command: &Command, blocks: u32) -> Command {
    let script = "trap '' XFSZ; ulimit -f $0; exec \"$@\"";
    through_shell(script, blocks.to_string().as_ref(), command)
}

fn runs(hub: &TestHub) -> BTreeSet<RunId> {
    let entries = std::fs::read_dir(hub.store().join("runs")).expect("a folder");
    let names = entries.flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.strip_suffix(".json")?.parse().ok()).collect()
}

#[tokio::test]
async fn a_run_that_finds_the_disk_full_goes_on_later_and_repeats_no_write() {
    let hub = TestHub::new();
    let add = ["add", "--namespace", "notes"].map(str::to_owned);
    let command = add.into_iter().chain(hub.server("notes", &["--script", "notes"]));
    assert_eq!(hub.at_terminal("ytr\r\r\r", command).status, 0);
    let mut codes = BTreeSet::new();
    for blocks in 1..=16 {
        let _ = std::fs::remove_file(hub.log("notes"));
        let known = runs(&hub);
        let command = limited(&hub.command(["--json", "exec", CODE]), blocks);
        let ended = hub.run_with(&command, "");
        let told: Value = serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|_| panic!("{blocks} blocks: {ended:#?}"));
        codes.insert(told["error"]["code"].as_str().unwrap_or("none").to_owned());
        let Some(run) = runs(&hub).difference(&known).next().cloned() else {
            assert_eq!(ended.status, 1, "{blocks} blocks: {ended:#?}");
            assert!(hub.calls("notes").is_empty(), "something left before there was a run");
            continue;
        };
        let envelope = hub.resume(run.as_str());
        assert_eq!(envelope["status"], "completed", "{blocks} blocks: {envelope:#}");
        assert_eq!(hub.resume(run.as_str()), envelope);
        let entries =
            FileStore::new(hub.store()).journal(&run).await.expect("a journal that can be read");
        assert!(status(&entries).is_final());
        let seen = sim::server::calls(&hub.log("notes")).expect("a log");
        if let Err(what) = judge(&entries, &seen) {
            panic!("{blocks} blocks: {what}\n{entries:#?}\n{seen:#?}");
        }
        assert_eq!(damaged(&hub.store()), [""; 0], "{blocks} blocks");
    }
    let expected = ["journal_write_failed", "none", "store_failed"].map(str::to_owned);
    assert_eq!(codes, expected.into(), "every place where it can fail is met");
}

#[test]
fn a_full_disk_is_said_with_the_file_and_what_to_do() {
    let hub = TestHub::with_notes();
    let mut text = String::new();
    let server = hub.server("two", &["--script", "notes"]);
    let mut add = vec!["add", "--accept", "--namespace", "two"];
    add.extend(server.iter().map(String::as_str));
    let mut check = |arguments: &[&str], blocks: u32| {
        // What a terminal shows is no file, so that it can be said.
        let mut command = hub.command(["--no-input"]);
        command.args(arguments);
        let ended = hub.at_terminal_with("", &limited(&command, blocks));
        let shown = format!("{}exit status {}", ended.output, ended.status);
        let shown = plain(&hub.file(""), &shown);
        let _ = writeln!(text, "== {}, {blocks} blocks\n{shown}\n", arguments[0]);
    };
    check(&["exec", "return 1"], 0);
    check(&["exec", "for (let i = 0; i < 40; i += 1) await notes.listNotes(); return 1"], 8);
    check(&["remove", "notes"], 0);
    check(&add, 0);
    insta::assert_snapshot!(text);
    let listed = hub.json(["list"]).1;
    assert_eq!(listed["sources"].as_array().map(Vec::len), Some(1), "{listed:#}");
    assert_eq!(hub.exec("return (await notes.listNotes()).notes.length").1["result"], 2);
}

#[tokio::test]
async fn what_a_writer_left_behind_that_died_goes_after_a_day() {
    let hub = TestHub::new();
    let (old, young) = (hub.store().join("runs/.tmp-1-0"), hub.store().join(".tmp-2-0"));
    for path in [&old, &young] {
        std::fs::write(path, "half").expect("written");
    }
    let two_days_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 24 * 3600);
    let file = std::fs::File::options().write(true).open(&old).expect("there");
    file.set_modified(two_days_ago).expect("ours");
    FileStore::new(hub.store()).remove_blobs(BTreeSet::new()).await.expect("swept");
    assert!(!old.exists() && young.exists(), "what may still be renamed stays");
}
