//! The desk, without a socket: who is let in, and what counts.

use super::desk::{Desk, Method, Reply, Request};
use crate::model::answer::NotDecided;
use crate::model::call::{Binding, Seq};
use crate::model::digest::Digest;
use crate::model::envelope::{Envelope, EnvelopeStatus};
use crate::model::ids::{RunId, SourceId};
use crate::model::journal::Question;
use crate::model::limits::Limits;
use crate::model::names::ToolRef;
use crate::model::policy::{Because, Choice};
use crate::model::run::RunRecord;
use crate::model::time::{Now, Tick, WallMs};
use crate::ports::person::{Incoming, Waiting};
use std::time::Duration;

const HOST: &str = "127.0.0.1:4000";
const ORIGIN: &str = "http://127.0.0.1:4000";

fn at(ms: u64) -> Now {
    Now { tick: Tick(Duration::from_millis(ms)), wall: WallMs(ms) }
}

fn record(number: u8) -> RunRecord {
    RunRecord {
        version: 1,
        id: RunId::from_random([number; 10]),
        code: String::new(),
        program: "\nawait a.one();\nawait <b>.two();".to_owned(),
        notices: Vec::new(),
        seed: Digest::of(b"seed"),
        started: WallMs(0),
        limits: Limits::default(),
        profile: "default".to_owned(),
        build: "test".to_owned(),
        snapshot: Digest::of(b"snapshot"),
    }
}

fn question(seq: u32, tool: &str) -> Question {
    Question {
        seq: Seq(seq),
        binding: Binding {
            tool: ToolRef { source: SourceId::from_random([0; 10]), raw: tool.parse().unwrap() },
            connection: None,
            contract: Digest::of(b"contract"),
            arguments: Digest::of(&seq.to_le_bytes()),
        },
        address: format!("slack.{tool}"),
        says: "Post <script>alert(1)</script>.".to_owned(),
        preview: format!("{{\n  \"n\": {seq}\n}}"),
        hidden_bytes: 0,
        because: vec![Because::NotReadOnly],
        changes: vec![],
        asked: WallMs(0),
        expires: WallMs(24 * 60 * 60 * 1000),
        line: Some(2),
    }
}

fn waiting(number: u8, questions: Vec<Question>) -> Waiting {
    Waiting { record: record(number), questions, calls: Vec::new() }
}

fn get(target: &str) -> Request {
    Request {
        method: Method::Get,
        target: target.to_owned(),
        host: Some(HOST.to_owned()),
        origin: None,
        cookies: Vec::new(),
        fetch_site: None,
        purpose: None,
        content_type: None,
        body: Vec::new(),
    }
}

/// A desk and a browser that was let in.
struct Let {
    desk: Desk,
    cookie: String,
    made: u32,
}

impl Let {
    fn new(waiting: &Waiting) -> Let {
        let mut desk = Desk::new(HOST.to_owned(), "p4th", "m4rk".to_owned());
        assert!(desk.show(waiting, at(0).tick), "a page is to be opened");
        desk.offer("t0ken".to_owned(), at(0).tick);
        let mut let_in = Let { desk, cookie: String::new(), made: 0 };
        let reply = let_in.ask(&get("/p4th/open?token=t0ken"), 100);
        assert_eq!(reply.status, 303);
        assert_eq!(header(&reply, "location"), "/p4th/");
        let set = header(&reply, "set-cookie");
        assert!(set.ends_with("; Path=/p4th/; HttpOnly; SameSite=Strict"), "{set}");
        let_in.cookie = set.split(';').next().unwrap().to_owned();
        let_in
    }

    fn ask(&mut self, request: &Request, ms: u64) -> Reply {
        let made = &mut self.made;
        self.desk.handle(request, at(ms), || {
            *made += 1;
            format!("random-{made}")
        })
    }

    fn look(&mut self, ms: u64) -> String {
        let mut request = get("/p4th/");
        request.cookies = vec![format!("other=1; {}", self.cookie)];
        let reply = self.ask(&request, ms);
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.body
    }

    fn form(&self, html: &str, number: usize, choice: &str) -> Request {
        let form = html.split("<form").nth(number + 1).expect("a form");
        let field = |name: &str| {
            let from = form.split(&format!("name=\"{name}\" value=\"")).nth(1).expect("a field");
            from.split('"').next().expect("a value").to_owned()
        };
        let mut request = get("/p4th/decide");
        request.method = Method::Post;
        request.origin = Some(ORIGIN.to_owned());
        request.cookies = vec![self.cookie.clone()];
        request.content_type = Some("application/x-www-form-urlencoded".to_owned());
        request.body = format!(
            "csrf={}&run={}&shown={}&choice={choice}",
            field("csrf"),
            field("run"),
            field("shown")
        )
        .into_bytes();
        request
    }

    /// What arrived about a run since.
    fn heard(&mut self, number: u8) -> Vec<String> {
        let run = record(number).id;
        std::iter::from_fn(|| self.desk.take(&run))
            .map(|incoming| match incoming {
                Incoming::Answer(answer) => format!("{} {:?}", answer.seq, answer.choice),
                Incoming::Refused(refused) => format!("refused: {:?}", refused.why),
            })
            .collect()
    }
}

fn header<'r>(reply: &'r Reply, name: &str) -> &'r str {
    reply.headers.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
}

#[test]
fn every_choice_is_an_answer_for_what_was_shown() {
    let one = || waiting(1, vec![question(1, "post")]);
    for (choice, expected) in
        [("deny", "c1 Deny"), ("once", "c1 Once"), ("run", "c1 Run"), ("always", "c1 Always")]
    {
        let mut let_in = Let::new(&one());
        let html = let_in.look(200);
        let reply = let_in.ask(&let_in.form(&html, 0, choice), 900);
        assert_eq!((reply.status, header(&reply, "location")), (303, "/p4th/"));
        assert_eq!(let_in.heard(1), [expected]);
    }
}

#[test]
fn one_decision_covers_every_pending_call_of_a_tool_or_one_alone() {
    let many = waiting(1, vec![question(1, "post"), question(2, "drop"), question(3, "post")]);
    let mut let_in = Let::new(&many);
    let html = let_in.look(0);
    // c1 alone, c3 alone, both, then the other tool.
    let mut decide = |number: usize, choice: &str| {
        let form = let_in.form(&html, number, choice);
        let_in.ask(&form, 700);
        let_in.heard(1)
    };
    assert_eq!(decide(0, "once"), ["c1 Once"]);
    assert_eq!(decide(1, "deny"), ["c3 Deny"]);
    assert_eq!(decide(0, "run"), Vec::<String>::new(), "one of several grants nothing wide");
    assert_eq!(decide(2, "once"), ["c1 Once", "c3 Once"]);
    assert_eq!(decide(2, "run"), ["c1 Run"]);
    assert_eq!(decide(3, "deny"), ["c2 Deny"]);
}

#[test]
fn what_did_not_come_from_the_page_decides_nothing() {
    let asked = waiting(1, vec![question(1, "post")]);
    let forge: &[(&str, fn(&mut Request))] = &[
        ("no origin", |r| r.origin = None),
        ("null", |r| r.origin = Some("null".to_owned())),
        ("foreign", |r| r.origin = Some("http://127.0.0.1:4001".to_owned())),
        ("another name", |r| r.origin = Some("http://localhost:4000".to_owned())),
        ("another site", |r| r.fetch_site = Some("cross-site".to_owned())),
        ("no cookie", |r| r.cookies.clear()),
        ("another cookie", |r| r.cookies = vec!["capabilities=random-9".to_owned()]),
        ("no csrf", |r| r.body = r.body.iter().copied().skip(5).collect()),
        ("as text", |r| r.content_type = Some("text/plain".to_owned())),
        ("as nothing", |r| r.content_type = None),
    ];
    for (name, forge) in forge {
        let mut let_in = Let::new(&asked);
        let html = let_in.look(0);
        let mut request = let_in.form(&html, 0, "always");
        forge(&mut request);
        let reply = let_in.ask(&request, 1_000);
        assert_eq!(reply.status, 403, "{name}");
        assert_eq!(let_in.heard(1), ["refused: Forged"], "{name}");
        // What is honest still counts.
        let form = let_in.form(&html, 0, "once");
        let_in.ask(&form, 1_000);
        assert_eq!(let_in.heard(1), ["c1 Once"], "{name}");
    }
    let mut let_in = Let::new(&asked);
    let html = let_in.look(0);
    for host in [None, Some("localhost:4000"), Some("evil.example:4000"), Some("127.0.0.1:4001")] {
        let mut request = let_in.form(&html, 0, "once");
        request.host = host.map(str::to_owned);
        assert_eq!(let_in.ask(&request, 1_000).status, 421, "{host:?}");
        assert_eq!(let_in.heard(1), Vec::<String>::new());
    }
    let mut request = let_in.form(&html, 0, "once");
    request.method = Method::Get;
    assert_eq!(let_in.ask(&request, 1_000).status, 405);
    assert_eq!(let_in.heard(1), Vec::<String>::new());
}

#[test]
fn what_was_drawn_is_dead_for_a_moment_and_bound_to_its_words() {
    let mut let_in = Let::new(&waiting(1, vec![question(1, "post")]));
    let html = let_in.look(1_000);
    let form = let_in.form(&html, 0, "once");
    assert_eq!(let_in.ask(&form, 1_699).status, 303);
    assert_eq!(let_in.heard(1), ["refused: TooFast"]);
    // Drawn again: dead again.
    let again = let_in.look(2_000);
    assert!(again.contains("faster than anyone can read"), "{again}");
    let_in.ask(&form, 2_300);
    assert_eq!(let_in.heard(1), ["refused: TooFast"]);
    // One word of the question changes; what was drawn before means nothing any more.
    let mut changed = question(1, "post");
    changed.says = "Post it twice.".to_owned();
    let_in.desk.show(&waiting(1, vec![changed.clone()]), at(3_000).tick);
    let_in.ask(&form, 4_000);
    assert_eq!(let_in.heard(1), ["refused: Differs"]);
    // Shown, but not drawn yet: nobody can have read it.
    let html = let_in.look(5_000);
    let fresh = let_in.form(&html, 0, "once");
    let_in.desk.show(&waiting(1, vec![changed, question(2, "post")]), at(5_100).tick);
    let_in.ask(&fresh, 6_000);
    assert_eq!(let_in.heard(1), ["refused: Differs"]);
}

#[test]
fn an_address_is_good_once_and_for_a_minute() {
    let asked = waiting(1, vec![question(1, "post")]);
    let mut desk = Desk::new(HOST.to_owned(), "p4th", "m4rk".to_owned());
    desk.show(&asked, at(0).tick);
    let address = desk.offer("t0ken".to_owned(), at(0).tick);
    assert_eq!(address, "http://127.0.0.1:4000/p4th/open?token=t0ken");
    let late = desk.handle(&get("/p4th/open?token=t0ken"), at(60_000), String::new);
    assert_eq!(late.status, 410);
    for wrong in ["/p4th/open?token=", "/p4th/open", "/p4th/open?token=other", "/open?token=t0ken"]
    {
        assert_eq!(desk.handle(&get(wrong), at(1), String::new).status, 404, "{wrong}");
    }
    // Looked at ahead of time, or from another page: not used up.
    let mut ahead = get("/p4th/open?token=t0ken");
    ahead.purpose = Some("prefetch;prerender".to_owned());
    assert_eq!(desk.handle(&ahead, at(1), String::new).status, 403);
    let mut linked = get("/p4th/open?token=t0ken");
    linked.fetch_site = Some("cross-site".to_owned());
    assert_eq!(desk.handle(&linked, at(1), String::new).status, 403);
    // Used twice: whoever came second, and whoever came first, gets nothing any more.
    let mut let_in = Let::new(&asked);
    let html = let_in.look(0);
    let form = let_in.form(&html, 0, "always");
    let second = let_in.ask(&get("/p4th/open?token=t0ken"), 5_000);
    assert!(second.status == 403 && second.body.contains("opened twice"), "{}", second.body);
    assert_eq!(let_in.ask(&form, 6_000).status, 403);
    assert_eq!(let_in.heard(1), ["refused: Forged"]);
    let mut look = get("/p4th/");
    look.cookies = vec![let_in.cookie.clone()];
    let told = let_in.ask(&look, 6_000);
    assert!(
        told.body.contains("opened twice") && told.body.contains("hub approve"),
        "{}",
        told.body
    );
    assert!(
        let_in.desk.is_closed()
            && !let_in.desk.show(&waiting(2, vec![question(1, "post")]), at(99_000).tick)
    );
}

#[test]
fn one_page_is_opened_for_many_runs_and_again_only_when_it_is_gone() {
    let (first, second) =
        (waiting(1, vec![question(1, "post")]), waiting(2, vec![question(1, "post")]));
    let mut let_in = Let::new(&first);
    let desk = &mut let_in.desk;
    desk.count_stream(true, at(1_000).tick);
    assert!(!desk.show(&second, at(2_000).tick), "the page is there");
    desk.count_stream(false, at(3_000).tick);
    assert!(!desk.show(&first, at(4_000).tick), "a reload comes back");
    // The tab was closed. What it showed is not pushed at the person again at once.
    assert!(!desk.show(&first, at(30_000).tick));
    assert!(desk.show(&first, at(61_000).tick), "but after a while");
    let third = waiting(3, vec![question(1, "post")]);
    assert!(desk.show(&third, at(31_000).tick), "and for something new");
    desk.offer("another".to_owned(), at(31_000).tick);
    assert!(!desk.show(&waiting(4, vec![question(1, "post")]), at(32_000).tick), "on its way");
    assert!(!desk.show(&waiting(1, Vec::new()), at(200_000).tick), "nothing waits");
}

#[test]
fn the_page_says_everything_and_escapes_it() {
    let mut cut = question(7, "drop");
    (cut.hidden_bytes, cut.changes) = (12, vec!["description: was \"a\", is \"b\"".to_owned()]);
    let asked = waiting(1, vec![question(1, "post"), question(3, "post"), cut]);
    let mut let_in = Let::new(&asked);
    let html = let_in.look(0);
    for text in [
        "3 calls wait for your decision",
        "slack.post",
        "Post &lt;script&gt;alert(1)&lt;/script&gt;.",
        "await &lt;b&gt;.two();",
        "↓  c1, c3, c7 wait here",
        "It asks because the tool does not declare itself read-only.",
        "description: was &quot;a&quot;, is &quot;b&quot;",
        "12 more bytes are not shown",
        "Open for 24 h 0 min.",
        "m4rk",
    ] {
        assert!(html.contains(text), "{text} is not in\n{html}");
    }
    assert!(
        !html.contains("<script>alert") && !html.contains("style=") && !html.contains("onclick")
    );
    // Deny comes first in every form, nothing is focused, and what is cut offers nothing wide.
    for form in html.split("<form").skip(1) {
        let form = form.split("</form>").next().expect("a form");
        let first = form.split("<button").nth(1).expect("a button");
        assert!(first.contains("value=\"deny\""), "{form}");
        assert!(!form.contains("autofocus"));
    }
    let last = html.rsplit("<form").next().expect("a form");
    assert!(!last.contains("value=\"run\"") && !last.contains("value=\"always\""), "{last}");
    let reply = let_in.ask(&get("/p4th/page.css"), 0);
    for (name, value) in [
        ("cache-control", "no-store"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(header(&reply, name), value);
    }
    let policy = header(&reply, "content-security-policy");
    assert!(policy.starts_with("default-src 'none';") && policy.contains("frame-ancestors 'none'"));
    assert!(!policy.contains("unsafe"));
}

#[test]
fn what_became_of_an_answer_and_of_the_run_is_said() {
    let mut let_in = Let::new(&waiting(1, vec![question(1, "post")]));
    let html = let_in.look(0);
    let form = let_in.form(&html, 0, "once");
    let_in.ask(&form, 800);
    let run = record(1).id;
    let Some(Incoming::Answer(answer)) = let_in.desk.take(&run) else { panic!("an answer") };
    assert_eq!(answer.choice, Choice::Once);
    let_in.desk.note(&run, &answer, Ok(()));
    let_in.desk.show(&waiting(1, Vec::new()), at(900).tick);
    let html = let_in.look(1_000);
    assert!(html.contains("Allow once: c1.") && html.contains("The agent can go on"), "{html}");
    assert!(!html.contains("<form"));
    // The same again: nothing waits under that digest any more.
    let_in.ask(&form, 2_000);
    assert_eq!(let_in.heard(1), ["refused: Differs"]);
    let_in.desk.note(&run, &answer, Err(NotDecided::AlreadyDecided));
    let envelope = Envelope {
        run_id: run.clone(),
        status: EnvelopeStatus::Completed,
        result: Some("<b>".into()),
        error: None,
        logs: Vec::new(),
        calls: Vec::new(),
        pending: Vec::new(),
        truncated: None,
        notices: Vec::new(),
    };
    let_in.desk.end(&run, Some(&envelope));
    let html = let_in.look(3_000);
    assert!(html.contains("it completed") && html.contains("&lt;b&gt;"), "{html}");
    assert!(html.contains("Not recorded for c1: this call is already decided."), "{html}");
    let_in.desk.end(&run, None);
    assert!(let_in.look(4_000).contains("not decided here any more"));
}
