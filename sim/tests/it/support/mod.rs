//! A hub of the real binary in a home of its own, for tests that use it as a person or a client would.

mod client;
mod files;
pub(crate) mod stage;

pub(crate) use client::{Client, modern_meta};
pub(crate) use files::{damaged, json_files};

use hub::cli::AGENT_VARIABLES;
use serde_json::Value;
use sim::answer::{Answered, Unattended, answer, unattended};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up; far more than it ever needs.
pub(crate) const WITHIN: Duration = Duration::from_secs(60);
/// How often something that cannot be waited for is looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A hub in a temporary home.
pub(crate) struct TestHub {
    folder: tempfile::TempDir,
    commands: AtomicUsize,
}

impl TestHub {
    /// A home without a hub.
    pub(crate) fn nowhere() -> TestHub {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("home")).expect("a home");
        TestHub { folder, commands: AtomicUsize::new(0) }
    }

    /// An empty hub.
    pub(crate) fn new() -> TestHub {
        let hub = TestHub::nowhere();
        hub.ok(["init"]);
        hub
    }

    /// A hub with one reviewed source, `notes`, that has every tool of the scripted server.
    pub(crate) fn with_notes() -> TestHub {
        let hub = TestHub::new();
        hub.add("notes", &[]);
        hub
    }

    /// Adds a scripted server, agreed to and reviewed.
    pub(crate) fn add(&self, namespace: &str, arguments: &[&str]) {
        let command = self.server(namespace, arguments);
        let before = ["add", "--accept", "--namespace", namespace].map(str::to_owned);
        self.ok(before.into_iter().chain(command));
    }

    /// The command line of a scripted server whose log is named after `namespace`.
    pub(crate) fn server(&self, namespace: &str, arguments: &[&str]) -> Vec<String> {
        let log = self.log(namespace);
        let fixed = [
            env!("CARGO_BIN_EXE_sim"),
            "server",
            "--log",
            log.to_str().expect("a path that is text"),
        ];
        fixed.iter().chain(arguments).map(|word| (*word).to_owned()).collect()
    }

    /// The folder of the hub itself.
    pub(crate) fn store(&self) -> PathBuf {
        self.file("capabilities").join("hub")
    }

    /// A file in the hub's own temporary folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where a scripted server notes its calls; the file appears when the server first starts.
    pub(crate) fn log(&self, namespace: &str) -> PathBuf {
        self.file(&format!("{namespace}.log"))
    }

    /// The names of the tools that were called at a scripted server, oldest first.
    pub(crate) fn calls(&self, namespace: &str) -> Vec<String> {
        let calls = sim::server::calls(&self.log(namespace)).expect("a readable log");
        calls.iter().map(|call| call["name"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// `capabilities hub …` with this home, and without the variables that name an agent.
    pub(crate) fn command<I: IntoIterator<Item = A>, A: AsRef<OsStr>>(
        &self,
        arguments: I,
    ) -> Command {
        let mut command = Command::new(capabilities());
        command.arg("hub").args(arguments);
        command.env("CAPABILITIES_HOME", self.folder.path().join("capabilities"));
        // No test touches a real keychain, or opens a real browser.
        command.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent");
        for name in ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "BROWSER"] {
            command.env_remove(name);
        }
        command.env("HOME", self.folder.path().join("home"));
        for name in AGENT_VARIABLES {
            command.env_remove(name);
        }
        command
    }

    /// Runs a command where there is no terminal.
    pub(crate) fn run<I: IntoIterator<Item = A>, A: AsRef<OsStr>>(
        &self,
        arguments: I,
    ) -> Unattended {
        self.run_with(&self.command(arguments), "")
    }

    /// Runs a prepared command where there is no terminal, with an input.
    pub(crate) fn run_with(&self, command: &Command, input: &str) -> Unattended {
        let number = self.commands.fetch_add(1, Ordering::SeqCst);
        let scratch = self.file(&format!("command-{number}"));
        std::fs::create_dir(&scratch).expect("a scratch folder");
        unattended(command, input, &scratch, WITHIN).expect("a command that ends")
    }

    /// Runs a command that must succeed, without a terminal; what it printed.
    #[track_caller]
    pub(crate) fn ok<I: IntoIterator<Item = A>, A: AsRef<OsStr>>(&self, arguments: I) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.status, 0, "{ended:#?}");
        ended.stdout
    }

    /// Runs a command with `--json`, without a terminal; its exit status and what it printed.
    #[track_caller]
    pub(crate) fn json<I: IntoIterator<Item = A>, A: AsRef<OsStr>>(
        &self,
        arguments: I,
    ) -> (u32, Value) {
        let mut command = self.command(["--json"]);
        command.args(arguments);
        let ended = self.run_with(&command, "");
        assert_eq!(ended.stdout.lines().count(), 1, "one line of JSON: {ended:#?}");
        (ended.status, serde_json::from_str(&ended.stdout).expect("JSON"))
    }

    /// Runs code without a terminal; exit status and envelope.
    #[track_caller]
    pub(crate) fn exec(&self, code: &str) -> (u32, Value) {
        self.json(["exec", code])
    }

    /// Runs code that stops at a question; the id of its run.
    #[track_caller]
    pub(crate) fn waiting(&self, code: &str) -> String {
        let (status, envelope) = self.exec(code);
        assert_eq!(
            (status, &envelope["status"]),
            (3, &Value::from("awaiting_approval")),
            "{envelope:#}"
        );
        envelope["runId"].as_str().expect("a run id").to_owned()
    }

    /// Runs a command at a terminal, answering its prompts; every key must be asked for.
    #[track_caller]
    pub(crate) fn at_terminal<I: IntoIterator<Item = A>, A: AsRef<OsStr>>(
        &self,
        keys: &str,
        arguments: I,
    ) -> Answered {
        self.at_terminal_with(keys, &self.command(arguments))
    }

    /// As above, for a prepared command.
    #[track_caller]
    pub(crate) fn at_terminal_with(&self, keys: &str, command: &Command) -> Answered {
        let answered =
            answer(command, keys, WITHIN, &mut std::io::sink()).expect("a command that ends");
        assert_eq!(
            answered.prompts,
            keys.chars().count(),
            "every key is asked for:\n{}",
            answered.output
        );
        answered
    }

    /// A client connected to `serve --stdio`.
    pub(crate) fn serve(&self) -> Client {
        Client::start(self.command(["serve", "--stdio"]))
    }

    /// The envelope of a run that is over or waits, as a client that resumes it sees it.
    pub(crate) fn resume(&self, run: &str) -> Value {
        let mut client = self.serve();
        client.initialize("2025-11-25");
        let envelope = client.envelope(&serde_json::json!({ "resume": run }));
        client.close();
        envelope
    }
}

/// Waits until `look` finds something.
#[track_caller]
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_every(LOOK_EVERY, what, look)
}

/// As [`until`], for what must be caught soon after it happened.
#[track_caller]
pub(crate) fn until_every<T>(
    every: Duration,
    what: &str,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + WITHIN;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(every);
    }
}

/// The same command with its surroundings, run by a shell script that sees `zero` as `$0`.
pub(crate) fn through_shell(script: &str, zero: &OsStr, command: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script]).arg(zero);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// The binary under test, which is built beside this one.
pub(crate) fn capabilities() -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_sim")).with_file_name("capabilities");
    assert!(binary.exists(), "{} is missing; build it first: cargo build -p hub", binary.display());
    binary
}
