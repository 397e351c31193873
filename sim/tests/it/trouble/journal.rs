//! Journals that are damaged: at the end they are recovered, elsewhere nothing runs.

use super::said::{plain, said};
use crate::support::{TestHub, damaged};
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;

const CODE: &str = "const { notes: found } = await notes.listNotes();\nreturn [found.length, await notes.addNote({ text: 'x' })]";

fn waiting(hub: &TestHub) -> (String, PathBuf) {
    let run = hub.waiting(CODE);
    let journal = hub.store().join("runs").join(format!("{run}.journal.jsonl"));
    (run, journal)
}

#[test]
fn a_record_cut_in_the_middle_runs_nothing_and_is_said_with_file_and_line() {
    let hub = TestHub::with_notes();
    let (run, journal) = waiting(&hub);
    let whole = std::fs::read_to_string(&journal).expect("a journal");
    let mut lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let cut = format!("{}\n", &lines[1][..lines[1].len() / 2]);
    lines[1] = &cut;
    std::fs::write(&journal, lines.concat()).expect("written");
    let (calls, mut text) = (hub.calls("notes"), String::new());

    let mut client = hub.serve();
    client.initialize("2025-11-25");
    let refused = client.refusal("execute", &json!({ "resume": run }));
    let _ = writeln!(text, "== execute, resume\n{refused}\n");
    for arguments in [["runs", "show", &run].as_slice(), &["cancel", &run], &["doctor"]] {
        let _ = writeln!(text, "== {}\n{}\n", arguments[0], said(&hub, arguments));
    }
    let answered = hub.at_terminal("", ["approve", &run]);
    let _ = writeln!(text, "== approve\n{}exit status {}", answered.output, answered.status);
    insta::assert_snapshot!(plain(&hub.file(""), &text));
    assert_eq!(hub.calls("notes"), calls, "nothing ran");
    assert_eq!(
        std::fs::read_to_string(&journal).expect("a journal"),
        lines.concat(),
        "nothing is repaired silently"
    );
    assert_eq!(hub.exec("return 1").1["result"], 1, "other runs are not held up");
}

#[test]
fn a_record_cut_at_the_end_is_recovered_and_the_run_goes_on() {
    let hub = TestHub::with_notes();
    for part in [1, 2, 3] {
        let (run, journal) = waiting(&hub);
        let whole = std::fs::read_to_string(&journal).expect("a journal");
        let last = whole.trim_end().rfind('\n').expect("several lines") + 1;
        let cut = last + (whole.len() - last) * part / 4;
        std::fs::write(&journal, &whole[..cut]).expect("written");
        let before = hub.calls("notes").len();
        assert_eq!(hub.resume(&run)["status"], "awaiting_approval");
        let answered = hub.at_terminal("o", ["approve", &run]);
        assert_eq!(answered.status, 0, "{}", answered.output);
        assert_eq!(hub.resume(&run)["result"], json!([2, "added: x"]));
        assert_eq!(hub.calls("notes")[before..], ["add_note"], "the read was not made again");
        assert_eq!(damaged(&hub.store()), [""; 0]);
        let text = std::fs::read_to_string(&journal).expect("a journal");
        assert!(text.ends_with('\n') && text.starts_with(&whole[..last]), "{text}");
    }
}
