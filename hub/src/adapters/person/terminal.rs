//! The person at the controlling terminal: one question at a time, one key per answer.
//!
//! The answer is read from the terminal itself, never from standard input: what is piped into a command
//! is not a person.
#![expect(
    clippy::disallowed_types,
    reason = "the terminal is a file, and this is the one place that opens it"
)]

use super::{masked, words};
use crate::core::approvals::Answer;
use crate::model::answer::NotDecided;
use crate::model::call::Seq;
use crate::model::envelope::Envelope;
use crate::model::ids::RunId;
use crate::model::journal::Question;
use crate::model::policy::{Channel, Choice};
use crate::model::time::WallMs;
use crate::model::visible::visible;
use crate::ports::person::{Incoming, Person, Reached, Waiting};
use crate::ports::secrets::SecretText;
use rustix::termios::{OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

/// Tenths of a second that a read of the terminal waits for a key.
const READ_TENTHS: u8 = 1;

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
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(RunId, Question)>,
    /// What is on the screen.
    asking: Option<(RunId, Question)>,
    /// What is on the screen was decided elsewhere.
    withdrawn: bool,
}

impl TerminalPerson {
    /// A person who may have preselected an answer; `wall` tells the time questions expire by.
    #[must_use]
    pub fn new(preselected: Preselected, wall: fn() -> WallMs) -> TerminalPerson {
        TerminalPerson { inner: Arc::new(Inner { preselected, wall, state: Mutex::default() }) }
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
        Self::key_unless(text, keys, enter, || false)
    }

    /// As [`TerminalPerson::key`]; `None` as well once `withdrawn` says so.
    fn key_unless(
        text: &str,
        keys: &str,
        enter: Option<char>,
        withdrawn: impl Fn() -> bool,
    ) -> Option<char> {
        let mut terminal = open_terminal().ok()?;
        terminal.write_all(text.as_bytes()).ok()?;
        terminal.flush().ok()?;
        let _raw = RawMode::enter(&terminal)?;
        loop {
            let mut byte = [0];
            // A read gives up after a tenth of a second, so that a question can be taken back.
            if terminal.read(&mut byte).ok()? == 0 {
                if withdrawn() || is_hung_up(&terminal) {
                    return None;
                }
                continue;
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

    /// Asks for a secret, of which nothing is shown; `None` if there is no terminal, or the person gave
    /// up.
    #[must_use]
    pub fn secret(prompt: &str) -> Option<SecretText> {
        masked::ask(prompt)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next question of a run, to ask it.
    fn take(&self, run: &RunId) -> Option<Question> {
        let mut state = self.state();
        let at = state.waiting.iter().position(|(known, _)| known == run)?;
        let (run, question) = state.waiting.remove(at)?;
        state.withdrawn = false;
        state.asking = Some((run, question.clone()));
        Some(question)
    }

    /// Asks the questions of a run, one after another, until one is answered.
    fn ask_any(&self, run: &RunId) -> Option<Answer> {
        while let Some(question) = self.take(run) {
            let answer = self.ask(&question);
            let withdrawn = {
                let mut state = self.state();
                state.asking = None;
                state.withdrawn
            };
            if answer.is_some() || !withdrawn {
                return answer;
            }
            if let Ok(mut terminal) = open_terminal() {
                let _ = write!(terminal, "\r\n  {} was decided elsewhere.\r\n", question.seq);
            }
        }
        None
    }

    fn ask(&self, question: &Question) -> Option<Answer> {
        let now = (self.inner.wall)();
        let text = question_text(question, now);
        // A wide answer covers every call of the tool that waits.
        let is_cut = |other: &Question| {
            other.binding.tool == question.binding.tool && other.hidden_bytes > 0
        };
        let others_cut = self.state().waiting.iter().any(|(_, other)| is_cut(other));
        let whole = question.hidden_bytes == 0 && !others_cut;
        let preselected =
            self.inner.preselected.choice.filter(|choice| whole || !words::is_wide(*choice));
        let options = if whole {
            "[o] allow once   [r] allow for this run   [a] always allow   [d] deny"
        } else {
            "[o] allow once   [d] deny"
        };
        let enter = preselected.map(choice_key);
        let prompt = match preselected {
            Some(choice) => {
                format!("{text}{options}   [Enter] {}\n> ", words::label(choice).to_lowercase())
            }
            None => format!("{text}{options}\n> "),
        };
        let keys = if whole { "orad" } else { "od" };
        let withdrawn = || self.state().withdrawn;
        let key = Self::key_unless(&prompt.replace('\n', "\r\n"), keys, enter, withdrawn)?;
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
            slip: None,
        })
    }
}

/// Has the terminal gone away?
pub(super) fn is_hung_up(terminal: &File) -> bool {
    tcgetattr(terminal).is_err()
}

fn choice_key(choice: Choice) -> char {
    match choice {
        Choice::Once => 'o',
        Choice::Run => 'r',
        Choice::Always => 'a',
        Choice::Deny => 'd',
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
    let _ = writeln!(text, "  asks because {}", words::why(question));
    for change in &question.changes {
        let _ = writeln!(text, "    {change}");
    }
    if let Some(line) = question.line {
        let _ = writeln!(text, "  called on line {line} of the code");
    }
    let _ = writeln!(text, "  open for {}", words::open_for(question, now));
    text
}

impl Person for TerminalPerson {
    async fn publish(&self, waiting: &Waiting) -> Reached {
        let wanted = self.inner.preselected.call;
        let run = &waiting.record.id;
        let mut state = self.state();
        let asking = state.asking.clone();
        state.waiting.retain(|(known, _)| known != run);
        for question in waiting.questions.iter().filter(|q| wanted.is_none_or(|seq| seq == q.seq)) {
            let on_screen = asking.as_ref().is_some_and(|(known, q)| known == run && q == question);
            if !on_screen {
                state.waiting.push_back((run.clone(), question.clone()));
            }
        }
        if let Some((known, question)) = asking
            && known == *run
            && !waiting.questions.contains(&question)
        {
            state.withdrawn = true;
        }
        Reached::Nowhere
    }

    async fn next_answer(&self, run: &RunId) -> Option<Incoming> {
        let (this, asked) = (self.clone(), run.clone());
        let answer = tokio::task::spawn_blocking(move || this.ask_any(&asked)).await.ok()??;
        if words::is_wide(answer.choice) {
            // One answer covers every call of the tool; they are not asked about again.
            let binding = &answer.binding;
            self.state().waiting.retain(|(known, q)| {
                known != run
                    || q.binding.tool != binding.tool
                    || q.binding.connection != binding.connection
                    || q.binding.contract != binding.contract
            });
        }
        Some(Incoming::Answer(answer))
    }

    async fn tell(&self, _run: &RunId, answer: &Answer, outcome: Result<(), NotDecided>) {
        if let (Err(why), Ok(mut terminal)) = (outcome, open_terminal()) {
            let _ = writeln!(terminal, "  {} not recorded: {why}", answer.seq);
        }
    }

    async fn withdraw(&self, run: &RunId, _ended: Option<&Envelope>) {
        self.state().waiting.retain(|(known, _)| known != run);
    }
}

pub(super) fn open_terminal() -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty")
}

/// Keys arrive one by one and unseen while this lives.
pub(super) struct RawMode {
    terminal: File,
    before: Termios,
}

impl RawMode {
    pub(super) fn enter(terminal: &File) -> Option<RawMode> {
        let terminal = terminal.try_clone().ok()?;
        let before = tcgetattr(&terminal).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = READ_TENTHS;
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
            line: Some(4),
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
          called on line 4 of the code
          open for 23 h 59 min
        "##);
    }
}
