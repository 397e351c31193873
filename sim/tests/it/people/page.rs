//! The approval page of the real binary: opened, read and decided on in a real browser, and attacked.

use super::chromium::in_browser;
use super::{decided, made, over, refused};
use crate::support::{Client, TestHub, until};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

const POSTS: &str =
    "const notes_ = await notes.listNotes();\nreturn await notes.addNote({ text: 'milk' });";
const TWO: &str = "return Promise.all(['a', 'b'].map((text) => notes.addNote({ text })));";

/// A hub whose browser only notes what it is to open.
struct Opens {
    hub: TestHub,
    client: Client,
}

impl Opens {
    fn new() -> Opens {
        Opens::with(TestHub::with_notes())
    }

    fn with(hub: TestHub) -> Opens {
        let script = hub.file("browser");
        std::fs::write(&script, "#!/bin/sh\nprintf '%s\\n' \"$1\" >> \"$0.opened\"\n")
            .expect("written");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        let mut serve = hub.command(["serve", "--stdio"]);
        serve.env("BROWSER", &script);
        let mut client = Client::start(serve);
        client.initialize("2025-11-25");
        Opens { hub, client }
    }

    /// Every address that was opened.
    fn addresses(&self) -> Vec<String> {
        let opened = std::fs::read_to_string(self.hub.file("browser.opened")).unwrap_or_default();
        opened.lines().map(str::to_owned).collect()
    }

    /// Runs code that waits; its run and the address that was opened for it.
    fn waits(&mut self, code: &str) -> (String, String) {
        let envelope = self.client.execute(code);
        assert_eq!(envelope["status"], "awaiting_approval", "{envelope:#}");
        let run = envelope["runId"].as_str().expect("a run").to_owned();
        let address = until("an address", || self.addresses().last().cloned());
        (run, address)
    }

    fn resume(&mut self, run: &str) -> Value {
        self.client.envelope(&json!({ "resume": run }))
    }
}

/// The rules of axe-core, as `scripts/servers` installs them.
fn rules() -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/servers/node_modules/axe-core/axe.min.js");
    let rules = std::fs::read_to_string(path).ok();
    if rules.is_none() {
        eprintln!("skipped: axe-core is not installed; run scripts/servers");
    }
    rules
}

/// One request, byte by byte; status, head and body.
fn ask(address: &str, head: &str, body: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).expect("a page");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    let text =
        format!("{head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).expect("sent");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer.as_str(), ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (status, head.to_owned(), body.to_owned())
}

/// Host and path of an address.
fn parts(address: &str) -> (&str, &str) {
    let rest = address.strip_prefix("http://").expect("an address of this machine");
    rest.split_at(rest.find('/').expect("a path"))
}

fn base(address: &str) -> String {
    address.split("open?").next().expect("a path").to_owned()
}

#[test]
fn each_choice_is_made_with_the_mouse_and_the_run_goes_on_by_itself() {
    for (button, choice, result) in [
        ("Deny", "deny by page", "failed"),
        ("Allow once", "once by page", "completed"),
        ("Allow for this run", "run by page", "completed"),
        ("Always allow", "always by page", "completed"),
    ] {
        let mut opens = Opens::new();
        let (run, address) = opens.waits(POSTS);
        in_browser(&opens.hub, |tab| async move {
            tab.goto(&address).await;
            let here = tab.js("location.href").await;
            assert_eq!(here, base(&address), "the token is gone from the address");
            assert_eq!(tab.js("document.cookie").await, "", "no script reads the cookie");
            tab.says("One call waits for your decision").await;
            tab.says("c2 waits here").await;
            tab.press(button).await;
            tab.says(&format!("{button}: c2.")).await;
            tab.says("The run is over").await;
        });
        if opens.addresses().is_empty() || decided(&opens.hub, &run).is_empty() {
            return;
        }
        assert_eq!(over(&opens.hub, &run), result, "{button}");
        assert_eq!(decided(&opens.hub, &run), [choice]);
        let ended = opens.resume(&run);
        assert_eq!(ended["status"], result);
        assert_eq!(made(&opens.hub, "add_note").len(), usize::from(result == "completed"));
        assert_eq!(refused(&opens.hub, &run), Vec::<String>::new());
    }
}

#[test]
fn the_page_is_usable_by_everyone_in_light_dark_and_narrow() {
    let Some(rules) = rules() else { return };
    let mut opens = Opens::new();
    let long = "word ".repeat(600);
    let code = format!(
        "// Tells the team what is left to do.\nconst open = await notes.listNotes();\nconst texts = open.notes.map((n) => n.text);\nawait Promise.all(texts.map((text) => notes.addNote({{ text }})));\nawait notes.shareNote({{ text: '{long}' }});\nreturn texts;"
    );
    let (_, address) = opens.waits(&code);
    let (second, _) = opens.waits("await notes.deleteNote({ id: 1 })");
    assert_eq!(opens.addresses().len(), 1, "one tab for every run of the process");
    in_browser(&opens.hub, |tab| async move {
        tab.goto(&address).await;
        let look = async |name: &str| {
            for (scheme, width) in [("light", 1000), ("dark", 1000), ("light", 340), ("dark", 340)]
            {
                tab.looks(scheme, width).await;
                let wide = tab.js("document.documentElement.scrollWidth <= innerWidth").await;
                assert_eq!(wide, true, "{name} {scheme} {width} scrolls sideways");
                let found = tab.findings(&rules).await;
                assert_eq!(found, Vec::<String>::new(), "{name} {scheme} {width}");
                tab.shot(&format!("{name}-{scheme}-{width}")).await;
            }
        };
        tab.awake().await;
        look("waiting").await;
        tab.looks("light", 1000).await;
        tab.press("Allow once").await;
        tab.says("2 calls").await;
        tab.awake().await;
        look("going-on").await;
        tab.press("Deny").await;
        tab.waits("document.querySelectorAll('form').length > 0", "a form").await;
        tab.awake().await;
        look("again").await;
        tab.goto(&format!("{}open?token=x", base(&address))).await;
        look("closed").await;
    });
    let _ = second;
}

#[test]
fn keys_in_the_first_moment_do_nothing_and_the_keyboard_is_enough_after_it() {
    let mut opens = Opens::new();
    let (run, address) = opens.waits(POSTS);
    let hub = &opens.hub;
    let seen = run.clone();
    in_browser(hub, |tab| async move {
        tab.goto(&address).await;
        let focused = tab.js("document.activeElement === document.body").await;
        assert_eq!(focused, true, "nothing is focused");
        for _ in 0..6 {
            tab.tab_key().await;
            tab.enter_key().await;
        }
        let early = tab.js("performance.now() < 700").await;
        tab.awake().await;
        if early == true {
            assert_eq!(decided(hub, &seen), Vec::<String>::new());
            assert_eq!(refused(hub, &seen), Vec::<String>::new());
        }
        // From the top: the first button that the keyboard reaches denies.
        tab.goto(&base(&address)).await;
        tab.awake().await;
        let on = "document.activeElement.value";
        for _ in 0..20 {
            tab.tab_key().await;
            if tab.js(on).await.is_string() {
                break;
            }
        }
        assert_eq!(tab.js(on).await, "deny", "Deny comes first");
        tab.tab_key().await;
        assert_eq!(tab.js(on).await, "once");
        tab.enter_key().await;
        tab.says("Allow once: c2.").await;
    });
    if !decided(hub, &run).is_empty() {
        assert_eq!(over(hub, &run), "completed");
    }
}

#[test]
fn everything_works_without_scripts() {
    let mut opens = Opens::new();
    let (run, address) = opens.waits(TWO);
    in_browser(&opens.hub, |tab| async move {
        tab.without_scripts().await;
        tab.goto(&address).await;
        tab.press("Allow call c1 alone").await;
        tab.says("Allow once: c1.").await;
        tab.says("One call waits").await;
        tab.press("Deny").await;
        tab.says("Deny: c2.").await;
    });
    if !decided(&opens.hub, &run).is_empty() {
        over(&opens.hub, &run);
        assert_eq!(decided(&opens.hub, &run), ["once by page", "deny by page"]);
    }
}

#[test]
fn what_the_terminal_decides_leaves_the_page_and_an_old_drawing_decides_nothing() {
    let mut opens = Opens::new();
    let (run, address) = opens.waits(TWO);
    let hub = &opens.hub;
    let seen = run.clone();
    in_browser(hub, |tab| async move {
        tab.without_scripts().await;
        tab.goto(&address).await;
        tab.awake().await;
        let answered = hub.at_terminal("o", ["approve", &seen, "--call", "c1"]);
        assert_eq!(answered.status, 3, "{}", answered.output);
        // Without scripts the page still shows both.
        tab.press("Always allow").await;
        // The hub may have seen the terminal's decision already, or see it now.
        tab.waits(
            "/what waits has changed|already decided/.test(document.body.innerText)",
            "a reason",
        )
        .await;
        assert_eq!(decided(hub, &seen), ["once by terminal"]);
        let why = refused(hub, &seen).join(", ");
        assert!(["differs by page", "already_decided by page"].contains(&why.as_str()), "{why}");
        assert_eq!(hub.at_terminal("o", ["approve", &seen]).status, 0);
    });
    if !decided(hub, &run).is_empty() {
        assert_eq!(over(hub, &run), "completed");
    }
}

/// A page elsewhere that sends a form of the approval page, with every field as it is there.
fn attacker(action: &str, fields: &[(String, String)], sandboxed: bool) -> String {
    let inputs: String = fields
        .iter()
        .map(|(name, value)| format!("<input name='{name}' value='{value}'>"))
        .collect();
    let form = format!(
        "<form method=post action='{action}'>{inputs}</form><script>document.forms[0].submit()</script>"
    );
    let page = if sandboxed {
        format!(
            "<iframe sandbox='allow-scripts allow-forms' srcdoc=\"{}\"></iframe>",
            form.replace('"', "&quot;")
        )
    } else {
        form
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
                page.len()
            );
        }
    });
    format!("http://127.0.0.1:{port}/")
}

#[test]
fn pages_elsewhere_other_names_and_changed_forms_decide_nothing() {
    let mut opens = Opens::new();
    let (run, address) = opens.waits(POSTS);
    let hub = &opens.hub;
    let seen = run.clone();
    in_browser(hub, |tab| async move {
        tab.goto(&address).await;
        tab.awake().await;
        let here = base(&address);
        let fields =
            tab.js("Array.from(new FormData(document.forms[0])).map(([k, v]) => [k, v])").await;
        let mut fields: Vec<(String, String)> = serde_json::from_value(fields).expect("fields");
        fields.push(("choice".to_owned(), "always".to_owned()));
        let forged = |count: usize| {
            until("a forged answer on record", || {
                (refused(hub, &seen).iter().filter(|why| *why == "forged by page").count() == count)
                    .then_some(())
            });
        };
        // Another page of this very browser, which knows every field and whose request carries the cookie.
        tab.goto(&attacker(&format!("{here}decide"), &fields, false)).await;
        forged(1);
        // The same out of a frame without an origin.
        tab.goto(&attacker(&format!("{here}decide"), &fields, true)).await;
        forged(2);
        // Under another name, as after rebinding.
        let (host, path) = parts(&here);
        let port = host.split(':').nth(1).expect("a port");
        tab.goto(&format!("http://elsewhere.localhost:{port}{path}")).await;
        tab.says("There is nothing here under this name").await;
        // In a frame.
        let framing = attacker(&here, &[], false);
        tab.goto(&framing).await;
        // The page's own form without its token.
        tab.goto(&here).await;
        tab.awake().await;
        tab.js("document.querySelectorAll('[name=csrf]').forEach((one) => one.remove())").await;
        tab.press("Allow once").await;
        tab.says("Nothing was decided").await;
        forged(3);
        // With another digest than that of what was drawn.
        tab.goto(&here).await;
        tab.awake().await;
        tab.js("document.querySelectorAll('[name=shown]').forEach((one) => { one.value = '0'.repeat(64); })").await;
        tab.press("Allow once").await;
        tab.says("what waits has changed").await;
        assert_eq!(decided(hub, &seen), Vec::<String>::new());
        // The address again, by somebody else: the page is closed for everyone.
        tab.goto(&address).await;
        tab.says("opened twice").await;
        tab.goto(&here).await;
        tab.says("opened twice").await;
        assert_eq!(decided(hub, &seen), Vec::<String>::new());
    });
    assert_eq!(made(hub, "add_note"), Vec::<Value>::new());
    assert_eq!(hub.at_terminal("o", ["approve", &run]).status, 0, "a terminal is always left");
    assert_eq!(over(hub, &run), "completed");
}

#[test]
fn nothing_of_the_page_reaches_the_model_or_whoever_asks_without_a_cookie() {
    let mut opens = Opens::new();
    let (run, address) = opens.waits(POSTS);
    let (host, path) = parts(&address);
    let segment = path.split('/').nth(1).expect("a segment");
    let token = path.rsplit('=').next().expect("a token");
    let waiting = opens.resume(&run).to_string();
    assert!(waiting.contains("A page opened in the user's browser"), "{waiting}");
    for secret in [segment, token, host] {
        assert!(!waiting.contains(secret), "{secret} is in {waiting}");
    }
    // What the hub made up is kept out of code and results alike.
    let code = format!("return '{token}'");
    let refusal = opens.client.call("execute", &json!({ "code": code }));
    assert!(
        refusal["content"][0]["text"]
            .as_str()
            .is_some_and(|text| text.starts_with("secret_in_code"))
    );
    let head = |target: &str, host: &str| format!("GET {target} HTTP/1.1\r\nHost: {host}");
    let root = format!("/{segment}/");
    for (target, name, status) in [
        (root.as_str(), host, 403),
        ("/", host, 404),
        ("/favicon.ico", host, 404),
        (path, "elsewhere.test", 421),
        (root.as_str(), "localhost", 421),
        (&format!("{root}events"), host, 403),
        (&format!("{root}decide"), host, 405),
        (&format!("{root}../etc/passwd"), host, 404),
    ] {
        let (found, answer, body) = ask(host, &head(target, name), "");
        assert_eq!(found, status, "{target} as {name}: {answer}");
        assert!(!body.contains("notes.addNote") && !body.contains(&run), "{body}");
        for line in [
            "cache-control: no-store",
            "x-frame-options: DENY",
            "content-security-policy: default-src 'none'",
        ] {
            assert!(answer.contains(line), "{line} is not in {answer}");
        }
    }
    // A form that is far too long, and a request that is none.
    let post = format!("POST {root}decide HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}");
    assert_eq!(ask(host, &post, &"x".repeat(1 << 20)).0 / 100, 4);
    assert_eq!(ask(host, "nonsense", "").0, 400);
    let (status, answer, _) = ask(host, &head(path, host), "");
    assert_eq!(status, 303);
    assert!(
        answer.contains("HttpOnly; SameSite=Strict") && answer.contains(&format!("Path={root};"))
    );
    assert_eq!(made(&opens.hub, "add_note"), Vec::<Value>::new());
}

#[test]
fn without_a_browser_the_terminal_is_named() {
    let hub = TestHub::with_notes();
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    let envelope = client.execute(POSTS);
    let message = envelope["pending"][0]["message"].as_str().expect("a message");
    let run = envelope["runId"].as_str().expect("a run");
    assert_eq!(
        message.replace(run, "<run>"),
        "No page could be opened here. Ask the user to decide within 24 h, in their own terminal, with `capabilities hub approve <run>`; then call execute with {\"resume\": \"<run>\"}."
    );
    // One that fails is none.
    let mut serve = hub.command(["serve", "--stdio"]);
    serve.env("BROWSER", "/bin/false");
    let mut client = Client::start(serve);
    client.initialize("2025-11-25");
    let envelope = client.execute(POSTS);
    assert!(
        envelope["pending"][0]["message"].as_str().is_some_and(|text| text.starts_with("No page"))
    );
}

#[test]
fn a_new_process_opens_a_page_for_a_run_that_lost_its_own() {
    let mut opens = Opens::new();
    let (run, first) = opens.waits(POSTS);
    let Opens { hub, client } = opens;
    assert_eq!(client.close(), 0);
    let mut opens = Opens::with(hub);
    let again = opens.resume(&run);
    assert!(again.to_string().contains("A page opened"), "{again:#}");
    let addresses = opens.addresses();
    assert_eq!(addresses.len(), 2);
    assert_ne!(parts(&addresses[1]).1, parts(&first).1);
    // A third process asks nobody anew: the second one does already.
    let elsewhere = opens.hub.resume(&run);
    assert!(elsewhere.to_string().contains("The user was asked already"), "{elsewhere:#}");
    assert_eq!(opens.addresses().len(), 2);
    assert_eq!(opens.hub.at_terminal("o", ["approve", &run]).status, 0);
    assert_eq!(opens.resume(&run)["result"], "added: milk");
    assert_eq!(made(&opens.hub, "add_note").len(), 1);
}

/// The value of a field of the last form on a page.
fn field<'p>(page: &'p str, name: &str) -> &'p str {
    let form = page.rsplit("<form").next().expect("a form");
    let after = form.split(&format!("name=\"{name}\" value=\"")).nth(1).expect("a field");
    after.split('"').next().expect("a value")
}

#[test]
fn an_answer_that_meets_a_locked_run_is_recorded_when_the_lock_is_free() {
    let mut opens = Opens::new();
    let (run, address) = opens.waits(POSTS);
    let (host, path) = parts(&address);
    let root = path.split("open?").next().expect("a path");
    let get = |target: &str, cookie: &str| {
        ask(host, &format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}"), "")
    };
    let (_, head, _) = get(path, "x=y");
    let cookie = head.split("set-cookie: ").nth(1).and_then(|rest| rest.split(';').next());
    let cookie = cookie.expect("a cookie").to_owned();
    let (_, _, page) = get(root, &cookie);
    let drawn = std::time::Instant::now();
    let lock = opens.hub.store().join("locks").join(format!("{run}.lock"));
    let lock = std::fs::File::open(lock).expect("a lock");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    until("the page to be awake", || (drawn.elapsed() > Duration::from_millis(800)).then_some(()));
    let body = format!(
        "csrf={}&run={run}&shown={}&choice=once",
        field(&page, "csrf"),
        field(&page, "shown")
    );
    let post = format!(
        "POST {root}decide HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nCookie: {cookie}\r\nContent-Type: application/x-www-form-urlencoded"
    );
    // It answers after a while, whether the answer is recorded by then or not.
    assert_eq!(ask(host, &post, &body).0, 303);
    assert_eq!(decided(&opens.hub, &run), Vec::<String>::new());
    drop(lock);
    assert_eq!(over(&opens.hub, &run), "completed");
    assert_eq!(decided(&opens.hub, &run), ["once by page"]);
    // The same form again, now that the run is over: late, kept as that, and nothing happens.
    assert_eq!(ask(host, &post, &body).0, 303);
    until("a late answer on record", || {
        (refused(&opens.hub, &run) == ["differs by page"]).then_some(())
    });
    assert_eq!(made(&opens.hub, "add_note").len(), 1);
}
