//! Requests of clients: code, a resume, or what a client's own prompt was answered with.

use super::attempt::StopSignal;
use super::hub::{Hub, HubError};
use super::runs::Code;
use super::waiting::Reach;
use crate::model::envelope::{Envelope, EnvelopeStatus};
use crate::model::error::{ErrorCode, Failure};
use crate::model::ids::RunId;
use crate::ports::Ports;
use crate::ports::person::{Client, ClientResponse, Person as _, Prompt};
use crate::ports::store::Store as _;

/// What a client wants of `execute`.
#[derive(Debug, Clone)]
pub enum Request {
    /// Run this.
    Code(Code),
    /// Go on with this run.
    Resume(RunId),
    /// Take what the client's prompt was answered with, and go on. Never begins a run.
    Answer(ClientResponse),
}

/// What a client gets.
#[derive(Debug, Clone)]
pub enum Reply {
    /// How the run stands.
    Envelope(Box<Envelope>),
    /// Questions that the client is to put to its person.
    Prompt(Prompt),
}

impl<P: Ports> Hub<P> {
    /// Answers a client. `shows_forms` says that it can put a form to its person.
    ///
    /// # Errors
    /// Nothing ran: the code cannot, there is no such run, an answer is not to a question of this hub,
    /// or the store failed.
    pub async fn answer(
        &self,
        request: Request,
        client: &Client,
        shows_forms: bool,
        stop: StopSignal,
    ) -> Result<Reply, Failure> {
        let settings = self.ports().store().settings().await;
        let settings = settings.map_err(|error| Failure::from(&error))?;
        let prompts = shows_forms && settings.client_prompts;
        let reach = if prompts { Reach::Client } else { Reach::Page };
        match request {
            Request::Code(code) => {
                let envelope = self.execute_for(code, reach, stop).await?;
                self.or_prompt(envelope, client, reach).await
            }
            Request::Resume(run) => {
                let envelope = self.resume_for(&run, reach, stop).await?;
                self.or_prompt(envelope, client, reach).await
            }
            Request::Answer(response) => {
                let heard = self.hear_client(&response, client).await;
                let heard = heard.map_err(|error| failed(&error))?.map_err(|_| forged())?;
                // Whoever put it off, or answered what did not count, is not asked the same way again.
                let reach = if heard.whole && !heard.put_off { reach } else { Reach::Page };
                let envelope = self.resume_for(&heard.run, reach, stop).await?;
                self.or_prompt(envelope, client, reach).await
            }
        }
    }

    /// The envelope, or instead of one that waits the questions as the client's own prompt.
    async fn or_prompt(
        &self,
        envelope: Envelope,
        client: &Client,
        reach: Reach,
    ) -> Result<Reply, Failure> {
        if envelope.status != EnvelopeStatus::AwaitingApproval || reach != Reach::Client {
            return Ok(Reply::Envelope(Box::new(envelope)));
        }
        let store_failed = |error: crate::ports::store::StoreError| Failure::from(&error);
        let run = &envelope.run_id;
        let record = self.ports().store().run(run).await.map_err(store_failed)?;
        let waiting = self.waiting(record.clone()).await.map_err(store_failed)?;
        if let Some(prompt) = self.ports().person().prompt(&waiting, client).await {
            return Ok(Reply::Prompt(prompt));
        }
        let envelope = self.still_waiting(record, Reach::Page).await.map_err(store_failed)?;
        Ok(Reply::Envelope(Box::new(envelope)))
    }
}

fn failed(error: &HubError) -> Failure {
    match error {
        HubError::Store(error) => Failure::from(error),
        HubError::Secrets(error) => super::connections::secret_failure(error),
        HubError::Settings(_)
        | HubError::NoSource(_)
        | HubError::NamespaceTaken(_)
        | HubError::NotConsented(_)
        | HubError::Unauthorized { .. }
        | HubError::NoConnection { .. }
        | HubError::Unreachable { .. } => Failure::new(ErrorCode::StoreFailed, error.to_string()),
    }
}

/// One text for every way in which a state can be bad: it tells nobody which part to forge better.
fn forged() -> Failure {
    Failure::new(
        ErrorCode::BadApprovalState,
        "the answer does not belong to a question of this hub; nothing was decided and nothing ran",
    )
}
