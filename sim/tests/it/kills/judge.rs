//! Compares what servers saw of a run with what its journal says.

use hub::model::call::{Outcome, Seq};
use hub::model::digest::Digest;
use hub::model::error::ErrorCode;
use hub::model::journal::{Entry, StoredOutcome};
use hub::model::json::canonical;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Arguments of a read: none.
const NOTHING: &str = "{}";

/// What became of one call, by the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Became {
    /// It succeeded.
    Done,
    /// It may have happened.
    Unknown,
    /// It failed; a write that failed like this never left.
    Failed(ErrorCode),
}

/// What is wrong with a run that is over; `seen` are its calls at the servers. Writes that may have
/// happened are counted.
pub(crate) fn judge(entries: &[Entry], seen: &[Value]) -> Result<usize, String> {
    let (asked, settled) = (asked(entries), settled(entries));
    let mut sent = BTreeSet::new();
    for entry in entries {
        if let Entry::Sent { seq, .. } = entry
            && !sent.insert(*seq)
        {
            return Err(format!("{seq} is sent twice in the journal"));
        }
    }
    let mut writes: BTreeMap<Digest, usize> = BTreeMap::new();
    let mut reads = 0;
    for call in seen {
        if call["name"] == "list_notes" {
            reads += 1;
        } else {
            let digest = Digest::of(canonical(&call["arguments"]).as_bytes());
            *writes.entry(digest).or_default() += 1;
        }
    }
    let mut unknown = 0;
    for (digest, times) in &writes {
        if *times > 1 {
            return Err(format!("a write reached its server {times} times"));
        }
        let seq = asked.iter().find(|(_, arguments)| *arguments == digest).map(|(seq, _)| *seq);
        let seq = seq.ok_or("a write reached its server that the journal does not know")?;
        if !sent.contains(&seq) {
            return Err(format!("{seq} reached its server and was never journaled as sent"));
        }
        match settled.get(&seq) {
            Some(Became::Done) => {}
            Some(Became::Unknown) => unknown += 1,
            Some(Became::Failed(code)) => {
                return Err(format!("{seq} reached its server and is said to have failed: {code}"));
            }
            None => return Err(format!("{seq} reached its server and has no outcome")),
        }
    }
    for (seq, became) in &settled {
        let arguments = asked.get(seq).ok_or("a call ended that was never asked for")?;
        let write = *arguments != Digest::of(NOTHING.as_bytes());
        if write && *became == Became::Done && !writes.contains_key(arguments) {
            return Err(format!("{seq} is said to have happened and never reached its server"));
        }
    }
    let asked_reads =
        asked.values().filter(|arguments| **arguments == Digest::of(NOTHING.as_bytes())).count();
    // Whoever went on with the run may have sent those anew whose answer the one before did not get.
    let resumed = |at: &usize| matches!(entries[*at], Entry::Resumed { .. });
    let again: usize =
        (0..entries.len()).filter(resumed).map(|at| open_reads(&entries[..at])).sum();
    if reads > asked_reads + again {
        return Err(format!(
            "{asked_reads} reads were asked for, {again} may have been sent twice, {reads} arrived"
        ));
    }
    Ok(unknown)
}

/// Reads that were asked for and have no outcome: each may be sent again by whoever goes on.
fn open_reads(entries: &[Entry]) -> usize {
    let reads = Digest::of(NOTHING.as_bytes());
    let asked: BTreeSet<Seq> = asked(entries)
        .into_iter()
        .filter(|(_, arguments)| *arguments == reads)
        .map(|(seq, _)| seq)
        .collect();
    let settled = settled(entries);
    asked.iter().filter(|seq| !settled.contains_key(seq)).count()
}

fn asked(entries: &[Entry]) -> BTreeMap<Seq, Digest> {
    let mut asked = BTreeMap::new();
    for entry in entries {
        if let Entry::Asked { seq, binding, .. } = entry {
            asked.insert(*seq, binding.arguments);
        }
    }
    asked
}

fn settled(entries: &[Entry]) -> BTreeMap<Seq, Became> {
    let mut settled = BTreeMap::new();
    for entry in entries {
        if let Entry::Settled { seq, outcome, .. } = entry {
            settled.insert(*seq, became(outcome));
        }
    }
    settled
}

fn became(outcome: &StoredOutcome) -> Became {
    match outcome {
        StoredOutcome::Inline(Outcome::Failed(failure))
            if failure.code == ErrorCode::OutcomeUnknown =>
        {
            Became::Unknown
        }
        StoredOutcome::Inline(Outcome::Failed(failure)) => Became::Failed(failure.code),
        StoredOutcome::Inline(Outcome::Value(_) | Outcome::ParsedText(_))
        | StoredOutcome::Blob(_) => Became::Done,
    }
}

/// The judge itself is tried: each of these breaks one promise.
#[test]
fn a_run_that_broke_a_promise_is_told_from_one_that_did_not() {
    use hub::model::call::{Binding, ToolFailure};
    use hub::model::journal::Verdict;
    use hub::model::names::ToolRef;
    use hub::model::policy::{Because, Effect, Ruling};
    use hub::model::time::{LogicalMs, WallMs};
    let asked = |seq: u32, arguments: &Value| Entry::Asked {
        seq: Seq(seq),
        binding: Binding {
            tool: ToolRef {
                source: hub::model::ids::SourceId::from_random([1; 10]),
                raw: "add_note".parse().expect("a name"),
            },
            connection: None,
            contract: Digest::of(b""),
            arguments: Digest::of(canonical(arguments).as_bytes()),
        },
        verdict: Verdict::Ruled(Ruling { effect: Effect::Allow, because: vec![Because::Decision] }),
    };
    let sent = |seq| Entry::Sent { seq: Seq(seq), wall: WallMs(1) };
    let ended = |seq, outcome| Entry::Settled {
        seq: Seq(seq),
        outcome: StoredOutcome::Inline(outcome),
        at: LogicalMs(1),
        ms: 1,
        cost_us: 1,
    };
    let done = |seq| ended(seq, Outcome::Value(json!("added")));
    let failed = |seq, code| ended(seq, ToolFailure::new(code, "no").into());
    let (one, read) = (json!({ "text": "a-1" }), json!({}));
    let write = json!({ "name": "add_note", "arguments": one });
    let look = json!({ "name": "list_notes", "arguments": {} });
    let check = |entries: &[Entry], seen: &[&Value], expected: Result<usize, &str>| {
        let seen: Vec<Value> = seen.iter().map(|call| (*call).clone()).collect();
        let found = judge(entries, &seen);
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    };
    let whole = [asked(1, &one), sent(1), done(1)];
    check(&whole, &[&write], Ok(0));
    check(&whole, &[&write, &write], Err("2 times"));
    check(&whole, &[], Err("never reached"));
    check(&whole[..2], &[&write], Err("no outcome"));
    check(&[asked(1, &one), done(1)], &[&write], Err("never journaled as sent"));
    check(&[asked(1, &one), sent(1), sent(1), done(1)], &[&write], Err("sent twice"));
    check(&[], &[&write], Err("does not know"));
    let lost = [asked(1, &one), sent(1), failed(1, ErrorCode::OutcomeUnknown)];
    check(&lost, &[&write], Ok(1));
    let denied = [asked(1, &one), sent(1), failed(1, ErrorCode::ApprovalDenied)];
    check(&denied, &[&write], Err("said to have failed"));
    check(&denied, &[], Ok(0));
    let looked = [asked(1, &read), done(1)];
    check(&looked, &[&look], Ok(0));
    let resumed = Entry::Resumed { build: "sim".to_owned(), wall: WallMs(2) };
    let looked_again = [asked(1, &read), resumed.clone(), done(1)];
    check(&looked_again, &[&look, &look], Ok(0));
    check(&looked_again, &[&look, &look, &look], Err("may have been sent twice"));
    let knew = [asked(1, &read), done(1), resumed];
    check(&knew, &[&look, &look], Err("may have been sent twice"));
    check(&looked, &[&look, &look], Err("may have been sent twice"));
}
