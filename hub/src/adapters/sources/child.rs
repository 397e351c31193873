//! A server's process: its own group, a small environment, and the tail of its error output.
#![expect(clippy::disallowed_methods, reason = "waits for processes and drains what they print")]

use super::keeper::Keeper;
use crate::model::json::cut;
use crate::model::source::StdioCommand;
use crate::model::visible::one_line;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

/// Lines of error output that are kept.
const TAIL_LINES: usize = 40;
/// Bytes of one such line that are kept.
const TAIL_LINE_BYTES: usize = 2048;
/// Bytes of one line that are read; of a longer one the rest is dropped.
const LINE_BYTES_READ: u64 = 64 * 1024;
/// How long a server may take to end once its input is closed.
const END_WITHIN: Duration = Duration::from_secs(2);
/// How long a process whose pipe just closed may take to be gone.
const GONE_WITHIN: Duration = Duration::from_millis(300);
/// How long the rest of its error output may take after that: what it started may hold the pipe open.
const WORDS_WITHIN: Duration = Duration::from_secs(1);

/// Takes secrets out of text.
pub(super) type Scrub = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// A running server. Dropping it kills its whole group.
#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Child,
    group: Option<Pid>,
    keeper: Keeper,
    tail: Arc<Mutex<VecDeque<String>>>,
    /// Reads its error output; over when that is.
    reading: Option<JoinHandle<()>>,
}

impl ServerProcess {
    pub(super) fn start(
        command: &StdioCommand,
        environment: Vec<(String, String)>,
        scrub: Scrub,
        keeper: &Keeper,
    ) -> std::io::Result<(ServerProcess, ChildStdin, ChildStdout)> {
        let mut child = Command::new(&command.program)
            .args(&command.args)
            .current_dir(&command.cwd)
            .env_clear()
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = group {
            keeper.watch(group);
        }
        let keeper = keeper.clone();
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let reading = child
            .stderr
            .take()
            .map(|stderr| tokio::spawn(keep_tail(stderr, Arc::clone(&tail), scrub)));
        match child.stdin.take().zip(child.stdout.take()) {
            Some((stdin, stdout)) => {
                Ok((ServerProcess { child, group, keeper, tail, reading }, stdin, stdout))
            }
            None => Err(std::io::Error::other("the process has no pipes")),
        }
    }

    /// How the process ended, if it did, and its last words; for an error that names them.
    pub(super) async fn obituary(&mut self) -> String {
        let status = tokio::time::timeout(GONE_WITHIN, self.child.wait()).await;
        let ended = match status {
            Ok(Ok(status)) => {
                self.end_group();
                if let Some(reading) = self.reading.take() {
                    let _ = tokio::time::timeout(WORDS_WITHIN, reading).await;
                }
                format!("the command ended with {status}")
            }
            Ok(Err(error)) => format!("the command's end is not known: {error}"),
            Err(_) => "the command is still running".to_owned(),
        };
        match self.last_words() {
            Some(words) => format!("{ended}; its last line of error output: {words}"),
            None => format!("{ended}, without any error output"),
        }
    }

    fn last_words(&self) -> Option<String> {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        // Stack traces end in noise; the first line that says "error" is worth more than the last.
        let telling = tail.iter().rev().find(|line| line.to_lowercase().contains("error"));
        telling.or_else(|| tail.back()).map(|line| one_line(line, 300))
    }

    /// Waits for the server to end by itself, then ends its whole group.
    pub(super) async fn stop(mut self) {
        if tokio::time::timeout(END_WITHIN, self.child.wait()).await.is_err() {
            self.signal(Signal::TERM);
            let _ = tokio::time::timeout(END_WITHIN, self.child.wait()).await;
        }
    }

    /// Ends what is left of its group. Once the process itself was waited for, nothing keeps the group's
    /// number from being somebody else's, so it is not used a second time.
    fn end_group(&mut self) {
        self.signal(Signal::KILL);
        if let Some(group) = self.group.take() {
            self.keeper.forget(group);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Whoever started it may be gone already; what it started in turn is in the same group.
        self.end_group();
    }
}

/// Reads error output for ever, keeping only its last lines: a server must never block on it.
async fn keep_tail(stderr: ChildStderr, tail: Arc<Mutex<VecDeque<String>>>, scrub: Scrub) {
    let mut reader = BufReader::new(stderr);
    let mut goes_on = false;
    loop {
        let mut line = Vec::new();
        let read = (&mut reader).take(LINE_BYTES_READ).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(bytes) if bytes > 0) {
            return;
        }
        // The rest of a line too long to be read at once may begin with half a secret: it is not kept.
        if std::mem::replace(&mut goes_on, line.last() != Some(&b'\n')) {
            continue;
        }
        // Scrubbed whole, then cut: half a secret is one, too.
        let text = scrub(String::from_utf8_lossy(&line).trim_end());
        let text = cut(&text, TAIL_LINE_BYTES).to_owned();
        if text.is_empty() {
            continue;
        }
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.push_back(text);
        if tail.len() > TAIL_LINES {
            tail.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn shell(script: &str) -> ServerProcess {
        let command = StdioCommand {
            program: "/bin/sh".to_owned(),
            args: vec!["-c".to_owned(), script.to_owned()],
            cwd: "/".to_owned(),
            path: String::new(),
            set: BTreeMap::new(),
            pass: Vec::new(),
        };
        // A secret is looked for in every line, which takes its time.
        let scrub: Scrub = Arc::new(|text| {
            (0..200).for_each(|_| assert!(!text.repeat(20).contains("secret")));
            text.to_owned()
        });
        let keeper = Keeper::new("/bin/true".into());
        let path = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
        ServerProcess::start(&command, path, scrub, &keeper).unwrap().0
    }

    #[tokio::test]
    async fn the_last_words_are_read_before_they_are_told() {
        let mut process = shell(
            "i=0; while [ $i -lt 2000 ]; do echo a line of noise; i=$((i+1)); done >&2; echo error: no key >&2; exit 3",
        );
        assert_eq!(
            process.obituary().await,
            "the command ended with exit status: 3; its last line of error output: error: no key"
        );
    }

    #[tokio::test]
    async fn what_a_process_started_ends_with_it_and_its_words_are_not_waited_for() {
        let mut process = shell("sleep 600 & echo error: gone >&2; exit 1");
        let told = process.obituary().await;
        assert!(told.ends_with("error: gone"), "{told}");
        assert_eq!(process.group, None, "its number may be somebody else's from here on");
    }
}
