//! A person who answers as planned.

use super::history::{History, Seen};
use hub::core::approvals::Answer;
use hub::model::answer::NotDecided;
use hub::model::envelope::Envelope;
use hub::model::ids::RunId;
use hub::model::journal::Question;
use hub::model::policy::{Channel, Choice};
use hub::ports::person::{Incoming, Person, Reached, Waiting};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Answers the questions of a run in order; what, is planned.
#[derive(Debug, Clone)]
pub struct SimPerson {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    history: History,
    waiting: Mutex<VecDeque<(RunId, Question)>>,
    /// Choices, used up in turn and then begun anew.
    plan: Vec<Choice>,
    given: Mutex<usize>,
    told: Mutex<Vec<Result<(), NotDecided>>>,
}

impl SimPerson {
    /// A person who goes through `plan` again and again; an empty plan never answers.
    #[must_use]
    pub fn new(history: History, plan: Vec<Choice>) -> SimPerson {
        SimPerson {
            inner: Arc::new(Inner {
                history,
                waiting: Mutex::default(),
                plan,
                given: Mutex::default(),
                told: Mutex::default(),
            }),
        }
    }

    /// What the person was told of their answers.
    ///
    /// # Panics
    /// A thread panicked while it told.
    #[must_use]
    pub fn told(&self) -> Vec<Result<(), NotDecided>> {
        self.inner.told.lock().expect("not poisoned").clone()
    }
}

impl Person for SimPerson {
    async fn publish(&self, shown: &Waiting) -> Reached {
        let run = &shown.record.id;
        let mut waiting = self.inner.waiting.lock().expect("not poisoned");
        waiting.retain(|(known, _)| known != run);
        for question in &shown.questions {
            self.inner.history.see(Seen::Published { run: run.clone(), seq: question.seq.0 });
            waiting.push_back((run.clone(), question.clone()));
        }
        Reached::Nowhere
    }

    async fn next_answer(&self, run: &RunId) -> Option<Incoming> {
        let question = {
            let mut waiting = self.inner.waiting.lock().expect("not poisoned");
            let at = waiting.iter().position(|(known, _)| known == run)?;
            waiting.remove(at)?.1
        };
        if self.inner.plan.is_empty() {
            return None;
        }
        let choice = {
            let mut given = self.inner.given.lock().expect("not poisoned");
            let choice = self.inner.plan[*given % self.inner.plan.len()];
            *given += 1;
            choice
        };
        let (run, seq) = (run.clone(), question.seq.0);
        self.inner.history.see(Seen::Answered { run, seq, choice, wall: None });
        Some(Incoming::Answer(Answer {
            seq: question.seq,
            binding: question.binding,
            choice,
            channel: Channel::Terminal,
            slip: None,
        }))
    }

    async fn tell(&self, _run: &RunId, _answer: &Answer, outcome: Result<(), NotDecided>) {
        self.inner.told.lock().expect("not poisoned").push(outcome);
    }

    async fn withdraw(&self, run: &RunId, _ended: Option<&Envelope>) {
        self.inner.waiting.lock().expect("not poisoned").retain(|(known, _)| known != run);
    }
}
