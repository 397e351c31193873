//! Ends what servers started, when the hub itself cannot any more.
//!
//! One more process of the same program, begun with the first local server. It holds the other end of a
//! pipe and is told each process group; when the pipe closes, the hub is gone, however it ended.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "starts the keeper, and waits between its two signals"
)]

use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeSet;
use std::io::{BufRead as _, Write as _, stdin};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The hidden first argument that makes the binary a keeper; looked at before anything else.
pub const KEEPER_ARGUMENT: &str = "__source-keeper";

/// How long what is left over may take to end by itself.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Runs a keeper until its pipe closes, then ends every group that it was told and not told off.
#[must_use]
pub fn run_keeper() -> ExitCode {
    // Signals meant for the hub's own group must not reach it: it has to be there afterwards.
    let _ = rustix::process::setsid();
    let mut groups: BTreeSet<i32> = BTreeSet::new();
    for line in stdin().lock().lines() {
        let Ok(line) = line else { break };
        match (line.get(..1), line.get(1..).and_then(|number| number.parse().ok())) {
            (Some("+"), Some(group)) => {
                groups.insert(group);
            }
            (Some("-"), Some(group)) => {
                groups.remove(&group);
            }
            _ => {}
        }
    }
    let pids = groups.into_iter().filter_map(Pid::from_raw);
    let told: Vec<Pid> =
        pids.filter(|group| kill_process_group(*group, Signal::TERM).is_ok()).collect();
    if !told.is_empty() {
        std::thread::sleep(END_WITHIN);
    }
    for group in told {
        let _ = kill_process_group(group, Signal::KILL);
    }
    ExitCode::SUCCESS
}

/// The hub's side of a keeper. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Keeper {
    program: Arc<Path>,
    told: Arc<Mutex<Told>>,
}

#[derive(Debug, Default)]
struct Told {
    running: Option<Running>,
    /// Groups it has to end. One that takes the place of another is told all of them.
    groups: BTreeSet<i32>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    to: ChildStdin,
}

impl Keeper {
    /// A keeper that is `program`, run with [`KEEPER_ARGUMENT`] when the first group is told.
    pub(super) fn new(program: PathBuf) -> Keeper {
        Keeper { program: program.into(), told: Arc::default() }
    }

    /// Tells it a group to end. Without a keeper, servers still end when their input does.
    pub(super) fn watch(&self, group: Pid) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.groups.insert(group.as_raw_pid());
        if told.is_running() {
            told.say('+', group.as_raw_pid());
            return;
        }
        told.running = start(&self.program);
        for group in told.groups.clone() {
            told.say('+', group);
        }
    }

    /// The group is gone.
    pub(super) fn forget(&self, group: Pid) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.groups.remove(&group.as_raw_pid());
        told.say('-', group.as_raw_pid());
    }
}

impl Told {
    fn is_running(&mut self) -> bool {
        self.running.as_mut().is_some_and(|it| matches!(it.child.try_wait(), Ok(None)))
    }

    fn say(&mut self, sign: char, group: i32) {
        if let Some(it) = self.running.as_mut() {
            let _ = it.to.write_all(format!("{sign}{group}\n").as_bytes());
        }
    }
}

fn start(program: &Path) -> Option<Running> {
    let started = Command::new(program)
        .arg(KEEPER_ARGUMENT)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(mut child) => child.stdin.take().map(|to| Running { child, to }),
        Err(error) => {
            tracing::warn!(%error, "servers may outlive a hub that is killed");
            None
        }
    }
}
