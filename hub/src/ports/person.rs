//! The person, on whatever channel reaches them. Asking is not waiting: answers come back one by one.

use crate::core::approvals::Answer;
use crate::model::ids::RunId;
use crate::model::journal::Question;
use crate::model::run::RunRecord;
use std::future::Future;

/// One way, or several, of reaching the person.
pub trait Person: Send + Sync + 'static {
    /// Puts questions of one run to the person. Returning means handed over: not seen, not answered.
    fn publish(&self, run: &RunRecord, questions: &[Question]) -> impl Future<Output = ()> + Send;

    /// The next answer about one run, in the order they arrive; `None` when no more will come. Answers
    /// may repeat, be late, or fit no question.
    fn next_answer(&self, run: &RunId) -> impl Future<Output = Option<Answer>> + Send;

    /// Tells the person what became of their answer.
    fn tell(&self, run: &RunId, outcome: Result<(), String>) -> impl Future<Output = ()> + Send;

    /// Takes every question of a run back. Best effort; a late answer is still possible.
    fn withdraw(&self, run: &RunId) -> impl Future<Output = ()> + Send;
}
