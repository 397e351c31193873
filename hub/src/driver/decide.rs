//! The one place where a person's answer becomes a decision: `answered`.
#![expect(
    clippy::disallowed_methods,
    reason = "the one place that hears answers and makes decisions"
)]

use super::hub::{Hub, HubError, LOCK_WAIT};
use crate::core::approvals::{Answer, Decision, Docket, NotDecided};
use crate::core::runs::status;
use crate::model::ids::RunId;
use crate::model::journal::Question;
use crate::model::policy::{Choice, ConnectionScope, Effect, Pin, Rule, Scope};
use crate::model::time::WallMs;
use crate::ports::Ports;
use crate::ports::clock::Clock as _;
use crate::ports::person::Person as _;
use crate::ports::store::{LockName, Store as _};

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

/// Why nothing was decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// The hub failed.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The answer changes nothing.
    #[error(transparent)]
    NotDecided(#[from] NotDecided),
}

impl From<crate::ports::store::StoreError> for DecideError {
    fn from(error: crate::ports::store::StoreError) -> Self {
        DecideError::Hub(error.into())
    }
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
    /// answers come.
    ///
    /// # Errors
    /// The store failed. What was recorded before stands.
    pub async fn put_to_person(&self, run: &RunId) -> Result<Decided, HubError> {
        let record = self.ports().store().run(run).await?;
        let questions = self.undecided(run).await?;
        if questions.is_empty() {
            return Ok(Decided::NothingWaits);
        }
        let person = self.ports().person();
        person.publish(&record, &questions).await;
        while let Some(answer) = person.next_answer(run).await {
            let outcome = match self.answered(run, &answer).await {
                Ok(()) => Ok(()),
                Err(DecideError::NotDecided(why)) => Err(why.to_string()),
                Err(DecideError::Hub(error)) => return Err(error),
            };
            person.tell(run, outcome).await;
            if self.undecided(run).await?.is_empty() {
                person.withdraw(run).await;
                return Ok(Decided::All);
            }
        }
        Ok(Decided::Some)
    }

    /// Records one answer of the person, as the `Person` port delivered it.
    async fn answered(&self, run: &RunId, answer: &Answer) -> Result<(), DecideError> {
        let store = self.ports().store();
        let _lock = store.lock(LockName::Run(run.clone()), LOCK_WAIT).await?;
        let entries = store.journal(run).await?;
        if status(&entries).is_final() {
            return Err(NotDecided::NotPending.into());
        }
        let now = self.ports().clock().wall();
        let believed = self.believed_wall().await;
        let decision = Docket::of(&entries).decide(answer, now, believed)?;
        store.append(run, entries.len() as u64, &[decision.entry()], true).await?;
        if decision.choice() == Choice::Always
            && let Err(error) = self.write_rule(&decision, now).await
        {
            // The call is allowed all the same; only the rule is missing.
            tracing::warn!(%error, "the call is allowed, but the rule was not written: it will ask again");
        }
        Ok(())
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
