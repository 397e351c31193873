//! What the approval page answers to each request: who is let in, what they see, what their answer says.
//! Holds no socket and reads no clock.

use super::form::Form;
use super::html;
use crate::adapters::person::words;
use crate::core::approvals::Answer;
use crate::model::answer::{NotDecided, RefusedAnswer};
use crate::model::digest::Digest;
use crate::model::envelope::Envelope;
use crate::model::ids::RunId;
use crate::model::journal::Question;
use crate::model::policy::{Channel, Choice};
use crate::model::time::{Now, Tick};
use crate::ports::person::{Incoming, Waiting};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How long an address that was opened may be used, once.
const TOKEN_GOOD_FOR: Duration = Duration::from_secs(60);
/// How long what was drawn takes no answer: a key that was meant for something else decides nothing.
const DEAD_FOR: Duration = Duration::from_millis(700);
/// A page that shows no sign of life for so long is taken for closed.
const QUIET_FOR: Duration = Duration::from_secs(5 * 60);
/// How soon a page that reloads is back.
const RELOADS_WITHIN: Duration = Duration::from_secs(3);
/// How often a page is opened anew for what was shown before.
const REOPENS_AFTER: Duration = Duration::from_secs(60);
/// Runs that are shown at most; the oldest that are over go first.
const RUNS_MAX: usize = 50;
/// Notes about a run that are shown.
const NOTES_MAX: usize = 30;
/// Answers that wait to be heard.
const ANSWERS_MAX: usize = 1_000;
/// The cookie's name.
const COOKIE: &str = "capabilities";
const SHEET: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// What the page may do: its own style, script, forms and events, and nothing from anywhere else.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'";

/// The methods there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `GET`.
    Get,
    /// `POST`.
    Post,
    /// Any other.
    Other,
}

/// One request, as far as the page cares.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its method.
    pub method: Method,
    /// Path and query.
    pub target: String,
    /// `Host`.
    pub host: Option<String>,
    /// `Origin`.
    pub origin: Option<String>,
    /// `Cookie`, every one of them.
    pub cookies: Vec<String>,
    /// `Sec-Fetch-Site`.
    pub fetch_site: Option<String>,
    /// `Sec-Purpose` or `Purpose`.
    pub purpose: Option<String>,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Its headers.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: String,
    /// The body goes on: one event for each change of what is shown.
    pub events: bool,
    /// An answer was taken; the reply is better sent once it was heard.
    pub answered: Option<(RunId, Digest)>,
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    /// It waits, or goes on if nothing of it does.
    Waits,
    /// It is over.
    Ended(Box<Envelope>),
    /// This process no longer answers for it.
    Gone,
}

/// One run on the page.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) waiting: Waiting,
    pub(super) stage: Stage,
    /// What became of the answers given here, in order.
    pub(super) notes: Vec<String>,
}

#[derive(Debug)]
struct Offer {
    token: String,
    until: Tick,
    redeemed: bool,
}

#[derive(Debug)]
struct Session {
    cookie: String,
    csrf: String,
    /// Its last request.
    seen: Tick,
    /// When its last event stream ended: a tab with scripts tells so that it closed.
    left: Option<Tick>,
}

/// Everything the page knows.
#[derive(Debug)]
pub struct Desk {
    host: String,
    /// `/<random>/`.
    path: String,
    mark: String,
    offers: Vec<Offer>,
    session: Option<Session>,
    /// Somebody used an address twice: the page is closed for good.
    closed: bool,
    runs: Vec<Shown>,
    /// When each form that was drawn was last drawn.
    drawn: BTreeMap<Digest, Tick>,
    /// Questions a page was opened for.
    opened_for: Vec<(RunId, Question)>,
    opened: Option<Tick>,
    /// Event streams that are open.
    streams: usize,
    incoming: BTreeMap<RunId, VecDeque<Incoming>>,
    /// Counts changes of what is drawn.
    version: u64,
}

impl Desk {
    /// A page at `host`, which is address and port, below a random `path` of one segment. `mark` stands on
    /// every page of this hub.
    #[must_use]
    pub fn new(host: String, segment: &str, mark: String) -> Desk {
        Desk {
            host,
            path: format!("/{segment}/"),
            mark,
            offers: Vec::new(),
            session: None,
            closed: false,
            runs: Vec::new(),
            drawn: BTreeMap::new(),
            opened_for: Vec::new(),
            opened: None,
            streams: 0,
            incoming: BTreeMap::new(),
            version: 0,
        }
    }

    /// Which state of things is drawn: a page that was drawn under another is old.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    fn origin(&self) -> String {
        format!("http://{}", self.host)
    }

    /// Shows a run, in place of what was shown of it before; should a page be opened for it?
    pub fn show(&mut self, waiting: &Waiting, now: Tick) -> bool {
        let id = &waiting.record.id;
        let full = self.is_full();
        match self.runs.iter_mut().find(|shown| shown.waiting.record.id == *id) {
            Some(shown) => {
                let same = shown.waiting == *waiting && shown.stage == Stage::Waits;
                self.version += u64::from(!same);
                shown.waiting = waiting.clone();
                shown.stage = Stage::Waits;
            }
            // Whoever floods the page pushes nothing off it that waits.
            None if full => return false,
            None => {
                self.version += 1;
                let (stage, notes) = (Stage::Waits, Vec::new());
                self.runs.push(Shown { waiting: waiting.clone(), stage, notes });
                self.forget_old();
            }
        }
        let questions = &waiting.questions;
        let is_new =
            |q: &&Question| !self.opened_for.iter().any(|(run, known)| run == id && known == *q);
        let fresh = questions.iter().any(|question| is_new(&question));
        self.opened_for.retain(|(run, _)| run != id);
        self.opened_for.extend(questions.iter().map(|question| (id.clone(), question.clone())));
        let again = self.opened.is_none_or(|opened| now.since(opened) >= REOPENS_AFTER);
        !self.closed && !questions.is_empty() && !self.is_open(now) && (fresh || again)
    }

    /// Is there no room for another run, because all that are shown wait?
    fn is_full(&self) -> bool {
        self.runs.iter().filter(|shown| shown.stage == Stage::Waits).count() >= RUNS_MAX
    }

    /// The oldest runs that are over make room.
    fn forget_old(&mut self) {
        while self.runs.len() > RUNS_MAX
            && let Some(over) = self.runs.iter().position(|shown| shown.stage != Stage::Waits)
        {
            self.runs.remove(over);
        }
    }

    /// Shows that a run is over, or no longer decided here.
    pub fn end(&mut self, run: &RunId, ended: Option<&Envelope>) {
        self.opened_for.retain(|(known, _)| known != run);
        if let Some(shown) = self.runs.iter_mut().find(|shown| shown.waiting.record.id == *run) {
            shown.stage = match ended {
                Some(envelope) => Stage::Ended(Box::new(envelope.clone())),
                None => Stage::Gone,
            };
            self.version += 1;
        }
    }

    /// Is there a page in front of the person, or on its way there?
    #[must_use]
    pub fn is_open(&self, now: Tick) -> bool {
        let coming = self.offers.iter().any(|offer| !offer.redeemed && now < offer.until);
        let quiet = |session: &Session| match session.left {
            Some(left) => now.since(left) >= RELOADS_WITHIN,
            None => now.since(session.seen) >= QUIET_FOR,
        };
        coming || self.streams > 0 || self.session.as_ref().is_some_and(|session| !quiet(session))
    }

    /// Can the person still decide here?
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// An address for the browser, good once and for a minute. `token` is random.
    pub fn offer(&mut self, token: String, now: Tick) -> String {
        self.offers.retain(|offer| offer.redeemed || now < offer.until);
        let address = format!("{}{}open?token={token}", self.origin(), self.path);
        self.offers.push(Offer { token, until: now.after(TOKEN_GOOD_FOR), redeemed: false });
        self.opened = Some(now);
        address
    }

    /// The address could not be opened: nobody has it.
    pub fn take_back_offer(&mut self) {
        self.offers.retain(|offer| offer.redeemed);
    }

    /// An event stream began, or ended.
    pub fn count_stream(&mut self, begins: bool, now: Tick) {
        self.streams = if begins { self.streams + 1 } else { self.streams.saturating_sub(1) };
        if let Some(session) = &mut self.session {
            session.left = (self.streams == 0).then_some(now);
        }
    }

    /// The next answer about a run.
    pub fn take(&mut self, run: &RunId) -> Option<Incoming> {
        self.incoming.get_mut(run)?.pop_front()
    }

    /// Is everything that one form answered heard, and no longer asked?
    #[must_use]
    pub fn is_heard(&self, run: &RunId, form: &Digest) -> bool {
        self.incoming.get(run).is_none_or(VecDeque::is_empty) && !self.forms().contains_key(form)
    }

    /// Notes on the page what became of an answer.
    pub fn note(&mut self, run: &RunId, answer: &Answer, outcome: Result<(), NotDecided>) {
        let choice = words::label(answer.choice);
        let note = match outcome {
            Ok(()) => format!("{choice}: {}.", answer.seq),
            Err(why) => format!("Not recorded for {}: {why}.", answer.seq),
        };
        self.note_text(run, note);
    }

    fn note_text(&mut self, run: &RunId, note: String) {
        if let Some(shown) = self.runs.iter_mut().find(|shown| shown.waiting.record.id == *run)
            && shown.notes.last() != Some(&note)
        {
            shown.notes.push(note);
            let surplus = shown.notes.len().saturating_sub(NOTES_MAX);
            shown.notes.drain(..surplus);
            self.version += 1;
        }
    }

    /// Answers a request. `random` makes cookie and token.
    pub fn handle(
        &mut self,
        request: &Request,
        now: Now,
        mut random: impl FnMut() -> String,
    ) -> Reply {
        if request.host.as_deref() != Some(self.host.as_str()) {
            return plain(421, "There is nothing here under this name.");
        }
        let (path, query) = match request.target.split_once('?') {
            Some((path, query)) => (path, query),
            None => (request.target.as_str(), ""),
        };
        let Some(rest) = path.strip_prefix(self.path.as_str()) else {
            return plain(404, "There is nothing here.");
        };
        match (request.method, rest) {
            (Method::Get, "open") => self.redeem(request, query, now, &mut random),
            (Method::Get, "page.css") => asset("text/css; charset=utf-8", SHEET),
            (Method::Get, "page.js") => asset("text/javascript; charset=utf-8", SCRIPT),
            (Method::Get, "" | "events") => self.look(request, rest, now),
            (Method::Post, "decide") => self.submit(request, now),
            (Method::Get | Method::Other, "decide") | (Method::Post | Method::Other, _) => {
                plain(405, "This is not how to ask for it.")
            }
            (Method::Get, _) => plain(404, "There is nothing here."),
        }
    }

    fn redeem(
        &mut self,
        request: &Request,
        query: &str,
        now: Now,
        random: &mut impl FnMut() -> String,
    ) -> Reply {
        // A browser that looks ahead must not use it up.
        if request.purpose.as_deref().is_some_and(|purpose| purpose.contains("prefetch"))
            || matches!(request.fetch_site.as_deref(), Some("cross-site" | "same-site"))
        {
            return plain(403, "Open it yourself.");
        }
        let given = url::form_urlencoded::parse(query.as_bytes())
            .find(|(key, _)| key == "token")
            .map(|(_, token)| token.into_owned())
            .unwrap_or_default();
        let Some(offer) = self.offers.iter_mut().find(|offer| same(&offer.token, &given)) else {
            return self
                .closed_page(404, "This address is not one the hub opened, or it is too old.");
        };
        if offer.redeemed {
            tracing::warn!("the address of the approval page was used twice; the page is closed");
            self.closed = true;
            self.session = None;
            return self.closed_page(403, html::TWICE);
        }
        if self.closed || now.tick >= offer.until {
            return self.closed_page(410, "This address is too old.");
        }
        offer.redeemed = true;
        let (cookie, csrf) = (random(), random());
        let set = format!("{COOKIE}={cookie}; Path={}; HttpOnly; SameSite=Strict", self.path);
        self.session = Some(Session { cookie, csrf, seen: now.tick, left: None });
        let mut reply = see_other(&self.path);
        reply.headers.push(("set-cookie", set));
        reply
    }

    /// Is the request from the browser that was let in?
    fn admit(&mut self, request: &Request, now: Tick) -> bool {
        let Some(session) = &mut self.session else { return false };
        let cookies = request.cookies.iter().flat_map(|line| line.split(';'));
        let mut given =
            cookies.filter_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='));
        let admitted = given.any(|value| same(value, &session.cookie));
        if admitted {
            (session.seen, session.left) = (now, None);
        }
        admitted
    }

    fn look(&mut self, request: &Request, rest: &str, now: Now) -> Reply {
        if matches!(request.fetch_site.as_deref(), Some("cross-site" | "same-site")) {
            return plain(403, "Open it yourself.");
        }
        if !self.admit(request, now.tick) {
            let why = if self.closed { html::TWICE } else { html::NOT_YOURS };
            return self.closed_page(403, why);
        }
        if rest == "events" {
            let mut reply = page(200, String::new());
            reply.headers = common("text/event-stream");
            reply.events = true;
            return reply;
        }
        let drawn = self.forms();
        self.drawn.retain(|digest, _| drawn.contains_key(digest));
        self.drawn.extend(drawn.keys().map(|digest| (*digest, now.tick)));
        let csrf = self.session.as_ref().map(|session| session.csrf.clone()).unwrap_or_default();
        let (path, mark, version) = (&self.path, &self.mark, self.version);
        let view = html::View { path, csrf: &csrf, mark, version, now: now.wall };
        page(200, html::page(&view, &self.runs))
    }

    /// Every form there is to draw at this moment: what it shows, and the calls it is about.
    fn forms(&self) -> BTreeMap<Digest, (RunId, Vec<Question>)> {
        let mut forms = BTreeMap::new();
        for shown in self.runs.iter().filter(|shown| shown.stage == Stage::Waits) {
            let run = &shown.waiting.record.id;
            for group in words::groups(&shown.waiting.questions) {
                let whole: Vec<Question> = group.iter().map(|&question| question.clone()).collect();
                if group.len() > 1 {
                    for question in &whole {
                        let one = vec![question.clone()];
                        forms.insert(digest_of(run, &one, true), (run.clone(), one));
                    }
                }
                forms.insert(digest_of(run, &whole, false), (run.clone(), whole));
            }
        }
        forms
    }

    fn submit(&mut self, request: &Request, now: Now) -> Reply {
        let form = Form::read(&request.body);
        let is_form = request
            .content_type
            .as_deref()
            .is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
        let csrf = self.session.as_ref().map(|session| session.csrf.clone());
        let own = request.origin.as_deref() == Some(self.origin().as_str());
        let cross =
            matches!(request.fetch_site.as_deref(), Some("cross-site" | "same-site" | "none"));
        if !own
            || cross
            || !is_form
            || !self.admit(request, now.tick)
            || !csrf.is_some_and(|csrf| same(&csrf, &form.csrf))
        {
            tracing::warn!(
                "a request to decide did not come from the approval page; nothing was decided"
            );
            if let Some(run) = form.run {
                self.refuse(&run, None, form.choice, NotDecided::Forged, now);
            }
            return self.closed_page(403, html::NOT_YOURS);
        }
        let Some(run) = form.run else { return plain(400, "The form is not whole.") };
        let shown = form.shown.and_then(|digest| Some((digest, self.forms().remove(&digest)?)));
        let (Some((digest, (known, questions))), Some(choice)) = (shown, form.choice) else {
            self.refuse(&run, None, form.choice, NotDecided::Differs, now);
            let note = "Nothing was recorded: what waits has changed since the page was drawn.";
            self.note_text(&run, note.to_owned());
            return see_other(&self.path);
        };
        // A form about one of several offers nothing that reaches beyond it.
        let alone = questions.len() == 1 && digest == digest_of(&run, &questions, true);
        if known != run || alone && words::is_wide(choice) {
            return plain(400, "The form is not whole.");
        }
        let soon = |drawn: &Tick| now.tick.since(*drawn) < DEAD_FOR;
        if self.drawn.get(&digest).is_none_or(soon) {
            let seq = questions.first().map(|question| question.seq);
            self.refuse(&run, seq, Some(choice), NotDecided::TooFast, now);
            let note = "Nothing was recorded: that was faster than anyone can read.";
            self.note_text(&run, note.to_owned());
            return see_other(&self.path);
        }
        self.take_up(&run, &questions, choice);
        let mut reply = see_other(&self.path);
        reply.answered = Some((run, digest));
        reply
    }

    /// One answer for each call that was shown; a wide one covers them all by itself.
    fn take_up(&mut self, run: &RunId, questions: &[Question], choice: Choice) {
        let few = if words::is_wide(choice) { 1 } else { questions.len() };
        for question in questions.iter().take(few) {
            let answer = Answer {
                seq: question.seq,
                binding: question.binding.clone(),
                choice,
                channel: Channel::Page,
                slip: None,
            };
            self.push(run, Incoming::Answer(answer));
        }
    }

    fn refuse(
        &mut self,
        run: &RunId,
        seq: Option<crate::model::call::Seq>,
        choice: Option<Choice>,
        why: NotDecided,
        now: Now,
    ) {
        let channel = Channel::Page;
        let refused = RefusedAnswer { seq, choice, channel, why, wall: now.wall, nonce: None };
        self.push(run, Incoming::Refused(refused));
    }

    fn push(&mut self, run: &RunId, incoming: Incoming) {
        // Only runs that somebody listens for.
        let known = self
            .runs
            .iter()
            .any(|shown| shown.waiting.record.id == *run && shown.stage != Stage::Gone);
        let queue = self.incoming.entry(run.clone()).or_default();
        if known && queue.len() < ANSWERS_MAX {
            queue.push_back(incoming);
        }
        if queue.is_empty() {
            self.incoming.remove(run);
        }
    }

    fn closed_page(&self, status: u16, why: &str) -> Reply {
        page(status, html::closed(&self.path, why))
    }
}

/// What a form showed: which run, every word of the questions, and whether it is about one of several.
pub(super) fn digest_of(run: &RunId, questions: &[Question], alone: bool) -> Digest {
    let shown = serde_json::to_string(&(run, questions, alone)).unwrap_or_default();
    Digest::of(shown.as_bytes())
}

/// Compared in a time that does not depend on where they differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len()
        && !a.is_empty()
        && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

fn common(content_type: &str) -> Vec<(&'static str, String)> {
    vec![
        ("content-type", content_type.to_owned()),
        ("cache-control", "no-store".to_owned()),
        ("content-security-policy", POLICY.to_owned()),
        ("cross-origin-opener-policy", "same-origin".to_owned()),
        ("cross-origin-resource-policy", "same-origin".to_owned()),
        ("referrer-policy", "same-origin".to_owned()),
        ("x-content-type-options", "nosniff".to_owned()),
        ("x-frame-options", "DENY".to_owned()),
    ]
}

fn reply(status: u16, content_type: &str, body: String) -> Reply {
    Reply { status, headers: common(content_type), body, events: false, answered: None }
}

fn page(status: u16, body: String) -> Reply {
    reply(status, "text/html; charset=utf-8", body)
}

fn plain(status: u16, text: &str) -> Reply {
    reply(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

fn asset(content_type: &str, text: &str) -> Reply {
    reply(200, content_type, text.to_owned())
}

fn see_other(to: &str) -> Reply {
    let mut reply = plain(303, "Go on.");
    reply.headers.push(("location", to.to_owned()));
    reply
}
