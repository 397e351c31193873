//! One run from its first request to its end, with the processes that drive it killed on the way.

use super::judge::judge;
use super::program::program;
use crate::support::{Client, TestHub, WITHIN, damaged, through_shell, until, until_every};
use hub::adapters::store::FileStore;
use hub::core::runs::status;
use hub::model::ids::RunId;
use hub::model::journal::Entry;
use hub::model::run::RunStatus;
use hub::ports::store::Store as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sim::seed::{Seed, Stream};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How often is looked whether the moment has come.
const LOOK_EVERY: Duration = Duration::from_micros(200);
/// How often a run that nobody kills any more may ask before it counts as stuck.
const ROUNDS_MAX: usize = 40;

/// When a process dies, by what can be seen of it from outside.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// At once: its request was written, or it was started.
    AtOnce,
    /// The run's journal has grown by so many bytes.
    Journal(u64),
    /// The servers have noted so many more calls.
    Calls(usize),
    /// It has answered.
    Answered,
}

/// A moment, and how long after it.
#[derive(Debug, Clone, Copy)]
struct Death {
    moment: Moment,
    after: Duration,
}

impl Death {
    fn of(draw: &mut Stream) -> Death {
        let moment = match draw.below(10) {
            0 => Moment::AtOnce,
            1..=4 => Moment::Journal(1 + draw.below(5000)),
            5..=8 => Moment::Calls(1 + usize::try_from(draw.below(6)).expect("small")),
            _ => Moment::Answered,
        };
        // Half of them right there, half within what a call takes.
        let after = if draw.percent(50) { 0 } else { draw.below(8_000) };
        Death { moment, after: Duration::from_micros(after) }
    }

    /// Busy, since the shortest sleep is longer than what a hub does between two system calls.
    fn wait(self) {
        let since = Instant::now();
        while since.elapsed() < self.after {
            std::hint::spin_loop();
        }
    }
}

/// What happens in one story.
#[derive(Debug)]
struct Plan {
    program: String,
    deaths: Vec<Death>,
    /// Keys of the person, in turn.
    keys: String,
    /// Does a person decide while the process that began the run still lives?
    beside: bool,
}

impl Plan {
    fn of(seed: u64) -> Plan {
        let mut draw = Seed(seed).stream("kills");
        let tag = format!("s{seed}");
        let program = program(&mut draw, &tag);
        let deaths = (0..1 + draw.below(3)).map(|_| Death::of(&mut draw)).collect();
        let keys = (0..ROUNDS_MAX).map(|_| *draw.pick(&['o', 'o', 'o', 'r', 'd'])).collect();
        Plan { program, deaths, keys, beside: draw.percent(40) }
    }
}

/// What was seen of some stories.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    /// Processes that were killed.
    pub(super) kills: usize,
    /// Stories in which there was a run to go on with.
    pub(super) runs: usize,
    /// Calls that arrived.
    pub(super) calls: usize,
    /// Writes that may have happened.
    pub(super) unknown: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.kills += other.kills;
        self.runs += other.runs;
        self.calls += other.calls;
        self.unknown += other.unknown;
    }
}

/// A hub with two sources: writes of `free` are allowed by rule, those of `asks` by a person.
pub(super) struct Stage {
    hub: TestHub,
    runtime: tokio::runtime::Runtime,
}

impl Stage {
    pub(super) fn new() -> Stage {
        let hub = TestHub::new();
        hub.add("asks", &["--script", "notes"]);
        let free = ["add", "--namespace", "free"].map(str::to_owned);
        // In the order of the review: addNote, deleteNote, listNotes, shareNote.
        let command = free.into_iter().chain(hub.server("free", &["--script", "notes"]));
        assert_eq!(hub.at_terminal("ytrd\rr", command).status, 0);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        Stage { hub, runtime }
    }

    /// Plays the story of a seed.
    ///
    /// # Panics
    /// The hub broke a promise.
    pub(super) fn play(&self, seed: u64) -> Tally {
        let plan = Plan::of(seed);
        let (known, before) = (self.runs(), self.seen());
        let mut tally = Tally::default();
        let mut deaths = plan.deaths.iter().copied();

        let first = deaths.next().expect("at least one");
        self.begin(&plan, first, &known);
        tally.kills += 1;
        let Some(run) = self.runs().difference(&known).next().cloned() else {
            assert_eq!(self.seen(), before, "something left before there was a run");
            return tally;
        };
        tally.runs = 1;
        for death in deaths {
            match status(&self.journal(&run)) {
                RunStatus::AwaitingInput => self.killed_at_terminal(&plan, &run, death),
                RunStatus::Running => self.killed_in_resume(&run, death),
                RunStatus::Completed
                | RunStatus::Failed
                | RunStatus::Cancelled
                | RunStatus::Expired => break,
            }
            tally.kills += 1;
        }

        let envelope = self.to_the_end(&plan, &run);
        let told = ["completed", "failed"].map(Value::from).contains(&envelope["status"]);
        assert!(told, "{plan:#?}\n{envelope:#}");
        assert_eq!(
            self.hub.resume(run.as_str()),
            envelope,
            "a run that is over says the same again"
        );
        let entries = self.journal(&run);
        let seen: Vec<Value> = self
            .seen()
            .into_iter()
            .zip(before)
            .flat_map(|(mut seen, before)| seen.split_off(before.len()))
            .collect();
        match judge(&entries, &seen) {
            Ok(unknown) => tally.unknown = unknown,
            Err(what) => panic!("{what}\n{plan:#?}\n{envelope:#}\n{entries:#?}\n{seen:#?}"),
        }
        tally.calls = seen.len();
        if let Some(code) = envelope["error"]["code"].as_str() {
            assert_eq!(code, "uncaught_error", "{plan:#?}\n{envelope:#}");
        }
        assert_eq!(damaged(&self.hub.store()), [""; 0], "{plan:#?}");
        tally
    }

    /// Begins the run in a serving hub and kills that.
    fn begin(&self, plan: &Plan, death: Death, known: &BTreeSet<RunId>) {
        let calls = self.arrived();
        let mut client = self.hub.serve();
        client.initialize("2025-11-25");
        let arguments = json!({ "name": "execute", "arguments": { "code": plan.program } });
        let request = client.send("tools/call", arguments);
        let mut answer = None;
        let mut came = |client: &mut Client| {
            answer = answer.take().or_else(|| client.answered(request));
            let run = self.runs().difference(known).next().cloned();
            let bytes = run.map_or(0, |run| self.journal_bytes(&run));
            let came = match death.moment {
                Moment::AtOnce => true,
                Moment::Journal(grown) => bytes >= grown,
                Moment::Calls(more) => self.arrived() >= calls + more,
                Moment::Answered => false,
            };
            (came || answer.is_some()).then(|| answer.clone())
        };
        let answer = until_every(LOOK_EVERY, "the moment", || came(&mut client));
        let asks = answer
            .as_ref()
            .map(|answer| &answer["result"]["structuredContent"])
            .filter(|envelope| plan.beside && envelope["status"] == "awaiting_approval");
        match asks {
            Some(envelope) => {
                let run: RunId = envelope["runId"].as_str().expect("an id").parse().expect("an id");
                self.decided_beside(plan, &run, death, client);
            }
            None => {
                death.wait();
                client.kill();
            }
        }
    }

    /// A person decides in a terminal; the process that began the run goes on with it, and is killed.
    fn decided_beside(&self, plan: &Plan, run: &RunId, death: Death, client: Client) {
        let approve = self.hub.command(["approve", run.as_str()]);
        let (bytes, calls) = (self.journal_bytes(run), self.arrived());
        let keys = plan.keys.clone();
        let deciding = std::thread::spawn(move || {
            sim::answer::answer(&approve, &keys, WITHIN, &mut std::io::sink())
        });
        until_every(LOOK_EVERY, "the moment", || {
            let came = self.has_come(death.moment, run, bytes, calls) || deciding.is_finished();
            came.then_some(())
        });
        death.wait();
        client.kill();
        // Whoever decided goes on with it, and must not wait for the dead.
        deciding.join().expect("no panic").expect("it ends");
    }

    fn killed_in_resume(&self, run: &RunId, death: Death) {
        let (bytes, calls) = (self.journal_bytes(run), self.arrived());
        let mut client = self.hub.serve();
        client.initialize("2025-11-25");
        let arguments = json!({ "name": "execute", "arguments": { "resume": run } });
        let request = client.send("tools/call", arguments);
        until_every(LOOK_EVERY, "the moment", || {
            let answered = client.answered(request).is_some();
            (answered || self.has_come(death.moment, run, bytes, calls)).then_some(())
        });
        death.wait();
        client.kill();
    }

    fn killed_at_terminal(&self, plan: &Plan, run: &RunId, death: Death) {
        let (bytes, calls) = (self.journal_bytes(run), self.arrived());
        let process = self.hub.file("approve.pid");
        let _ = std::fs::remove_file(&process);
        let approve = with_its_number_in(&process, &self.hub.command(["approve", run.as_str()]));
        let keys = plan.keys.clone();
        let deciding = std::thread::spawn(move || {
            sim::answer::answer(&approve, &keys, WITHIN, &mut std::io::sink())
        });
        let number: i32 = until("the process", || {
            std::fs::read_to_string(&process).ok()?.strip_suffix('\n')?.parse().ok()
        });
        until_every(LOOK_EVERY, "the moment", || {
            let came = self.has_come(death.moment, run, bytes, calls) || deciding.is_finished();
            came.then_some(())
        });
        death.wait();
        if !deciding.is_finished() {
            let _ = kill_process(Pid::from_raw(number).expect("a process"), Signal::KILL);
        }
        deciding.join().expect("no panic").expect("it ends");
    }

    fn has_come(&self, moment: Moment, run: &RunId, bytes: u64, calls: usize) -> bool {
        match moment {
            Moment::AtOnce => true,
            Moment::Journal(grown) => self.journal_bytes(run) >= bytes + grown,
            Moment::Calls(more) => self.arrived() >= calls + more,
            Moment::Answered => false,
        }
    }

    /// Resumes, and asks the person, until the run is over.
    fn to_the_end(&self, plan: &Plan, run: &RunId) -> Value {
        for _ in 0..ROUNDS_MAX {
            let envelope = self.hub.resume(run.as_str());
            if envelope["status"] != "awaiting_approval" {
                return envelope;
            }
            let approve = self.hub.command(["approve", run.as_str()]);
            sim::answer::answer(&approve, &plan.keys, WITHIN, &mut std::io::sink())
                .expect("it ends");
        }
        panic!("it asks for ever: {plan:#?}");
    }

    /// Every run there is a record of.
    fn runs(&self) -> BTreeSet<RunId> {
        let entries = std::fs::read_dir(self.hub.store().join("runs")).expect("a folder");
        let names = entries.flatten().map(|entry| entry.file_name());
        names.filter_map(|name| name.to_str()?.strip_suffix(".json")?.parse().ok()).collect()
    }

    fn journal(&self, run: &RunId) -> Vec<Entry> {
        let store = FileStore::new(self.hub.store());
        self.runtime.block_on(store.journal(run)).expect("a journal that can be read")
    }

    fn journal_bytes(&self, run: &RunId) -> u64 {
        let path = self.hub.store().join("runs").join(format!("{run}.journal.jsonl"));
        std::fs::metadata(path).map_or(0, |meta| meta.len())
    }

    /// Every call that arrived at either server. A line that is being written does not count yet.
    fn seen(&self) -> [Vec<Value>; 2] {
        ["free", "asks"].map(|namespace| {
            let text = std::fs::read_to_string(self.hub.log(namespace)).unwrap_or_default();
            let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            whole.map(|line| serde_json::from_str::<Value>(line).expect("a call")).collect()
        })
    }

    /// How many calls arrived at both.
    fn arrived(&self) -> usize {
        self.seen().iter().map(Vec::len).sum()
    }
}

/// The same command, whose process first writes its number to a file.
fn with_its_number_in(file: &Path, command: &Command) -> Command {
    let script = r#"echo $$ >"$0.new"; mv "$0.new" "$0"; exec "$@""#;
    through_shell(script, file.as_os_str(), command)
}
