//! The person of a client that is served: asked by the client itself where it can, else on a page that the
//! hub opens.

use super::page::{Browser, Page};
use super::prompt::ClientPrompts;
use crate::core::approvals::Answer;
use crate::model::answer::NotDecided;
use crate::model::digest::Digest;
use crate::model::envelope::Envelope;
use crate::model::ids::{HubId, RunId};
use crate::model::policy::Channel;
use crate::ports::clock::Clock;
use crate::ports::entropy::Entropy;
use crate::ports::person::{
    Client, ClientResponse, Forged, Incoming, Person, Prompt, Reached, ReadResponse, Waiting,
};
use crate::ports::secrets::Secrets;
use std::sync::Arc;
use std::time::Duration;

/// How long a signature may take: a keychain may wait for its owner.
const SIGNS_WITHIN: Duration = Duration::from_secs(5);

/// Client prompts and the approval page of one process.
pub struct ServedPerson<S, C, E> {
    hub: HubId,
    clock: C,
    entropy: E,
    prompts: Arc<ClientPrompts<S>>,
    page: Page<S, C, E>,
}

impl<S: Secrets, C: Clock + Clone, E: Entropy + Clone> ServedPerson<S, C, E> {
    /// The person of a hub, whose pages carry `mark`. Without a browser there is no page.
    #[must_use]
    pub fn new(
        hub: HubId,
        mark: String,
        secrets: &Arc<S>,
        clock: C,
        entropy: E,
        browser: Option<Browser>,
    ) -> Self {
        let prompts = Arc::new(ClientPrompts::new(Arc::clone(secrets)));
        let page = Page::new(Arc::clone(secrets), clock.clone(), entropy.clone(), browser, mark);
        ServedPerson { hub, clock, entropy, prompts, page }
    }

    /// What blocks, and is given up when it takes too long.
    async fn in_time<T: Send + 'static>(
        &self,
        what: impl FnOnce() -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let until = self.clock.tick().after(SIGNS_WITHIN);
        tokio::select! {
            biased;
            done = tokio::task::spawn_blocking(what) => done.ok().flatten(),
            () = self.clock.sleep_until(until) => {
                tracing::warn!("the keychain does not answer");
                None
            }
        }
    }
}

impl<S, C, E> Person for ServedPerson<S, C, E>
where
    S: Secrets,
    C: Clock + Clone,
    E: Entropy + Clone,
{
    async fn publish(&self, waiting: &Waiting) -> Reached {
        self.page.show(waiting).await
    }

    async fn next_answer(&self, run: &RunId) -> Option<Incoming> {
        Some(self.page.next(run).await)
    }

    async fn tell(&self, run: &RunId, answer: &Answer, outcome: Result<(), NotDecided>) {
        match answer.channel {
            Channel::Page => self.page.change(|desk| desk.note(run, answer, outcome)),
            Channel::Client | Channel::Terminal => {}
        }
    }

    async fn withdraw(&self, run: &RunId, ended: Option<&Envelope>) {
        self.page.change(|desk| desk.end(run, ended));
    }

    async fn prompt(&self, waiting: &Waiting, client: &Client) -> Option<Prompt> {
        let (prompts, hub) = (Arc::clone(&self.prompts), self.hub.clone());
        let (waiting, client) = (waiting.clone(), client.clone());
        let (now, entropy) = (self.clock.wall(), self.entropy.clone());
        self.in_time(move || {
            let random = || {
                let mut bytes = [0; 32];
                entropy.fill(&mut bytes);
                Digest::of(&bytes)
            };
            prompts.prompt(&waiting, &client, &hub, now, random)
        })
        .await
    }

    async fn read_response(
        &self,
        response: &ClientResponse,
        client: &Client,
    ) -> Result<ReadResponse, Forged> {
        let (prompts, hub) = (Arc::clone(&self.prompts), self.hub.clone());
        let (response, client) = (response.clone(), client.clone());
        let now = self.clock.wall();
        let read = self.in_time(move || Some(prompts.read(&response, &client, &hub, now)));
        read.await.unwrap_or(Err(Forged { run: None }))
    }
}
