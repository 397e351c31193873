//! The channels of one simulated process: the hub's own prompts and its own approval page, without a socket
//! and without a browser.

use crate::fakes::{SimClock, SimSecrets};
use crate::seed::{Seed, Stream};
use hub::adapters::person::{ClientPrompts, Desk, Reply, Request};
use hub::core::approvals::Answer;
use hub::model::answer::NotDecided;
use hub::model::digest::Digest;
use hub::model::envelope::Envelope;
use hub::model::ids::{HubId, RunId};
use hub::model::policy::Channel;
use hub::ports::clock::Clock as _;
use hub::ports::person::{
    Client, ClientResponse, Forged, Incoming, Person, Prompt, Reached, ReadResponse, Waiting,
};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// Where every page of this world is served.
pub(super) const HOST: &str = "127.0.0.1:4000";

/// Prompts and a page.
#[derive(Clone)]
pub(super) struct Channels {
    inner: Arc<Inner>,
}

struct Inner {
    hub: HubId,
    clock: SimClock,
    prompts: ClientPrompts<SimSecrets>,
    desk: Mutex<Desk>,
    random: Mutex<Stream>,
    /// Addresses that the person's browser was given.
    opened: Mutex<Vec<String>>,
    changes: watch::Sender<u64>,
}

impl Channels {
    pub(super) fn new(clock: SimClock, seed: Seed, process: u32, hub: HubId) -> Channels {
        let mut random = seed.stream(&format!("channels {process}"));
        let segment = word(&mut random);
        let inner = Inner {
            hub,
            clock,
            prompts: ClientPrompts::new(Arc::new(SimSecrets::default())),
            desk: Mutex::new(Desk::new(HOST.to_owned(), &segment, "mark".to_owned())),
            random: Mutex::new(random),
            opened: Mutex::default(),
            changes: watch::Sender::new(0),
        };
        Channels { inner: Arc::new(inner) }
    }

    /// Every address so far.
    pub(super) fn opened(&self) -> Vec<String> {
        self.inner.opened.lock().expect("not poisoned").clone()
    }

    /// One request to the page.
    pub(super) fn ask(&self, request: &Request) -> Reply {
        let now = self.inner.clock.now();
        let random = || word(&mut self.inner.random.lock().expect("not poisoned"));
        let reply = self.desk(|desk| desk.handle(request, now, random));
        self.changed();
        reply
    }

    fn desk<T>(&self, with: impl FnOnce(&mut Desk) -> T) -> T {
        with(&mut self.inner.desk.lock().expect("not poisoned"))
    }

    fn changed(&self) {
        self.inner.changes.send_modify(|count| *count += 1);
    }
}

fn word(random: &mut Stream) -> String {
    let mut bytes = [0; 16];
    random.fill(&mut bytes);
    Digest::of(&bytes).to_string().chars().take(24).collect()
}

impl Person for Channels {
    async fn publish(&self, waiting: &Waiting) -> Reached {
        let now = self.inner.clock.tick();
        if self.desk(|desk| desk.show(waiting, now)) {
            let token = word(&mut self.inner.random.lock().expect("not poisoned"));
            let address = self.desk(|desk| desk.offer(token, now));
            self.inner.opened.lock().expect("not poisoned").push(address);
        }
        self.changed();
        if self.desk(|desk| desk.is_closed()) { Reached::Nowhere } else { Reached::Page }
    }

    async fn next_answer(&self, run: &RunId) -> Option<Incoming> {
        let mut changes = self.inner.changes.subscribe();
        loop {
            changes.borrow_and_update();
            if let Some(incoming) = self.desk(|desk| desk.take(run)) {
                return Some(incoming);
            }
            changes.changed().await.ok()?;
        }
    }

    async fn tell(&self, run: &RunId, answer: &Answer, outcome: Result<(), NotDecided>) {
        if answer.channel == Channel::Page {
            self.desk(|desk| desk.note(run, answer, outcome));
            self.changed();
        }
    }

    async fn withdraw(&self, run: &RunId, ended: Option<&Envelope>) {
        self.desk(|desk| desk.end(run, ended));
        self.changed();
    }

    async fn prompt(&self, waiting: &Waiting, client: &Client) -> Option<Prompt> {
        let inner = &self.inner;
        let random = || {
            let mut bytes = [0; 32];
            inner.random.lock().expect("not poisoned").fill(&mut bytes);
            Digest::of(&bytes)
        };
        inner.prompts.prompt(waiting, client, &inner.hub, inner.clock.wall(), random)
    }

    async fn read_response(
        &self,
        response: &ClientResponse,
        client: &Client,
    ) -> Result<ReadResponse, Forged> {
        let inner = &self.inner;
        inner.prompts.read(response, client, &inner.hub, inner.clock.wall())
    }
}
