//! Ten serving hubs on one store while a person works at it in several terminals.

use crate::support::{Client, TestHub, WITHIN, damaged, json_files, until};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

const HUBS: usize = 10;
/// Sources that each of two terminals adds; every other one is removed again.
const ADDED: usize = 6;
/// Questions that are answered.
const ASKED: usize = 12;

/// What all of them share.
struct Table {
    hub: TestHub,
    /// Runs that wait for a person.
    waiting: Mutex<VecDeque<String>>,
    asked: AtomicUsize,
    answered: AtomicUsize,
    over: AtomicBool,
}

impl Table {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

#[test]
fn ten_hubs_and_a_person_lose_nothing_on_one_store() {
    let hub = TestHub::new();
    let switch = hub.file("changed");
    hub.add("base", &["--script", "notes", "--changed-if", switch.to_str().unwrap()]);
    let table = Table {
        hub,
        waiting: Mutex::default(),
        asked: AtomicUsize::new(0),
        answered: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    };
    let began = Instant::now();
    std::thread::scope(|scope| {
        let serving: Vec<_> = (0..HUBS)
            .map(|number| {
                scope.spawn({
                    let table = &table;
                    move || serve(table, number)
                })
            })
            .collect();
        let watching = scope.spawn(|| watch(&table));
        let deciding = scope.spawn(|| decide(&table));
        let left = scope.spawn(|| add_and_remove(&table, "left"));
        let right = scope.spawn(|| add_and_remove(&table, "right"));
        let over = OnEnd(&table.over);
        left.join().expect("the left terminal");
        std::fs::write(&switch, "").expect("written");
        review_the_change(&table.hub);
        right.join().expect("the right terminal");
        deciding.join().expect("the person who decides");
        drop(over);
        let looks = watching.join().expect("every look finds whole files");
        let rounds: Vec<usize> =
            serving.into_iter().map(|hub| hub.join().expect("a hub that answers")).collect();
        eprintln!("{HUBS} hubs answered {rounds:?} rounds, {looks} looks, {:?}", began.elapsed());
        assert!(looks > 10 && rounds.iter().all(|rounds| *rounds > 0), "{looks}, {rounds:?}");
    });
    assert!(began.elapsed() < WITHIN * 2, "{:?}", began.elapsed());

    let listed = table.hub.json(["list"]).1;
    let sources: BTreeMap<&str, &Value> = listed["sources"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|source| (source["namespace"].as_str().expect("a name"), source))
        .collect();
    let mut expected = vec!["base".to_owned()];
    for side in ["left", "right"] {
        expected.extend((0..ADDED).filter(|n| is_kept(*n)).map(|n| format!("{side}{n}")));
    }
    assert_eq!(sources.keys().copied().collect::<Vec<_>>(), expected, "{listed:#}");
    for (name, source) in &sources {
        assert_eq!(source["toReview"], 0, "a review of {name} is lost: {listed:#}");
        let policy = read(&table.hub, "policies", source["id"].as_str().expect("an id"));
        assert_eq!(
            policy["pins"].as_object().map(serde_json::Map::len),
            Some(4),
            "{name}: {policy:#}"
        );
        // One tool of each was reviewed with a rule, except where the proposal was taken whole.
        let rules = policy["rules"].as_array().map_or(0, Vec::len);
        assert_eq!(rules, usize::from(*name != "base"), "{name}: {policy:#}");
    }
    nothing_is_left_of_what_was_removed(&table.hub, &sources);
    assert_eq!(table.answered.load(Ordering::SeqCst), ASKED);
    let texts: Vec<Value> = sim::server::calls(&table.hub.log("base"))
        .expect("a log")
        .into_iter()
        .filter(|call| call["name"] == "add_note")
        .map(|call| call["arguments"]["text"].clone())
        .collect();
    let mut once = texts.clone();
    once.sort_by_key(ToString::to_string);
    once.dedup();
    assert_eq!(
        (texts.len(), once.len()),
        (ASKED, ASKED),
        "each approved write happens once: {texts:?}"
    );
}

/// Sets a flag when it is dropped, also by a panic: nobody may wait for a thread that is dead.
struct OnEnd<'a>(&'a AtomicBool);

impl Drop for OnEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn is_kept(number: usize) -> bool {
    number.is_multiple_of(2)
}

/// One client with its hub: searches, describes and runs code until all is over; its rounds.
fn serve(table: &Table, number: usize) -> usize {
    let mut client = table.hub.serve();
    client.initialize("2025-11-25");
    let mut rounds = 0;
    while !table.is_over() {
        let found = client.text("search", &json!({ "query": "list notes", "namespace": "base" }));
        assert!(found.contains("base.listNotes"), "{found}");
        let types = client.text("describe", &json!({ "targets": ["base.addNote"] }));
        assert!(types.contains("addNote"), "{types}");
        let read = client.execute("return (await base.listNotes()).notes.length");
        assert_eq!(read["result"], 2, "{read:#}");
        if table.asked.fetch_add(1, Ordering::SeqCst) < ASKED {
            ask(table, &mut client, &format!("{number}-{rounds}"));
        }
        rounds += 1;
    }
    assert_eq!(client.close(), 0);
    rounds
}

/// Runs a write that asks, and waits until the person has decided and it is over.
fn ask(table: &Table, client: &mut Client, text: &str) {
    let asked = client.execute(&format!("return await base.addNote({{ text: '{text}' }})"));
    assert_eq!(asked["status"], "awaiting_approval", "{asked:#}");
    let run = asked["runId"].as_str().expect("an id").to_owned();
    table.waiting.lock().expect("whole").push_back(run.clone());
    let ended = until("the decision", || {
        let envelope = client.envelope(&json!({ "resume": run }));
        (envelope["status"] != "awaiting_approval").then_some(envelope)
    });
    assert_eq!(ended["result"], format!("added: {text}"), "{ended:#}");
}

/// The person who answers every question, one terminal after the other.
fn decide(table: &Table) {
    while table.answered.load(Ordering::SeqCst) < ASKED {
        let run = until("a question", || table.waiting.lock().expect("whole").pop_front());
        let answered = table.hub.at_terminal("o", ["approve", &run]);
        assert_eq!(answered.status, 0, "{}", answered.output);
        table.answered.fetch_add(1, Ordering::SeqCst);
    }
}

/// A person who adds sources, reviews each tool by tool, and removes every other one again.
fn add_and_remove(table: &Table, side: &str) {
    for number in 0..ADDED {
        let name = format!("{side}{number}");
        let add = ["add", "--namespace", &name].map(str::to_owned);
        let command = add.into_iter().chain(table.hub.server(&name, &["--script", "notes"]));
        // addNote is denied, the other three are as proposed.
        let added = table.hub.at_terminal("ytd\r\r\r", command);
        assert_eq!(added.status, 0, "{}", added.output);
        assert!(
            added.output.contains(&format!("Added {name}: 4 tools, 4 reviewed.")),
            "{}",
            added.output
        );
        let before = number.checked_sub(1).filter(|before| !is_kept(*before));
        if let Some(before) = before {
            table.hub.ok(["remove", &format!("{side}{before}")]);
        }
    }
    if !is_kept(ADDED - 1) {
        table.hub.ok(["remove", &format!("{side}{}", ADDED - 1)]);
    }
}

/// A tool of `base` changed; whichever hub notices first, the person reviews it.
fn review_the_change(hub: &TestHub) {
    hub.ok(["refresh", "base"]);
    until("the change", || {
        let listed = hub.json(["list"]).1;
        let base = listed["sources"].as_array()?.iter().find(|one| one["namespace"] == "base")?;
        (base["toReview"] == 1).then_some(())
    });
    let reviewed = hub.at_terminal("a", ["review", "base"]);
    assert_eq!(reviewed.status, 0, "{}", reviewed.output);
}

/// Looks at every file of the store until all is over; how often.
fn watch(table: &Table) -> usize {
    let mut looks = 0;
    while !table.is_over() {
        assert_eq!(damaged(&table.hub.store()), [""; 0]);
        looks += 1;
    }
    looks
}

fn read(hub: &TestHub, folder: &str, id: &str) -> Value {
    let path = hub.store().join(folder).join(format!("{id}.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

/// Every manifest, policy and list of connections belongs to a source that is there.
fn nothing_is_left_of_what_was_removed(hub: &TestHub, sources: &BTreeMap<&str, &Value>) {
    let ids: Vec<&str> = sources.values().filter_map(|source| source["id"].as_str()).collect();
    for path in json_files(&hub.store()) {
        let folder = path.parent().and_then(|folder| folder.file_name()?.to_str());
        if matches!(folder, Some("sources" | "manifests" | "policies" | "connections")) {
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
            assert!(ids.contains(&name), "{} is left over", path.display());
        }
    }
}
