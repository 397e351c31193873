//! A process that no person sits at: questions wait in the store for `capabilities hub approve`.

use crate::core::approvals::Answer;
use crate::model::ids::RunId;
use crate::model::journal::Question;
use crate::model::run::RunRecord;
use crate::ports::person::Person;

/// Reaches nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Person for Nobody {
    async fn publish(&self, _run: &RunRecord, _questions: &[Question]) {}

    async fn next_answer(&self, _run: &RunId) -> Option<Answer> {
        None
    }

    async fn tell(&self, _run: &RunId, _outcome: Result<(), String>) {}

    async fn withdraw(&self, _run: &RunId) {}
}
