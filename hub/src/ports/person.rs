//! The person, on whatever channel reaches them. Asking is not waiting: answers come back one by one.

use crate::core::approvals::Answer;
use crate::model::answer::{NotDecided, RefusedAnswer};
use crate::model::digest::Digest;
use crate::model::envelope::{CallLine, Envelope};
use crate::model::ids::RunId;
use crate::model::journal::Question;
use crate::model::policy::Choice;
use crate::model::run::RunRecord;
use serde_json::Value;
use std::collections::BTreeMap;
use std::future::Future;

/// A run that waits, as a person is shown it.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// The run.
    pub record: RunRecord,
    /// What nobody has decided. Empty once everything is decided and the run goes on.
    pub questions: Vec<Question>,
    /// The calls it made already.
    pub calls: Vec<CallLine>,
}

/// Where a person can answer from here on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// On the approval page.
    Page,
    /// Only where they go by themselves: a terminal.
    Nowhere,
}

/// A client that called, as far as its prompts are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Who it is to this hub: the bearer over HTTP, `hub` over its own standard streams. What a client
    /// calls itself does not count.
    pub principal: String,
    /// Digest of the request it sent, which its answer must repeat.
    pub request: Digest,
}

/// Questions in the form of a client's own prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// What the client sends back with the answers; sealed.
    pub state: String,
    /// One form each, by key.
    pub forms: BTreeMap<String, Form>,
}

/// One form: the pending calls of one tool, and the choices there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// What the person reads.
    pub message: String,
    /// What they may choose.
    pub choices: Vec<Choice>,
}

/// What a client sent back, exactly as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientResponse {
    /// The state, or nothing.
    pub state: Option<String>,
    /// Its answers, by the keys of the forms.
    pub responses: BTreeMap<String, Value>,
}

/// What a client's response comes to, once its state is known to be the hub's own.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadResponse {
    /// The run it is about.
    pub run: RunId,
    /// Answers, of which none has decided anything yet.
    pub answers: Vec<Answer>,
    /// Answers in which no choice could be read, as they are to be kept.
    pub unreadable: Vec<RefusedAnswer>,
    /// The person put the question off.
    pub put_off: bool,
}

/// A response whose state is not this hub's, or not for this client and request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forged {
    /// The run it claims to be about.
    pub run: Option<RunId>,
}

/// What arrives from a channel that listens by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// An answer.
    Answer(Answer),
    /// Something in the place of an answer, which decides nothing and is to be kept as that.
    Refused(RefusedAnswer),
}

/// One way, or several, of reaching the person.
pub trait Person: Send + Sync + 'static {
    /// Puts a waiting run before the person, in place of what was shown of it before. Returning means
    /// handed over: not seen, not answered.
    fn publish(&self, waiting: &Waiting) -> impl Future<Output = Reached> + Send;

    /// The next answer about one run, in the order they arrive; `None` when no more will come. Answers
    /// may repeat, be late, or fit no question. Dropped before it completes, it has taken no answer.
    fn next_answer(&self, run: &RunId) -> impl Future<Output = Option<Incoming>> + Send;

    /// Tells the person, and whatever carried the answer, what became of it.
    fn tell(
        &self,
        run: &RunId,
        answer: &Answer,
        outcome: Result<(), NotDecided>,
    ) -> impl Future<Output = ()> + Send;

    /// Takes every question of a run back; with how it ended, if it has. Best effort; a late answer is
    /// still possible.
    fn withdraw(&self, run: &RunId, ended: Option<&Envelope>) -> impl Future<Output = ()> + Send;

    /// The questions of a run as a prompt that `client` may show; `None` if it is not to be asked.
    fn prompt(
        &self,
        waiting: &Waiting,
        client: &Client,
    ) -> impl Future<Output = Option<Prompt>> + Send {
        let _ = (waiting, client);
        std::future::ready(None)
    }

    /// Reads what a client sent back. It decides nothing.
    ///
    /// # Errors
    /// The state is not the hub's own, or was made for somebody or something else.
    fn read_response(
        &self,
        response: &ClientResponse,
        client: &Client,
    ) -> impl Future<Output = Result<ReadResponse, Forged>> + Send {
        let _ = (response, client);
        std::future::ready(Err(Forged { run: None }))
    }
}
