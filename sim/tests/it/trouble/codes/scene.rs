//! A hub with low limits, a client and a person, for causing errors.

use super::super::said::plain;
use crate::support::{Client, TestHub};
use serde_json::{Value, json};

/// Limits that are reached at once.
const LIMITS: &str = r#""limits": {"codeBytes": 400, "computeMs": 300, "wallMs": 2500, "memoryBytes": 8388608, "maxCalls": 5, "upstreamTimeoutMs": 300, "callResultBytes": 1024}"#;

/// An error as the two readers see it.
#[derive(Debug)]
pub(super) struct Told {
    /// The code the model gets.
    pub(super) code: String,
    pub(super) message: String,
    pub(super) hint: String,
    /// What a person reads in a terminal, and the exit status.
    pub(super) person: Option<(String, u32)>,
}

impl Told {
    /// What the model is told by the answer to `execute`.
    pub(super) fn by(hub: &TestHub, answer: &Value) -> Told {
        let error = &answer["structuredContent"]["error"];
        if error.is_object() {
            return Told::with(hub, error);
        }
        let text = answer["content"][0]["text"].as_str().unwrap_or_default();
        let (first, hint) = text.rsplit_once('\n').unwrap_or((text, ""));
        let (code, message) = first.split_once(": ").unwrap_or(("", first));
        Told::with(hub, &json!({ "code": code, "message": message, "hint": hint }))
    }

    fn with(hub: &TestHub, error: &Value) -> Told {
        let member = |name: &str| plain(&hub.file(""), error[name].as_str().unwrap_or_default());
        Told {
            code: member("code"),
            message: member("message"),
            hint: member("hint"),
            person: None,
        }
    }

    /// And what a person was told.
    pub(super) fn and(mut self, hub: &TestHub, said: &str, status: u32) -> Told {
        self.person = Some((plain(&hub.file(""), said), status));
        self
    }
}

/// Adds a scripted server, of which every tool but those named by a key is as proposed.
pub(super) fn add(hub: &TestHub, namespace: &str, keys: &str) {
    let words = ["add", "--namespace", namespace].map(str::to_owned);
    let command = words.into_iter().chain(hub.server(namespace, &[]));
    let added = hub.at_terminal(&format!("yt{keys}"), command);
    assert_eq!(added.status, 0, "{}", added.output);
}

pub(super) fn connected(hub: &TestHub) -> Client {
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    client
}

/// Resumes a run; what the model is told.
pub(super) fn resumed(hub: &TestHub, run: &str) -> Told {
    Told::by(hub, &connected(hub).call("execute", &json!({ "resume": run })))
}

/// A person looks at a run at their terminal, and answers with these keys.
pub(super) fn approved(hub: &TestHub, run: &str, keys: &str) -> (String, u32) {
    let answered = hub.at_terminal(keys, ["approve", run]);
    let rest = answered.output.rsplit("> o\n").next().unwrap_or_default();
    let rest = rest.rsplit("> d\n").next().unwrap_or_default();
    (rest.to_owned(), answered.status)
}

/// Code that tells what a call's error says.
pub(super) fn catching(expression: &str) -> String {
    format!(
        "try {{ return await {expression}; }} catch (e) {{ return {{ code: e.code, message: e.message, hint: e.hint }}; }}"
    )
}

/// What the model's code learns of a failed call.
pub(super) fn caught(hub: &TestHub, envelope: &Value) -> Told {
    assert_eq!(envelope["status"], "completed", "{envelope:#}");
    Told::with(hub, &envelope["result"])
}

pub(super) struct Scene {
    pub(super) hub: TestHub,
    pub(super) client: Client,
}

impl Scene {
    pub(super) fn new() -> Scene {
        let hub = TestHub::new();
        // addNote and hangWrite run, deleteNote is denied, the other eight are as proposed.
        add(&hub, "notes", "r\rd\r\r\rr\r\r\r\r");
        let settings = hub.store().join("hub.json");
        let text = std::fs::read_to_string(&settings).expect("settings");
        assert!(text.contains("\"limits\": {}"), "{text}");
        std::fs::write(settings, text.replace("\"limits\": {}", LIMITS)).expect("written");
        let client = connected(&hub);
        Scene { hub, client }
    }

    pub(super) fn run(&mut self, program: &str) -> Told {
        let answer = self.client.call("execute", &json!({ "code": program }));
        let ended = self.hub.run(["exec", program]);
        assert_eq!(ended.stdout, "", "{ended:#?}");
        Told::by(&self.hub, &answer).and(&self.hub, &ended.stderr, ended.status)
    }

    pub(super) fn call(&mut self, expression: &str) -> Told {
        let envelope = self.client.execute(&catching(expression));
        let ended = self.hub.run(["exec", &format!("return await {expression}")]);
        caught(&self.hub, &envelope).and(&self.hub, &ended.stderr, ended.status)
    }
}
