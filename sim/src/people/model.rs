//! A model that remembers every id, state and address the hub ever gave out, and tries them.

use super::World;
use super::channels::HOST;
use hub::adapters::person::{Method, Request as PageRequest};
use hub::driver::{Code, Request, StopSignal};
use hub::model::digest::Digest;
use hub::ports::person::{Client, ClientResponse};
use serde_json::json;

/// What leaked.
#[derive(Debug, Default)]
pub(super) struct Leaked {
    pub(super) states: Vec<(String, Vec<String>)>,
    pub(super) addresses: Vec<String>,
    pub(super) runs: Vec<String>,
}

/// A page request as nobody's browser would send it.
pub(super) fn page_request(method: Method, target: &str) -> PageRequest {
    PageRequest {
        method,
        target: target.to_owned(),
        host: Some(HOST.to_owned()),
        origin: None,
        cookies: Vec::new(),
        fetch_site: None,
        purpose: None,
        content_type: Some("application/x-www-form-urlencoded".to_owned()),
        body: Vec::new(),
    }
}

impl World {
    /// One try of the model.
    pub(super) async fn try_something(&mut self) {
        let at = usize::try_from(self.draw.below(2)).expect("small");
        match self.draw.below(3) {
            0 => self.try_the_page(at),
            _ => self.try_a_state(at).await,
        }
    }

    fn try_the_page(&mut self, at: usize) {
        let channels = self.served[at].1.clone();
        let (Some(address), Some(run)) =
            (self.leaked.addresses.last().cloned(), self.leaked.runs.last().cloned())
        else {
            return;
        };
        let target = address.trim_start_matches("http://").trim_start_matches(HOST).to_owned();
        let base = target.split("open?").next().unwrap_or("/").to_owned();
        // Using an address up that the person has not used would only close the page; it does, rarely.
        if self.draw.percent(5) {
            channels.ask(&page_request(Method::Get, &target));
        }
        channels.ask(&page_request(Method::Get, &base));
        let mut post = page_request(Method::Post, &format!("{base}decide"));
        post.origin = self
            .draw
            .pick(&[None, Some("null"), Some("http://127.0.0.1:4000"), Some("http://evil.test")])
            .map(str::to_owned);
        post.cookies = vec!["capabilities=guess".to_owned()];
        let shown = Digest::of(run.as_bytes());
        post.body = format!("csrf=guess&run={run}&shown={shown}&choice=always").into_bytes();
        channels.ask(&post);
    }

    async fn try_a_state(&mut self, at: usize) {
        if self.leaked.states.is_empty() {
            return;
        }
        let (state, keys) = self.draw.pick(&self.leaked.states).clone();
        let state = match self.draw.below(3) {
            0 => state,
            1 => {
                let mut bytes = state.into_bytes();
                let place = usize::try_from(self.draw.below(bytes.len() as u64)).expect("small");
                bytes[place] = if bytes[place] == b'x' { b'y' } else { b'x' };
                String::from_utf8_lossy(&bytes).into_owned()
            }
            _ => state.split('.').next().unwrap_or("").to_owned() + ".AAAA",
        };
        let accept = json!({ "action": "accept", "content": { "decision": "always" } });
        let responses = keys.into_iter().map(|key| (key, accept.clone())).collect();
        let response = ClientResponse { state: Some(state), responses };
        // Code of its own, or an argument it made up: never the request that the question answered.
        let client = Client {
            principal: self.draw.pick(&["hub", "somebody"]).to_string(),
            request: Digest::of(b"the model's own request"),
        };
        let hub = self.served[at].0.clone();
        let answered = hub.answer(Request::Answer(response), &client, true, never()).await;
        assert!(answered.is_err(), "a state was good for another request: {answered:?}");
    }
}

pub(super) fn never() -> StopSignal {
    StopSignal::never()
}

pub(super) fn code(text: &str) -> Code {
    Code { text: text.to_owned(), profile: "default".to_owned() }
}
