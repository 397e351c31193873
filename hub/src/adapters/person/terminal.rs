//! The person at the controlling terminal: one question at a time, one key per answer.
//!
//! The answer is read from the terminal itself, never from standard input: what is piped into a command
//! is not a person.
#![expect(
    clippy::disallowed_types,
    reason = "the terminal is a file, and this is the one place that opens it"
)]

use crate::core::approvals::Answer;
use crate::model::call::Seq;
use crate::model::ids::RunId;
use crate::model::journal::Question;
use crate::model::policy::{Channel, Choice};
use crate::model::run::RunRecord;
use crate::model::time::WallMs;
use crate::model::visible::visible;
use crate::ports::person::Person;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

/// What the command line chose already; one key still confirms it.
#[derive(Debug, Clone, Default)]
pub struct Preselected {
    /// The answer that Enter gives.
    pub choice: Option<Choice>,
    /// Only this call is asked about.
    pub call: Option<Seq>,
}

/// A person at the controlling terminal.
#[derive(Debug, Clone)]
pub struct TerminalPerson {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    preselected: Preselected,
    /// Read to say how long a question is still open.
    wall: fn() -> WallMs,
    waiting: Mutex<VecDeque<(RunId, Question)>>,
}

impl TerminalPerson {
    /// A person who may have preselected an answer; `wall` tells the time questions expire by.
    #[must_use]
    pub fn new(preselected: Preselected, wall: fn() -> WallMs) -> TerminalPerson {
        TerminalPerson { inner: Arc::new(Inner { preselected, wall, waiting: Mutex::default() }) }
    }

    /// Is there a controlling terminal to ask at?
    #[must_use]
    pub fn is_reachable() -> bool {
        open_terminal().is_ok()
    }

    /// Shows one line and reads one key of `keys` at the terminal; `None` if there is no terminal, or the
    /// person pressed Escape, Ctrl-C or Ctrl-D.
    #[must_use]
    pub fn key(text: &str, keys: &str, enter: Option<char>) -> Option<char> {
        let mut terminal = open_terminal().ok()?;
        terminal.write_all(text.as_bytes()).ok()?;
        terminal.flush().ok()?;
        let _raw = RawMode::enter(&terminal)?;
        loop {
            let mut byte = [0];
            if terminal.read(&mut byte).ok()? == 0 {
                return None;
            }
            let key = char::from(byte[0]).to_ascii_lowercase();
            let chosen = match key {
                '\x03' | '\x04' | '\x1b' => return None,
                '\r' | '\n' => enter,
                key => keys.contains(key).then_some(key),
            };
            if let Some(chosen) = chosen {
                let _ = terminal.write_all(format!("{chosen}\r\n").as_bytes());
                return Some(chosen);
            }
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, VecDeque<(RunId, Question)>> {
        self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, question: &Question) -> Option<Answer> {
        let now = (self.inner.wall)();
        let text = question_text(question, now);
        let whole = question.hidden_bytes == 0;
        let preselected = self.inner.preselected.choice.filter(|choice| whole || !is_wide(*choice));
        let options = if whole {
            "[o] allow once   [r] allow for this run   [a] always allow   [d] deny"
        } else {
            "[o] allow once   [d] deny"
        };
        let enter = preselected.map(choice_key);
        let prompt = match preselected {
            Some(choice) => format!("{text}{options}   [Enter] {}\n> ", choice_word(choice)),
            None => format!("{text}{options}\n> "),
        };
        let key =
            Self::key(&prompt.replace('\n', "\r\n"), if whole { "orad" } else { "od" }, enter)?;
        let choice = match key {
            'o' => Choice::Once,
            'r' => Choice::Run,
            'a' => Choice::Always,
            _ => Choice::Deny,
        };
        Some(Answer {
            seq: question.seq,
            binding: question.binding.clone(),
            choice,
            channel: Channel::Terminal,
        })
    }
}

fn is_wide(choice: Choice) -> bool {
    match choice {
        Choice::Run | Choice::Always => true,
        Choice::Once | Choice::Deny => false,
    }
}

fn choice_key(choice: Choice) -> char {
    match choice {
        Choice::Once => 'o',
        Choice::Run => 'r',
        Choice::Always => 'a',
        Choice::Deny => 'd',
    }
}

fn choice_word(choice: Choice) -> &'static str {
    match choice {
        Choice::Once => "allow once",
        Choice::Run => "allow for this run",
        Choice::Always => "always allow",
        Choice::Deny => "deny",
    }
}

/// A question as a person reads it.
fn question_text(question: &Question, now: WallMs) -> String {
    let mut text = String::new();
    let connection = question
        .binding
        .connection
        .as_ref()
        .map(|name| format!("  on connection {name}"))
        .unwrap_or_default();
    let _ = writeln!(
        text,
        "\n{} wants to call  {}{connection}",
        question.seq,
        visible(&question.address, false)
    );
    if !question.says.is_empty() {
        let _ = writeln!(text, "  the tool says: \"{}\"", question.says);
    }
    for line in question.preview.lines() {
        let _ = writeln!(text, "  | {line}");
    }
    if question.hidden_bytes > 0 {
        let _ = writeln!(text, "  | … {} more bytes are not shown", question.hidden_bytes);
    }
    let why: Vec<String> =
        question.because.iter().map(crate::model::policy::Because::sentence).collect();
    let _ = writeln!(text, "  asks because {}", why.join("; "));
    for change in &question.changes {
        let _ = writeln!(text, "    {change}");
    }
    let minutes = question.expires.0.saturating_sub(now.0) / 60_000;
    let _ = writeln!(text, "  open for {} h {} min", minutes / 60, minutes % 60);
    text
}

impl Person for TerminalPerson {
    async fn publish(&self, run: &RunRecord, questions: &[Question]) {
        let wanted = self.inner.preselected.call;
        let mut waiting = self.waiting();
        waiting.retain(|(known, _)| *known != run.id);
        let asked = questions.iter().filter(|q| wanted.is_none_or(|seq| seq == q.seq));
        waiting.extend(asked.map(|question| (run.id.clone(), question.clone())));
    }

    async fn next_answer(&self, run: &RunId) -> Option<Answer> {
        let question = {
            let mut waiting = self.waiting();
            let at = waiting.iter().position(|(known, _)| known == run)?;
            waiting.remove(at)?.1
        };
        let this = self.clone();
        let answer = tokio::task::spawn_blocking(move || this.ask(&question)).await.ok()??;
        if is_wide(answer.choice) {
            // One answer covers every call of the tool; they are not asked about again.
            let binding = &answer.binding;
            self.waiting().retain(|(known, q)| {
                known != run
                    || q.binding.tool != binding.tool
                    || q.binding.connection != binding.connection
                    || q.binding.contract != binding.contract
            });
        }
        Some(answer)
    }

    async fn tell(&self, _run: &RunId, outcome: Result<(), String>) {
        if let (Err(why), Ok(mut terminal)) = (outcome, open_terminal()) {
            let _ = writeln!(terminal, "  not recorded: {why}");
        }
    }

    async fn withdraw(&self, run: &RunId) {
        self.waiting().retain(|(known, _)| known != run);
    }
}

fn open_terminal() -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty")
}

/// Keys arrive one by one and unseen while this lives.
struct RawMode {
    terminal: File,
    before: Termios,
}

impl RawMode {
    fn enter(terminal: &File) -> Option<RawMode> {
        let terminal = terminal.try_clone().ok()?;
        let before = tcgetattr(&terminal).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        // What was typed before the question was shown answers nothing.
        tcsetattr(&terminal, OptionalActions::Flush, &raw).ok()?;
        Some(RawMode { terminal, before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::call::Binding;
    use crate::model::digest::Digest;
    use crate::model::ids::SourceId;
    use crate::model::names::ToolRef;
    use crate::model::policy::Because;

    #[test]
    fn a_question_shows_everything_a_person_needs() {
        let question = Question {
            seq: Seq(3),
            binding: Binding {
                tool: ToolRef {
                    source: SourceId::from_random([0; 10]),
                    raw: "post".parse().unwrap(),
                },
                connection: "work".parse().ok(),
                contract: Digest::of(b"c"),
                arguments: Digest::of(b"a"),
            },
            address: "slack.postMessage".to_owned(),
            says: "Post a message.".to_owned(),
            preview: "{\n  \"channel\": \"#eng\"\n}".to_owned(),
            hidden_bytes: 12,
            because: vec![Because::Changed],
            changes: vec!["description: was \"a\", is \"b\"".to_owned()],
            asked: WallMs(0),
            expires: WallMs(24 * 60 * 60 * 1000),
        };
        insta::assert_snapshot!(question_text(&question, WallMs(60_000)), @r##"

        c3 wants to call  slack.postMessage  on connection work
          the tool says: "Post a message."
          | {
          |   "channel": "#eng"
          | }
          | … 12 more bytes are not shown
          asks because the tool changed since it was reviewed
            description: was "a", is "b"
          open for 23 h 59 min
        "##);
    }
}
