//! Each call's way from asked to settled, in the order of design 4.

use super::{Effect, Engine, Outbound, Reply};
use crate::core::policy::{CallFacts, rule};
use crate::core::runs::address;
use crate::core::validate::Checker;
use crate::model::call::{Binding, Outcome, Seq, ToolFailure};
use crate::model::digest::Digest;
use crate::model::error::{ErrorCode, Failure};
use crate::model::facts::SourceFacts;
use crate::model::journal::{Entry, StoredOutcome, Verdict};
use crate::model::json::{canonical, parse_from_guest, sorted};
use crate::model::limits::OUTCOME_BYTES_INLINE;
use crate::model::names::{ConnectionName, ToolRef};
use crate::model::policy::{Because, Effect as Ruled, Ruling};
use crate::model::time::Now;
use crate::model::turn::{Answer, Delivery, GuestCall};
use crate::model::visible::one_line;
use serde_json::Value;
use std::sync::Arc;

/// One call of this attempt.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) address: String,
    /// As asked: with the contract the run froze.
    pub(super) binding: Binding,
    pub(super) arguments: Value,
    /// Where in the code it was made.
    pub(super) line: Option<u32>,
    pub(super) state: State,
}

/// Where a call stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    /// An earlier attempt knows its outcome; the journal delivers it in its turn.
    Known,
    /// It will fail with this as soon as the journal has caught up.
    Failing(ToolFailure),
    /// A person must decide.
    NeedsPerson(Vec<Because>),
    /// Allowed; waits for a free place, or for the end of a pause.
    Ready,
    /// Its source is being made ready. Nothing has left.
    Dialling,
    /// It left.
    InFlight { write: bool },
    /// It ended.
    Settled,
}

impl Engine {
    /// Takes a call the guest made: checks it, compares it with the journal, and rules.
    pub(super) fn take_call(&mut self, call: &GuestCall, secret: bool, out: &mut Vec<Effect>) {
        if u64::from(call.seq.0) > self.record.limits.calls_max {
            let mut failure = self.call_limit();
            let next = one_line(&format!("{}.{}", call.namespace, call.tool), 120);
            failure.message.push_str(&format!("; the next was `{next}`"));
            self.end_with(failure);
            return;
        }
        let seq = call.seq;
        let Some((binding, arguments, address, checked)) = self.resolve(call, secret) else {
            // The prelude only offers what the snapshot has, so this guest is not ours any more.
            let message = "the sandbox asked for a tool that the run cannot see";
            self.lose_guest(Failure::new(ErrorCode::SandboxCrashed, message));
            return;
        };
        let before = self.replay.meet(seq).cloned();
        if before.is_none() && self.replay.last_asked().is_some_and(|last| last > seq) {
            let what = format!("call {seq} of `{address}` is new among calls made before");
            self.diverge(&what);
            return;
        }
        if let Some(before) = &before
            && before.binding != binding
        {
            let was = self.sketch(&before.binding);
            self.diverge(&format!("call {seq} was {was} and is {}", self.sketch(&binding)));
            return;
        }
        let (state, verdict) = match checked {
            Err(failure) => (State::Failing(failure.clone()), Verdict::Refused(failure.code)),
            Ok(()) => {
                let (state, ruling) = self.ruled(seq, &binding);
                (state, Verdict::Ruled(ruling))
            }
        };
        let state = match &before {
            Some(before) if before.settled.is_some() => State::Known,
            // A write that left without an answer is settled as unknown when the attempt begins, so
            // what is left here never left, or is a read.
            Some(_) | None => state,
        };
        if before.is_none() {
            let entry = Entry::Asked { seq, binding: binding.clone(), verdict };
            self.append(vec![entry], false, out);
        }
        self.calls.insert(seq, Call { address, binding, arguments, line: call.line, state });
    }

    /// What the guest's words mean: tool and connection by the frozen snapshot, arguments as a value.
    fn resolve(
        &mut self,
        call: &GuestCall,
        secret: bool,
    ) -> Option<(Binding, Value, String, Result<(), ToolFailure>)> {
        let source =
            self.snapshot.sources.iter().find(|s| s.namespace.as_str() == call.namespace)?;
        let tool = source.tools.iter().find(|tool| tool.name.as_str() == call.tool)?;
        let address = format!("{}.{}", source.namespace, tool.name);
        let tool_ref = ToolRef { source: source.id.clone(), raw: tool.raw.clone() };
        let contract = tool.contract;
        let mut checked = Ok(());
        let connection = match &call.connection {
            None => source.default_connection.clone(),
            Some(name) => match name.parse::<ConnectionName>() {
                Ok(name) if source.connections.contains(&name) => Some(name),
                Ok(_) | Err(_) => {
                    checked = Err(unknown_connection(&address, name, &source.connections));
                    None
                }
            },
        };
        let arguments = match parse_from_guest(&call.arguments) {
            Ok(Value::Object(map)) => sorted(&Value::Object(map)),
            Ok(_) => {
                // Only a guest that is not ours any more sends something else; the prelude refuses it.
                checked = Err(invalid(&address, "the arguments must be one object"));
                Value::Object(serde_json::Map::new())
            }
            Err(error) => {
                let why = format!("the arguments cannot be read: {error}");
                checked = Err(invalid(&address, &why));
                Value::Object(serde_json::Map::new())
            }
        };
        let binding = Binding {
            tool: tool_ref,
            connection,
            contract,
            arguments: Digest::of(canonical(&arguments).as_bytes()),
        };
        let checked = checked.and_then(|()| self.check(&binding, &arguments, &address, secret));
        Some((binding, arguments, address, checked))
    }

    /// The checks that come before the policy: the tool is still there, the arguments carry no secret
    /// and are valid.
    fn check(
        &mut self,
        binding: &Binding,
        arguments: &Value,
        address: &str,
        secret: bool,
    ) -> Result<(), ToolFailure> {
        let facts = Arc::clone(&self.facts);
        let source = self.source(&facts, binding, address)?;
        let Some(tool) = source.tools.get(&binding.tool.raw) else { return Err(gone(address)) };
        if let Some(name) = &binding.connection
            && !source.connections.connections.contains_key(name)
        {
            // It was there when the run began.
            let known: Vec<ConnectionName> =
                source.connections.connections.keys().cloned().collect();
            return Err(unknown_connection(address, name.as_str(), &known));
        }
        if secret {
            let message =
                format!("the arguments of `{address}` contain a value that the hub keeps secret");
            return Err(ToolFailure::new(ErrorCode::SecretInArguments, message));
        }
        let checker = self
            .checkers
            .entry(tool.digest)
            .or_insert_with(|| Arc::new(Checker::compile(tool.contract.input_schema())));
        checker.check(arguments).map_err(|what| invalid(address, &what))
    }

    fn source<'f>(
        &self,
        facts: &'f crate::model::facts::Facts,
        binding: &Binding,
        address: &str,
    ) -> Result<&'f SourceFacts, ToolFailure> {
        let source =
            facts.sources.get(&binding.tool.source).filter(|source| source.record.is_consented());
        source.ok_or_else(|| {
            let message = format!("the source of `{address}` was removed from the hub");
            ToolFailure::new(ErrorCode::SourceRemoved, message)
        })
    }

    /// What the policy says at this moment, and what state that puts the call in.
    fn ruled(&self, seq: Seq, asked: &Binding) -> (State, Ruling) {
        let denied = |because: Because, failure: ToolFailure| {
            (State::Failing(failure), Ruling { effect: Ruled::Deny, because: vec![because] })
        };
        let address = self.address_of(asked);
        let source = match self.source(&self.facts, asked, &address) {
            Ok(source) => source,
            Err(failure) => return denied(Because::Changed, failure),
        };
        let Some(tool) = source.tools.get(&asked.tool.raw) else {
            return denied(Because::Changed, gone(&address));
        };
        let current = Binding { contract: tool.digest, ..asked.clone() };
        let facts = CallFacts {
            seq: Some(seq),
            binding: &current,
            frozen: asked.contract,
            read_only: tool.contract.is_read_only(),
        };
        let ruling = rule(&source.policy, &self.decisions, facts);
        let state = match ruling.effect {
            Ruled::Allow => State::Ready,
            Ruled::Ask => State::NeedsPerson(ruling.because.clone()),
            Ruled::Deny => State::Failing(denial(&address, &ruling)),
        };
        (state, ruling)
    }

    /// Rules again for a call that was checked before: policy, review or tool may differ by now.
    pub(super) fn rule_again(&mut self, seq: Seq) {
        let Some((binding, arguments, address)) = self
            .calls
            .get(&seq)
            .map(|call| (call.binding.clone(), call.arguments.clone(), call.address.clone()))
        else {
            return;
        };
        let state = match self.check(&binding, &arguments, &address, false) {
            Err(failure) => State::Failing(failure),
            Ok(()) => self.ruled(seq, &binding).0,
        };
        if let Some(call) = self.calls.get_mut(&seq) {
            call.state = state;
        }
    }

    /// Starts a ready call: first its source is made ready.
    pub(super) fn dial(&mut self, seq: Seq, out: &mut Vec<Effect>) {
        let Some((source, connection)) = self
            .calls
            .get(&seq)
            .map(|call| (call.binding.tool.source.clone(), call.binding.connection.clone()))
        else {
            return;
        };
        let fresh = self.is_write(seq);
        if let Some(call) = self.calls.get_mut(&seq) {
            call.state = State::Dialling;
        }
        out.push(Effect::Dial { seq, source, connection, fresh });
    }

    /// The source is ready, or not. Nothing has left yet, so the ruling is made anew with what the
    /// source says it offers at this moment; then a write is journaled before it goes.
    pub(super) fn dialled(
        &mut self,
        now: Now,
        seq: Seq,
        ready: Result<u64, ToolFailure>,
        out: &mut Vec<Effect>,
    ) {
        if self.calls.get(&seq).is_none_or(|call| call.state != State::Dialling) {
            return;
        }
        let listing = match ready {
            Ok(listing) => listing,
            Err(failure) => {
                self.set_state(seq, State::Failing(failure));
                return;
            }
        };
        self.rule_again(seq);
        if self.holds_back() || self.calls.get(&seq).is_none_or(|call| call.state != State::Ready) {
            return;
        }
        let write = self.is_write(seq);
        if write {
            self.append(vec![Entry::Sent { seq, wall: now.wall }], true, out);
        }
        let limits = self.record.limits;
        if let Some(call) = self.calls.get_mut(&seq) {
            call.state = State::InFlight { write };
            out.push(Effect::Call(Box::new(Outbound {
                seq,
                tool: call.binding.tool.clone(),
                connection: call.binding.connection.clone(),
                arguments: call.arguments.clone(),
                listing,
                contract: call.binding.contract,
                write,
                timeout_ms: limits.upstream_timeout_ms,
                result_bytes_max: limits.call_result_bytes,
            })));
        }
    }

    /// A call in flight ended. A write's outcome is synced before the guest sees it.
    pub(super) fn settled(&mut self, seq: Seq, reply: Reply, ms: u64, out: &mut Vec<Effect>) {
        let Some(State::InFlight { write }) = self.calls.get(&seq).map(|call| call.state.clone())
        else {
            return;
        };
        let address = self.calls.get(&seq).map(|call| call.address.clone()).unwrap_or_default();
        let outcome = match reply {
            Reply::Outcome(outcome) => placed(outcome, &address),
            Reply::Lost(why) if write => unknown(&address, &why).into(),
            Reply::Lost(why) => {
                let message = format!("`{address}` gave no answer: {why}");
                ToolFailure::new(ErrorCode::UpstreamTimeout, message).retryable().into()
            }
        };
        self.settle(seq, outcome, ms, write, out);
    }

    /// Journals how a call ended and queues it for the guest.
    pub(super) fn settle(
        &mut self,
        seq: Seq,
        outcome: Outcome,
        ms: u64,
        durable: bool,
        out: &mut Vec<Effect>,
    ) {
        let stored = match serde_json::to_string(&outcome) {
            Ok(text) if text.len() > OUTCOME_BYTES_INLINE => {
                let digest = Digest::of(text.as_bytes());
                self.blobs.insert(digest, outcome.clone());
                out.push(Effect::PutBlob { digest, text });
                StoredOutcome::Blob(digest)
            }
            Ok(_) | Err(_) => StoredOutcome::Inline(outcome.clone()),
        };
        let entry = Entry::Settled {
            seq,
            outcome: stored,
            at: self.clock.now(),
            ms,
            cost_us: self.take_cost(),
        };
        self.docket.note(&entry);
        self.append(vec![entry], durable, out);
        self.set_state(seq, State::Settled);
        if !self.guest_gone {
            let delivery = Delivery::Call { seq, answer: self.answer(seq, outcome) };
            self.inbox.push_back((delivery, self.clock.now()));
        }
    }

    /// An outcome in the guest's form.
    pub(super) fn answer(&self, seq: Seq, outcome: Outcome) -> Answer {
        match outcome {
            Outcome::Value(value) => Answer::Json(value.to_string()),
            Outcome::ParsedText(text) => Answer::Text(text),
            Outcome::Failed(failure) => {
                let address =
                    self.calls.get(&seq).map(|call| call.address.clone()).unwrap_or_default();
                let mut members = serde_json::to_value(&failure).unwrap_or(Value::Null);
                if let Some(members) = members.as_object_mut() {
                    members.insert("address".to_owned(), Value::String(address));
                }
                Answer::Error(members.to_string())
            }
        }
    }

    pub(super) fn set_state(&mut self, seq: Seq, state: State) {
        if let Some(call) = self.calls.get_mut(&seq) {
            call.state = state;
        }
    }

    /// Is it anything but a read that a person reviewed as one?
    pub(super) fn is_write(&self, seq: Seq) -> bool {
        self.calls.get(&seq).is_none_or(|call| {
            let tool = &call.binding.tool;
            let source = self.facts.sources.get(&tool.source);
            !source.is_some_and(|source| source.is_reviewed_read(&tool.raw))
        })
    }

    fn address_of(&self, binding: &Binding) -> String {
        address(&self.snapshot, &binding.tool)
    }

    /// A call in few words, for saying how two paths differ.
    fn sketch(&self, binding: &Binding) -> String {
        let connection =
            binding.connection.as_ref().map(|name| format!(" on `{name}`")).unwrap_or_default();
        let (address, arguments) = (self.address_of(binding), binding.arguments.short());
        format!("`{address}`{connection} with arguments {arguments}")
    }
}

fn gone(address: &str) -> ToolFailure {
    ToolFailure::new(ErrorCode::ToolGone, format!("`{address}` is no longer offered by its source"))
}

fn invalid(address: &str, what: &str) -> ToolFailure {
    let hint =
        format!("Correct it and call again; `hub.describe(\"{address}\")` shows the exact types.");
    ToolFailure::new(ErrorCode::InvalidArguments, format!("`{address}`: {what}")).with_hint(hint)
}

fn unknown_connection(address: &str, name: &str, known: &[ConnectionName]) -> ToolFailure {
    let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    let what = if names.is_empty() {
        "it has none".to_owned()
    } else {
        format!("it has {}", names.join(", "))
    };
    let name = one_line(name, 60);
    let message = format!("`{address}` has no connection `{name}`; {what}");
    ToolFailure::new(ErrorCode::UnknownConnection, message)
}

fn denial(address: &str, ruling: &Ruling) -> ToolFailure {
    let by_person =
        matches!(ruling.because.as_slice(), [Because::Decision | Because::DeniedBefore, ..]);
    if by_person {
        return ToolFailure::new(
            ErrorCode::ApprovalDenied,
            format!("the user denied this call of `{address}`"),
        );
    }
    let why: Vec<String> = ruling.because.iter().map(Because::sentence).collect();
    let failure = ToolFailure::new(
        ErrorCode::DeniedByPolicy,
        format!("`{address}` is denied: {}", why.join("; ")),
    );
    match ruling.because.as_slice() {
        [Because::BrokenPolicy { .. }, ..] => failure.with_hint(
            "Ask the user to correct the named file; until then everything of this source is denied.",
        ),
        _ => failure,
    }
}

/// The same outcome; what is wrong with an answer says whose answer it was.
fn placed(outcome: Outcome, address: &str) -> Outcome {
    let Outcome::Failed(mut failure) = outcome else { return outcome };
    if failure.code == ErrorCode::UpstreamError {
        // The message is the upstream's own; where it came from stands beside it.
        let hint = failure.hint.take().unwrap_or_default();
        failure.hint = Some(format!("`{address}` answered this. {hint}"));
    } else if matches!(failure.code, ErrorCode::ResultTooLarge | ErrorCode::ApprovalSurface) {
        failure.message = format!("`{address}`: {}", failure.message);
    }
    Outcome::Failed(failure)
}

pub(super) fn unknown(address: &str, why: &str) -> ToolFailure {
    let message = format!("`{address}` may or may not have happened: {why}");
    ToolFailure::new(ErrorCode::OutcomeUnknown, message)
}
