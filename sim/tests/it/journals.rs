//! Golden journals: runs that an earlier build began are replayed to the end it recorded, for ever.
//!
//! `UPDATE_GOLDEN=1` writes journals of this build's format anew; those of released formats stay.

use hub::adapters::store::FileStore;
use hub::driver::{Hub, StopSignal};
use hub::model::digest::Digest;
use hub::model::envelope::Envelope;
use hub::model::journal::Entry;
use hub::model::policy::Choice;
use hub::model::run::RunRecord;
use hub::model::source::Settings;
use hub::ports::store::Store as _;
use sim::fakes::{Faults, History, SimPerson, SimPorts, SimSources, Upstreams};
use sim::seed::Seed;
use sim::world::{Honest, Plan, play};
use std::path::{Path, PathBuf};

/// Name, program and what goes wrong with calls.
const RUNS: &[(&str, &str, (u64, u64, u64))] = &[
    (
        "everything",
        "const a = await alpha.get({ k: 1 });\n\
         await new Promise((done) => setTimeout(done, 120));\n\
         const [b, c] = await Promise.all([beta.post({ k: 2 }), alpha.put({ k: 3 })]);\n\
         console.log('at', Date.now(), Math.random(), crypto.randomUUID());\n\
         const found = await hub.search('get', { namespace: 'alpha' });\n\
         const types = await hub.describe('beta.post');\n\
         return { a, b, c, found, types: types.length, at: Date.now() };\n",
        (0, 0, 0),
    ),
    (
        "trouble",
        "const out = [];\n\
         for (let k = 1; k <= 6; k += 1) {\n\
           try { out.push(await (k % 2 ? beta.purge({ k }) : alpha.get({ k }))); }\n\
           catch (e) { out.push([e.name, e.code, e.retryable]); }\n\
         }\n\
         out.push(await Promise.any([alpha.get({ k: 10 }), beta.post({ k: 11 })]).catch((e) => e.name));\n\
         return out;\n",
        (60, 20, 10),
    ),
    (
        "wrong_arguments",
        "return await alpha.get({ q: 1 }).catch((e) => [e.code, e.message]);\n",
        (0, 0, 0),
    ),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/journals/v1")
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn golden_journals_replay_to_their_recorded_end() {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        RUNS.iter().for_each(|(name, program, trouble)| write(name, program, *trouble));
    }
    let mut replayed = 0;
    for entry in std::fs::read_dir(folder()).expect("the fixtures are there") {
        let path = entry.expect("readable").path();
        let (got, wanted) = (replay(&path), read::<Envelope>(&path.join("envelope.json")));
        assert_eq!(got, wanted, "{}", path.display());
        replayed += 1;
    }
    assert!(replayed >= RUNS.len());
}

/// Puts a golden run into a store, without its last line, and resumes it.
fn replay(golden: &Path) -> Envelope {
    let home = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let history = History::default();
        let store = FileStore::new(home.path().join("hub"));
        store
            .write_settings(&Settings::new("hub_0000000000000000".parse().expect("an id")))
            .await
            .expect("made");
        let record: RunRecord = read(&golden.join("run.json"));
        store.create_run(&record).await.expect("made");
        for entry in std::fs::read_dir(golden.join("blobs")).expect("blobs") {
            let text = std::fs::read_to_string(entry.expect("readable").path()).expect("text");
            store.put_blob(Digest::of(text.as_bytes()), &text).await.expect("kept");
        }
        let journal = home.path().join("hub/runs").join(format!("{}.journal.jsonl", record.id));
        std::fs::copy(golden.join("journal.jsonl"), journal).expect("copied");
        let upstreams = Upstreams::new(Seed(0), history.clone());
        let sources = SimSources::new(upstreams, Faults::default());
        let hub = Hub::new(
            SimPorts::new(Seed(0), 1, store, sources, SimPerson::new(history.clone(), vec![])),
            "sim",
        );
        let envelope = hub.resume(&record.id, StopSignal::never()).await.expect("the run goes on");
        assert!(history.all().is_empty(), "a replay reaches nobody");
        envelope
    })
}

fn write(name: &str, program: &str, trouble: (u64, u64, u64)) {
    let plan = Plan {
        choices: vec![Choice::Once, Choice::Run, Choice::Deny],
        trouble,
        ..Plan::calm(program)
    };
    let outcome = play(&Honest, Seed(7), &plan);
    let golden = folder().join(name);
    let _ = std::fs::remove_dir_all(&golden);
    std::fs::create_dir_all(golden.join("blobs")).expect("a folder");
    let json =
        |value: &serde_json::Value| serde_json::to_string_pretty(value).expect("json") + "\n";
    let record = outcome.record.expect("a run");
    let put = |file: &str, text: String| std::fs::write(golden.join(file), text).expect("written");
    put("run.json", json(&serde_json::to_value(&record).expect("json")));
    put(
        "envelope.json",
        json(&serde_json::to_value(outcome.envelope.expect("ended")).expect("json")),
    );
    for (digest, text) in outcome.blobs {
        std::fs::write(golden.join("blobs").join(digest.to_string()), text).expect("written");
    }
    // Through the real store, so that the lines are the real ones.
    let home = tempfile::tempdir().expect("a folder");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let store = FileStore::new(home.path().join("hub"));
        store
            .write_settings(&Settings::new("hub_0000000000000000".parse().expect("an id")))
            .await
            .expect("made");
        let entries: Vec<Entry> = outcome
            .journal
            .into_iter()
            .filter(|entry| !matches!(entry, Entry::Ended { .. }))
            .collect();
        store.append(&record.id, 0, &entries, true).await.expect("appended");
    });
    let journal = home.path().join("hub/runs").join(format!("{}.journal.jsonl", record.id));
    std::fs::copy(journal, golden.join("journal.jsonl")).expect("copied");
}
