//! A process that no person sits at: questions wait in the store for `capabilities hub approve`.

use crate::core::approvals::Answer;
use crate::model::answer::NotDecided;
use crate::model::envelope::Envelope;
use crate::model::ids::RunId;
use crate::ports::person::{Incoming, Person, Reached, Waiting};

/// Reaches nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Person for Nobody {
    async fn publish(&self, _waiting: &Waiting) -> Reached {
        Reached::Nowhere
    }

    async fn next_answer(&self, _run: &RunId) -> Option<Incoming> {
        None
    }

    async fn tell(&self, _run: &RunId, _answer: &Answer, _outcome: Result<(), NotDecided>) {}

    async fn withdraw(&self, _run: &RunId, _ended: Option<&Envelope>) {}
}
