//! The client's own prompt: questions go out under a seal, and come back in a response that proves nothing
//! but that somebody held the sealed state.

use super::words;
use crate::core::approvals::{Answer, Slip};
use crate::model::answer::{NotDecided, PERSON_MS_MIN, RefusedAnswer};
use crate::model::call::{Binding, Seq};
use crate::model::digest::Digest;
use crate::model::ids::{HubId, RunId};
use crate::model::journal::Question;
use crate::model::policy::{Channel, Choice};
use crate::model::time::WallMs;
use crate::model::visible::visible;
use crate::ports::person::{Client, ClientResponse, Forged, Form, Prompt, ReadResponse, Waiting};
use crate::ports::secrets::{Secrets, Signature};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The field of a form that holds the choice.
pub const DECISION_FIELD: &str = "decision";
/// Version of the sealed state.
const STATE_VERSION: u32 = 1;
/// What is signed begins with this, so that no signature of another kind fits.
const PURPOSE: &[u8] = b"capabilities client prompt\n";
/// Bytes a state may have when it comes back; far more than any that goes out.
const STATE_BYTES_MAX: usize = 256 * 1024;
/// Forms in one prompt. Whatever else waits is asked in the next.
const FORMS_MAX: usize = 4;
/// Calls one form shows.
const CALLS_MAX: usize = 25;
/// Bytes of arguments one form shows.
const SHOWN_BYTES_MAX: usize = 8 * 1024;
/// Questions whose first sending is remembered.
const SENT_MAX: usize = 10_000;

/// What goes out sealed and comes back.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealedState {
    v: u32,
    run: RunId,
    principal: String,
    request: Digest,
    expires: WallMs,
    forms: BTreeMap<String, SealedForm>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealedForm {
    sent: WallMs,
    /// Were all arguments shown whole?
    whole: bool,
    calls: Vec<SealedCall>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealedCall {
    seq: Seq,
    binding: Binding,
    nonce: Digest,
}

/// The prompts of one process.
#[derive(Debug)]
pub struct ClientPrompts<S> {
    secrets: Arc<S>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Who answered as a program does.
    off: BTreeSet<String>,
    /// When a question was first sent, by client.
    first_sent: BTreeMap<(String, RunId, Seq, Binding), WallMs>,
}

impl<S: Secrets> ClientPrompts<S> {
    /// Prompts sealed by `secrets`.
    #[must_use]
    pub fn new(secrets: Arc<S>) -> ClientPrompts<S> {
        ClientPrompts { secrets, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes no more answers from a client in this process.
    pub fn turn_off(&self, principal: &str) {
        if self.state().off.insert(principal.to_owned()) {
            tracing::warn!(
                "a client answered a question as no person does; it is not asked any more"
            );
        }
    }

    /// A waiting run's questions for a client, sealed; `None` if it is not to be asked. Blocks.
    pub fn prompt(
        &self,
        waiting: &Waiting,
        client: &Client,
        hub: &HubId,
        now: WallMs,
        random: impl FnMut() -> Digest,
    ) -> Option<Prompt> {
        if self.state().off.contains(&client.principal) || waiting.questions.is_empty() {
            return None;
        }
        let run = &waiting.record.id;
        let (forms, sealed) = self.forms(waiting, client, now, random);
        let state = SealedState {
            v: STATE_VERSION,
            run: run.clone(),
            principal: client.principal.clone(),
            request: client.request,
            expires: waiting.questions.iter().map(|q| q.expires).min().unwrap_or(now),
            forms: sealed,
        };
        let payload = serde_json::to_string(&state).ok()?;
        match self.secrets.sign(hub, &signed(&payload)) {
            Ok(signature) => {
                let (payload, seal) = (encode(payload.as_bytes()), encode(&signature));
                Some(Prompt { state: format!("{payload}.{seal}"), forms })
            }
            Err(error) => {
                tracing::warn!(%error, "questions cannot be signed, so the client is not asked");
                None
            }
        }
    }

    fn forms(
        &self,
        waiting: &Waiting,
        client: &Client,
        now: WallMs,
        mut random: impl FnMut() -> Digest,
    ) -> (BTreeMap<String, Form>, BTreeMap<String, SealedForm>) {
        let (mut forms, mut sealed) = (BTreeMap::new(), BTreeMap::new());
        for group in words::groups(&waiting.questions).into_iter().take(FORMS_MAX) {
            let shown = shown_of(&group);
            // A wide answer covers every call of the tool, those that did not fit into the form as well.
            let whole = group.iter().all(|question| question.hidden_bytes == 0);
            let calls = shown.iter().map(|question| SealedCall {
                seq: question.seq,
                binding: question.binding.clone(),
                nonce: random(),
            });
            let calls: Vec<SealedCall> = calls.collect();
            let sent = self.first_sent(&waiting.record.id, client, &calls, now);
            let Some(first) = shown.first() else { continue };
            // The same key for the same question, so that a client can tell that it was asked before.
            let key = format!("{}-{}", first.seq, first.binding.arguments.short());
            let message = message(&waiting.record.id, &group, &shown, now);
            let choices = words::CHOICES.into_iter().filter(|c| whole || !words::is_wide(*c));
            forms.insert(key.clone(), Form { message, choices: choices.collect() });
            sealed.insert(key, SealedForm { sent, whole, calls });
        }
        (forms, sealed)
    }

    /// When the newest of these calls was first sent to this client.
    fn first_sent(
        &self,
        run: &RunId,
        client: &Client,
        calls: &[SealedCall],
        now: WallMs,
    ) -> WallMs {
        let mut state = self.state();
        if state.first_sent.len() > SENT_MAX {
            state.first_sent.clear();
        }
        let times = calls.iter().map(|call| {
            let key = (client.principal.clone(), run.clone(), call.seq, call.binding.clone());
            *state.first_sent.entry(key).or_insert(now)
        });
        times.max().unwrap_or(now)
    }

    /// Reads what a client sent back. Blocks.
    ///
    /// # Errors
    /// The state is not this hub's own, or for another client or request.
    pub fn read(
        &self,
        response: &ClientResponse,
        client: &Client,
        hub: &HubId,
        now: WallMs,
    ) -> Result<ReadResponse, Forged> {
        let nobody = Forged { run: None };
        let text = response.state.as_deref().filter(|text| text.len() <= STATE_BYTES_MAX);
        let (payload, seal) = text.and_then(|text| text.split_once('.')).ok_or(nobody.clone())?;
        let payload = decode(payload).and_then(|bytes| String::from_utf8(bytes).ok());
        let payload = payload.ok_or(nobody.clone())?;
        let claimed: SealedState = serde_json::from_str(&payload).map_err(|_| nobody)?;
        let forged = Forged { run: Some(claimed.run.clone()) };
        let signature = decode(seal).and_then(|bytes| Signature::try_from(bytes).ok());
        let signature = signature.ok_or(forged.clone())?;
        match self.secrets.is_signed(hub, &signed(&payload), &signature) {
            Ok(true) => {}
            Ok(false) => return Err(forged),
            Err(error) => {
                tracing::warn!(%error, "a client's answer cannot be checked, so it is not taken");
                return Err(forged);
            }
        }
        let state = claimed;
        if state.v != STATE_VERSION
            || state.principal != client.principal
            || state.request != client.request
        {
            return Err(forged);
        }
        Ok(self.answers(&state, response, client, now))
    }

    fn answers(
        &self,
        state: &SealedState,
        response: &ClientResponse,
        client: &Client,
        now: WallMs,
    ) -> ReadResponse {
        let heard = !self.state().off.contains(&client.principal);
        let mut read = ReadResponse {
            run: state.run.clone(),
            answers: Vec::new(),
            unreadable: Vec::new(),
            put_off: false,
        };
        for (key, form) in &state.forms {
            let Some(given) = response.responses.get(key) else { continue };
            match choice(given, form.whole) {
                Given::PutOff => read.put_off = true,
                Given::Choice(choice) => {
                    // Decided against where it is recorded, like every answer; and noted here for the next.
                    if now.0.saturating_sub(form.sent.0) < PERSON_MS_MIN {
                        self.turn_off(&client.principal);
                    }
                    // One wide answer covers every call of the tool.
                    let few = if words::is_wide(choice) { 1 } else { form.calls.len() };
                    read.answers.extend(form.calls.iter().take(few).map(|call| Answer {
                        seq: call.seq,
                        binding: call.binding.clone(),
                        choice,
                        channel: Channel::Client,
                        slip: Some(Slip { nonce: call.nonce, sent: form.sent, heard }),
                    }));
                }
                Given::Nonsense => {
                    self.turn_off(&client.principal);
                    read.unreadable.extend(form.calls.iter().map(|call| RefusedAnswer {
                        seq: Some(call.seq),
                        choice: None,
                        channel: Channel::Client,
                        why: NotDecided::Unreadable,
                        wall: now,
                        nonce: Some(call.nonce),
                    }));
                }
            }
        }
        read
    }
}

/// What one answer of a client says.
enum Given {
    Choice(Choice),
    PutOff,
    Nonsense,
}

fn choice(given: &Value, whole: bool) -> Given {
    let action = given.get("action").and_then(Value::as_str);
    match action {
        Some("decline") => Given::Choice(Choice::Deny),
        Some("cancel") => Given::PutOff,
        Some("accept") => {
            let chosen = given.get("content").and_then(|content| content.get(DECISION_FIELD));
            match chosen.and_then(Value::as_str).and_then(words::choice_of) {
                Some(choice) if whole || !words::is_wide(choice) => Given::Choice(choice),
                Some(_) | None => Given::Nonsense,
            }
        }
        Some(_) | None => Given::Nonsense,
    }
}

/// The calls of a group that fit into one form.
fn shown_of<'q>(group: &[&'q Question]) -> Vec<&'q Question> {
    let mut bytes = 0;
    let fits = |question: &&&Question| {
        bytes += question.preview.len();
        bytes <= SHOWN_BYTES_MAX
    };
    let mut shown: Vec<&Question> =
        group.iter().take(CALLS_MAX).take_while(fits).copied().collect();
    if shown.is_empty() {
        shown.extend(group.first());
    }
    shown
}

fn message(run: &RunId, group: &[&Question], shown: &[&Question], now: WallMs) -> String {
    let Some(first) = shown.first() else { return String::new() };
    let mut text = String::new();
    let connection = first
        .binding
        .connection
        .as_ref()
        .map(|name| format!(" on connection {name}"))
        .unwrap_or_default();
    let calls = if group.len() == 1 { String::new() } else { format!(" {} times", group.len()) };
    let _ = writeln!(text, "Code of {run} wants to call {}{connection}{calls}.", first.address);
    if !first.says.is_empty() {
        let _ = writeln!(text, "The tool says of itself: \"{}\"", visible(&first.says, false));
    }
    for question in shown {
        let _ = writeln!(text, "\n{}", question.preview);
        if question.hidden_bytes > 0 {
            let _ = writeln!(text, "… {} more bytes are not shown", question.hidden_bytes);
        }
    }
    let left = group.len() - shown.len();
    if left > 0 {
        let _ = writeln!(text, "\n{left} more calls of this tool wait and are asked about next.");
    }
    let _ = writeln!(text, "\nAsks because {}.", words::why(first));
    for change in &first.changes {
        let _ = writeln!(text, "  {change}");
    }
    let _ = write!(text, "Open for {}.", words::open_for(first, now));
    text
}

fn signed(payload: &str) -> Vec<u8> {
    [PURPOSE, payload.as_bytes()].concat()
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
