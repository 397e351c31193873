//! Connections: where a credential goes, which one a call uses, and what is left once it is removed.

use super::{CANARY, enter, entered};
use crate::support::TestHub;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use sim::leaky::OverHttp;

const COUNT: &str = "return (await leaky.text()).length";

fn added(hub: &TestHub, server: &OverHttp) {
    hub.ok(["add", "--accept", "--namespace", "leaky", &server.url()]);
}

#[test]
fn a_credential_goes_where_the_person_said() {
    let password = format!("ada:{CANARY}");
    let basic = format!("Basic {}", STANDARD.encode(&password));
    for (wants, flags, value) in [
        (("authorization", format!("Bearer {CANARY}")), vec![], CANARY),
        (("authorization", basic), vec!["--basic"], password.as_str()),
        (("x-api-key", CANARY.to_owned()), vec!["--header", "X-Api-Key"], CANARY),
        (("?api key", CANARY.to_owned()), vec!["--query", "apikey"], CANARY),
    ] {
        let wanted = if wants.0 == "?api key" { "?apikey" } else { wants.0 };
        let hub = TestHub::new();
        let server = OverHttp::start((wanted, &wants.1), CANARY).unwrap();
        added(&hub, &server);
        let mut arguments = vec!["leaky"];
        arguments.extend(&flags);
        entered(&hub, &arguments, value);
        hub.ok(["review", "--accept"]);
        assert_eq!(hub.exec(COUNT).1["result"], json!(13), "{flags:?} {:?}", server.refused());
    }
}

#[test]
fn each_call_uses_the_connection_it_names() {
    let hub = TestHub::new();
    let server = OverHttp::start(("authorization", "Bearer personal-token"), "x").unwrap();
    added(&hub, &server);
    entered(&hub, &["leaky"], "personal-token");
    entered(&hub, &["leaky", "--connection", "work"], "work-token");
    hub.ok(["review", "--accept"]);
    let code = "const say = async (o) => { try { await leaky.text({}, o); return 'fine' } catch (e) { return e.code } };
        return [await say(), await say({ connection: 'default' }), await say({ connection: 'work' }), await say({ connection: 'home' })]";
    let (_, envelope) = hub.exec(code);
    let expected = json!(["fine", "fine", "upstream_unauthorized", "unknown_connection"]);
    assert_eq!(envelope["result"], expected, "{envelope:#}");
    assert!(server.refused().contains(&"Bearer work-token".to_owned()), "{:?}", server.refused());
    let shown = hub.json(["connections", "leaky"]).1;
    let names: Vec<_> = shown["connections"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["name"].clone(), c["default"].clone()))
        .collect();
    assert_eq!(names, [(json!("default"), json!(true)), (json!("work"), json!(false))]);
    assert!(shown["connections"][0]["lastUsed"].is_u64(), "{shown:#}");
    hub.ok(["connections", "leaky", "--default", "work"]);
    assert_eq!(hub.exec(COUNT).1["error"]["code"], "uncaught_error");
}

#[test]
fn a_removed_connection_leaves_no_secret_and_a_removed_source_neither() {
    let hub = TestHub::new();
    let server = OverHttp::start(("authorization", "Bearer personal-token"), "x").unwrap();
    added(&hub, &server);
    entered(&hub, &["leaky"], "personal-token");
    entered(&hub, &["leaky", "--connection", "work"], "work-token");
    let kept = || {
        let text = std::fs::read_to_string(hub.file("capabilities").join(".env")).unwrap();
        text.lines().filter(|line| line.contains("_BEARER_")).count()
    };
    assert_eq!(kept(), 2);
    hub.ok(["connections", "leaky", "--remove", "work"]);
    assert_eq!(kept(), 1);
    let again = hub.run(["connections", "leaky", "--remove", "work"]);
    assert!(again.status == 1 && again.stderr.contains("has no connection `work`"), "{again:#?}");
    hub.ok(["remove", "leaky"]);
    assert_eq!(kept(), 0);
}

#[test]
fn an_edited_source_gets_no_credential_that_was_entered_for_another_origin() {
    let hub = TestHub::new();
    let server = OverHttp::start(("authorization", "Bearer personal-token"), "x").unwrap();
    added(&hub, &server);
    entered(&hub, &["leaky"], "personal-token");
    hub.ok(["review", "--accept"]);
    let thief = OverHttp::start(("authorization", "Bearer personal-token"), "x").unwrap();
    let id = hub.json(["list"]).1["sources"][0]["id"].as_str().unwrap().to_owned();
    let file = hub.store().join(format!("sources/{id}.json"));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace(&server.url(), &thief.url())).unwrap();
    // The edit undoes the consent; even a person who agrees to it again gives the credential to nobody else.
    let reviewed = hub.run(["review", "--accept"]);
    assert!(reviewed.stderr.contains("entered for another origin"), "{reviewed:#?}");
    let (_, envelope) = hub.exec("try { return await leaky.text() } catch (e) { return e.code }");
    assert_eq!(envelope["result"], json!("credential_elsewhere"), "{envelope:#}");
    assert_eq!(thief.refused(), Vec::<String>::new(), "nothing was sent");
    let doctor = hub.run(["doctor"]);
    assert!(doctor.stdout.contains("entered for another origin"), "{doctor:#?}");
}

#[test]
fn what_is_no_credential_is_refused_and_nothing_is_kept() {
    let hub = TestHub::new();
    let server = OverHttp::start(("authorization", "Bearer personal-token"), "x").unwrap();
    added(&hub, &server);
    for (arguments, value, expected) in [
        (vec!["leaky"], "short", "at least 6 bytes"),
        (vec!["leaky"], "two\nlines-of-text", "line break"),
        (vec!["leaky", "--basic"], "no-password", "user:password"),
        (vec!["leaky", "--header", "Host"], "personal-token", "belongs to the protocol"),
        (vec!["leaky", "--env", "TOKEN"], "personal-token", "no environment"),
        (vec!["leaky", "--connection", "a/b"], "personal-token", "is not a connection name"),
        (vec!["nothing"], "personal-token", "there is no source"),
    ] {
        let ended = enter(&hub, &arguments, value);
        assert_ne!(ended.status, 0, "{arguments:?}");
        assert!(ended.stderr.contains(expected), "{arguments:?}: {ended:#?}");
    }
    assert_eq!(hub.json(["connections", "leaky"]).1["connections"], json!([]));
    let mut agents = hub.command(["auth", "leaky", "--stdin"]);
    agents.env("CLAUDECODE", "1");
    let refused = hub.run_with(&agents, "personal-token\n");
    assert!(refused.status == 1 && refused.stderr.contains("for a person"), "{refused:#?}");
    let wrong = enter(&hub, &["leaky"], "another-token");
    assert!(wrong.status == 1 && wrong.stderr.contains("401"), "{wrong:#?}");
}
