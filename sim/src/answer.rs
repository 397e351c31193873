//! Runs a command on a pseudo-terminal and answers its questions with given keys, as a person would.
//!
//! The hub reads answers from the controlling terminal and drops what was typed before a question was
//! shown. A key is therefore sent only when two things hold: the last line of the output is a prompt that
//! has not been answered, and the terminal has left the mode it was opened in.

use anyhow::{Context as _, bail};
use hub::cli::AGENT_VARIABLES;
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use std::io::{Read as _, Write};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// What the last line of a question looks like.
const PROMPT: &str = "> ";
/// How often the terminal's mode and the command's end are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long output may still arrive after the command's end, from what it left behind.
const DRAIN: Duration = Duration::from_secs(2);

/// A command that ended at its terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Everything the terminal showed, with plain line ends.
    pub output: String,
    /// Exit status; 128 and more for a signal's.
    pub status: u32,
    /// How many of the keys a prompt asked for.
    pub prompts: usize,
}

/// A command that ended without a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unattended {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Exit status.
    pub status: u32,
}

/// Runs `command` on a terminal of its own and answers its prompts with `keys`, in order. What the
/// terminal shows goes to `echo` as it comes. Variables that name an agent are taken away, unless
/// `command` sets them itself.
///
/// # Errors
/// It cannot be started, a prompt is left without a key, or it has not ended `within` that time; it is
/// killed then, and the error shows what the terminal showed.
pub fn answer(
    command: &Command,
    keys: &str,
    within: Duration,
    echo: &mut dyn Write,
) -> anyhow::Result<Answered> {
    let mut terminal = Terminal::start(&builder(command, true)?)?;
    let deadline = Instant::now() + within;
    let mut keys = keys.chars();
    let mut prompts = 0;
    let mut answered_to = 0;
    loop {
        terminal.read(LOOK_EVERY, echo)?;
        if terminal.output.len() > answered_to && terminal.waits_for_a_key() {
            let Some(key) = keys.next() else {
                bail!("a prompt is left without a key:\n{}", terminal.text());
            };
            terminal.press(key)?;
            prompts += 1;
            answered_to = terminal.output.len();
        }
        if let Some(status) = terminal.ended()? {
            terminal.drain(echo)?;
            return Ok(Answered { output: terminal.text(), status, prompts });
        }
        if Instant::now() >= deadline {
            bail!("not over within {} s:\n{}", within.as_secs(), terminal.text());
        }
    }
}

/// Runs `command` where no terminal can be opened, even if this process has one, with `input` as its
/// standard input. Variables that name an agent are taken away, unless `command` sets them itself.
///
/// # Errors
/// It cannot be started, or has not ended `within` that time; it is killed then.
pub fn unattended(
    command: &Command,
    input: &str,
    scratch: &Path,
    within: Duration,
) -> anyhow::Result<Unattended> {
    let file = |name: &str| scratch.join(name);
    std::fs::write(file("stdin"), input)?;
    let mut shell = Command::new("/bin/sh");
    shell.args([
        "-c",
        r#"files=$1; shift; exec "$@" <"$files/stdin" >"$files/stdout" 2>"$files/stderr""#,
        "sh",
    ]);
    shell.arg(scratch).arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    for (name, _) in command.get_envs().filter(|(_, value)| value.is_none()) {
        shell.env_remove(name);
    }
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    let mut terminal = Terminal::start(&builder(&shell, false)?)?;
    let deadline = Instant::now() + within;
    loop {
        terminal.read(LOOK_EVERY, &mut std::io::sink())?;
        if let Some(status) = terminal.ended()? {
            let text = |name: &str| -> anyhow::Result<String> {
                Ok(String::from_utf8_lossy(&std::fs::read(file(name))?).into_owned())
            };
            return Ok(Unattended { stdout: text("stdout")?, stderr: text("stderr")?, status });
        }
        if Instant::now() >= deadline {
            bail!("not over within {} s: {command:?}", within.as_secs());
        }
    }
}

/// A pseudo-terminal with a command on it. Dropping it kills the command.
struct Terminal {
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    chunks: Receiver<Vec<u8>>,
    /// Is the other end closed?
    closed: bool,
    output: Vec<u8>,
    opened_raw: bool,
}

impl Terminal {
    fn start(builder: &CommandBuilder) -> anyhow::Result<Terminal> {
        let size = PtySize { rows: 50, cols: 200, ..PtySize::default() };
        let pair =
            native_pty_system().openpty(size).context("a pseudo-terminal cannot be opened")?;
        let mut reader = pair.master.try_clone_reader()?;
        let writer = pair.master.take_writer()?;
        let opened_raw = is_raw(&*pair.master);
        let child = pair.slave.spawn_command(builder.clone())?;
        // Reading ends only when nobody holds the other side any more.
        drop(pair.slave);
        let (send, chunks) = channel();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(bytes @ 1..) = reader.read(&mut chunk) {
                if send.send(chunk[..bytes].to_vec()).is_err() {
                    return;
                }
            }
        });
        Ok(Terminal {
            master: pair.master,
            writer,
            child,
            chunks,
            closed: false,
            output: Vec::new(),
            opened_raw,
        })
    }

    /// Takes in what arrives within `wait`.
    fn read(&mut self, wait: Duration, echo: &mut dyn Write) -> anyhow::Result<()> {
        if self.closed {
            std::thread::sleep(wait);
            return Ok(());
        }
        match self.chunks.recv_timeout(wait) {
            Ok(chunk) => {
                echo.write_all(&chunk)?;
                echo.flush()?;
                self.output.extend(chunk);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.closed = true,
        }
        Ok(())
    }

    fn drain(&mut self, echo: &mut dyn Write) -> anyhow::Result<()> {
        let until = Instant::now() + DRAIN;
        while !self.closed && Instant::now() < until {
            self.read(LOOK_EVERY, echo)?;
        }
        Ok(())
    }

    fn waits_for_a_key(&self) -> bool {
        let line = self.output.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_prefix(b"\r").unwrap_or(line);
        line == PROMPT.as_bytes() && is_raw(&*self.master) != self.opened_raw
    }

    fn press(&mut self, key: char) -> anyhow::Result<()> {
        self.writer.write_all(key.encode_utf8(&mut [0; 4]).as_bytes())?;
        self.writer.flush()?;
        Ok(())
    }

    fn ended(&mut self) -> anyhow::Result<Option<u32>> {
        let status = self.child.try_wait()?;
        Ok(status.map(|status| if status.signal().is_some() { 128 } else { status.exit_code() }))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).replace("\r\n", "\n")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Do keys arrive one by one? Asked of the terminal's settings by their names, which every system spells
/// alike.
fn is_raw(master: &dyn MasterPty) -> bool {
    master
        .get_termios()
        .is_some_and(|settings| !format!("{:?}", settings.local_flags).contains("ICANON"))
}

fn builder(command: &Command, controlling: bool) -> anyhow::Result<CommandBuilder> {
    let mut builder = CommandBuilder::new(command.get_program());
    builder.args(command.get_args());
    for name in AGENT_VARIABLES {
        builder.env_remove(name);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => builder.env(name, value),
            None => builder.env_remove(name),
        }
    }
    match command.get_current_dir() {
        Some(folder) => builder.cwd(folder),
        None => builder.cwd(std::env::current_dir()?),
    }
    builder.set_controlling_tty(controlling);
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn each_prompt_gets_the_next_key_once_the_terminal_is_ready() {
        let script = r#"for n in 1 2; do printf '%s?\n> ' $n >/dev/tty; stty raw -echo </dev/tty; k=$(dd bs=1 count=1 2>/dev/null </dev/tty); stty sane </dev/tty; echo "$k!"; done; exit 7"#;
        let mut echo = Vec::new();
        let answered = answer(&shell(script), "xy", WITHIN, &mut echo).unwrap();
        assert_eq!(
            (answered.output.as_str(), answered.status, answered.prompts),
            ("1?\n> x!\n2?\n> y!\n", 7, 2)
        );
        assert_eq!(String::from_utf8_lossy(&echo).replace("\r\n", "\n"), answered.output);
    }

    #[test]
    fn a_prompt_without_a_key_ends_it() {
        let script = "printf '> ' >/dev/tty; stty raw </dev/tty; dd bs=1 count=1 </dev/tty";
        let error = answer(&shell(script), "", WITHIN, &mut std::io::sink()).unwrap_err();
        assert!(error.to_string().contains("left without a key"), "{error}");
    }

    #[test]
    fn without_a_terminal_there_is_none_to_open() {
        let folder = tempfile::tempdir().unwrap();
        let script = "cat; (: >/dev/tty) 2>/dev/null || echo none >&2; exit 3";
        let ended = unattended(&shell(script), "in", folder.path(), WITHIN).unwrap();
        assert_eq!(
            ended,
            Unattended { stdout: "in".to_owned(), stderr: "none\n".to_owned(), status: 3 }
        );
    }
}
