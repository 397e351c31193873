//! The one place where a person's answer becomes a decision: `answered`.
#![expect(
    clippy::disallowed_methods,
    reason = "the one place that hears answers and makes decisions"
)]

use super::hub::{Hub, HubError, LOCK_WAIT};
use super::runs::LOOK_EVERY;
use crate::core::approvals::{Answer, Decision, Docket};
use crate::core::runs::status;
use crate::model::answer::{NotDecided, RefusedAnswer};
use crate::model::ids::RunId;
use crate::model::journal::{Entry, Question};
use crate::model::policy::{Channel, Choice, ConnectionScope, Effect, Pin, Rule, Scope};
use crate::model::time::WallMs;
use crate::ports::Ports;
use crate::ports::clock::Clock as _;
use crate::ports::person::{Client, ClientResponse, Forged, Incoming, Person as _};
use crate::ports::store::{LockName, Store as _, StoreError};
use std::time::Duration;

/// What became of a person's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// Nothing of the run waits any more; it can go on.
    All,
    /// Questions are left.
    Some,
    /// Nothing waited in the first place.
    NothingWaits,
}

/// What became of a client's response.
pub(super) struct Heard {
    /// The run it is about.
    pub(super) run: RunId,
    /// Did all of it count?
    pub(super) whole: bool,
    /// Did the person put the question off?
    pub(super) put_off: bool,
}

impl<P: Ports> Hub<P> {
    /// The questions of a run that nobody has decided.
    ///
    /// # Errors
    /// There is no such run, or its journal cannot be read.
    pub async fn undecided(&self, run: &RunId) -> Result<Vec<Question>, HubError> {
        let entries = self.ports().store().journal(run).await?;
        if status(&entries).is_final() {
            return Ok(Vec::new());
        }
        Ok(Docket::of(&entries).undecided().cloned().collect())
    }

    /// Puts a run's open questions to the person and records each answer, until none is left or no more
    /// answers come. What is decided elsewhere meanwhile is withdrawn.
    ///
    /// # Errors
    /// The store failed. What was recorded before stands.
    pub async fn put_to_person(&self, run: &RunId) -> Result<Decided, HubError> {
        let record = self.ports().store().run(run).await?;
        let mut waiting = self.waiting(record).await?;
        if waiting.questions.is_empty() {
            return Ok(Decided::NothingWaits);
        }
        let person = self.ports().person();
        person.publish(&waiting).await;
        loop {
            let mut answer = std::pin::pin!(person.next_answer(run));
            let answer = loop {
                let clock = self.ports().clock();
                tokio::select! {
                    biased;
                    answer = &mut answer => break answer,
                    () = clock.sleep_until(clock.tick().after(LOOK_EVERY)) => {}
                }
                let now = self.waiting(waiting.record.clone()).await?;
                if now.questions != waiting.questions {
                    waiting = now;
                    person.publish(&waiting).await;
                }
            };
            let Some(answer) = answer else { break };
            self.take_in(run, &answer).await?;
            waiting = self.waiting(waiting.record.clone()).await?;
            if waiting.questions.is_empty() {
                person.withdraw(run, None).await;
                return Ok(Decided::All);
            }
        }
        let left = self.undecided(run).await?;
        Ok(if left.is_empty() { Decided::All } else { Decided::Some })
    }

    /// What arrives next about a run that this process shows to its person; `None` when no more will come.
    /// Dropped before it completes, it has taken nothing.
    pub(super) async fn next_incoming(&self, run: &RunId) -> Option<Incoming> {
        self.ports().person().next_answer(run).await
    }

    /// Hears what arrived. Not to be dropped half-way: it is taken already.
    pub(super) async fn hear_incoming(&self, run: &RunId, incoming: &Incoming) {
        if let Err(error) = self.take_in(run, incoming).await {
            tracing::warn!(%error, %run, "an answer could not be recorded; the question stays open");
        }
    }

    /// Reads a client's response and records what in it is a person's answer.
    ///
    /// # Errors
    /// The response is not one to a question of this hub; or the store failed.
    pub(super) async fn hear_client(
        &self,
        response: &ClientResponse,
        client: &Client,
    ) -> Result<Result<Heard, Forged>, HubError> {
        let mut read = match self.ports().person().read_response(response, client).await {
            Ok(read) => read,
            Err(forged) => {
                tracing::warn!(run = ?forged.run, "a client's answer is forged, or not for this request");
                if let Some(run) = &forged.run {
                    self.note_forged(run, Channel::Client).await;
                }
                return Ok(Err(forged));
            }
        };
        let store = self.ports().store();
        let may_prompt = store.settings().await?.client_prompts;
        let mut whole = read.unreadable.is_empty();
        for refused in &read.unreadable {
            store.refuse(&read.run, refused).await?;
        }
        for answer in &mut read.answers {
            if let Some(slip) = &mut answer.slip {
                slip.heard &= may_prompt;
            }
            whole &= self.hear(&read.run, answer).await?;
        }
        Ok(Ok(Heard { run: read.run, whole, put_off: read.put_off }))
    }

    /// Keeps that somebody tried to forge an answer about a run. What is not a run is not noted.
    pub(super) async fn note_forged(&self, run: &RunId, channel: Channel) {
        let store = self.ports().store();
        let wall = self.ports().clock().wall();
        let (seq, choice, why, nonce) = (None, None, NotDecided::Forged, None);
        if store.run(run).await.is_ok() {
            let refused = RefusedAnswer { seq, choice, channel, why, wall, nonce };
            if let Err(error) = store.refuse(run, &refused).await {
                tracing::warn!(%error, %run, "a forged answer could not be noted");
            }
        }
    }

    async fn take_in(&self, run: &RunId, incoming: &Incoming) -> Result<(), HubError> {
        match incoming {
            Incoming::Answer(answer) => self.hear(run, answer).await.map(|_| ()),
            Incoming::Refused(refused) => Ok(self.ports().store().refuse(run, refused).await?),
        }
    }

    /// Records one answer, or that it decided nothing, and tells the person which; did it count?
    async fn hear(&self, run: &RunId, answer: &Answer) -> Result<bool, HubError> {
        let outcome = self.answered(run, answer).await?;
        if let Err(why) = outcome {
            tracing::info!(%run, seq = %answer.seq, %why, "an answer decided nothing");
        }
        self.ports().person().tell(run, answer, outcome).await;
        Ok(outcome.is_ok())
    }

    /// Records one answer of the person, as the `Person` port delivered it.
    async fn answered(
        &self,
        run: &RunId,
        answer: &Answer,
    ) -> Result<Result<(), NotDecided>, HubError> {
        let store = self.ports().store();
        let name = LockName::Run(run.clone());
        let _lock = match store.lock(name.clone(), Duration::ZERO).await {
            Ok(lock) => lock,
            Err(StoreError::Busy(_)) => {
                // Whoever drives the run holds its lock for long; what it has taken up is decided.
                let entries = store.journal(run).await?;
                let open = Docket::of(&entries).undecided().any(|open| open.seq == answer.seq);
                if !open {
                    return self.refuse(run, answer, NotDecided::AlreadyDecided).await;
                }
                store.lock(name, LOCK_WAIT).await?
            }
            Err(error) => return Err(error.into()),
        };
        let entries = store.journal(run).await?;
        if let Some(Entry::Ended { .. }) = entries.last() {
            return self.refuse(run, answer, NotDecided::NotPending).await;
        }
        let now = self.ports().clock().wall();
        let believed = self.believed_wall().await;
        let docket = Docket::of(&entries).with_refused(&store.refused(run).await?);
        let decision = match docket.decide(answer, now, believed) {
            Ok(decision) => decision,
            Err(why) => return self.refuse(run, answer, why).await,
        };
        store.append(run, entries.len() as u64, &[decision.entry()], true).await?;
        if decision.choice() == Choice::Always
            && let Err(error) = self.write_rule(&decision, now).await
        {
            // The call is allowed all the same; only the rule is missing.
            tracing::warn!(%error, "the call is allowed, but the rule was not written: it will ask again");
        }
        Ok(Ok(()))
    }

    async fn refuse(
        &self,
        run: &RunId,
        answer: &Answer,
        why: NotDecided,
    ) -> Result<Result<(), NotDecided>, HubError> {
        let refused = answer.refused(why, self.ports().clock().wall());
        self.ports().store().refuse(run, &refused).await?;
        Ok(Err(why))
    }

    /// "Always": a rule for tool and connection, pinned to the contract, and the review it implies. The
    /// decision is recorded first; if this fails the tool simply asks again.
    async fn write_rule(&self, decision: &Decision, now: WallMs) -> Result<(), HubError> {
        let binding = decision.binding();
        let source = &binding.tool.source;
        let facts = self.facts().await?;
        let tool = facts.sources.get(source).and_then(|source| source.tools.get(&binding.tool.raw));
        let Some(tool) = tool.filter(|tool| tool.digest == binding.contract) else { return Ok(()) };
        let contract = tool.contract.canonical();
        self.change_policy(source, &[(binding.contract, contract)], |policy| {
            let scope = Scope {
                tool: Some(binding.tool.raw.clone()),
                connection: ConnectionScope::of(binding.connection.as_ref()),
            };
            policy.rules.retain(|rule| rule.scope != scope || rule.effect == Effect::Deny);
            policy.rules.push(Rule {
                scope,
                effect: Effect::Allow,
                contract: Some(binding.contract),
            });
            let pin = Pin { contract: binding.contract, reviewed: now };
            policy.pins.insert(binding.tool.raw.clone(), pin);
        })
        .await
    }
}
