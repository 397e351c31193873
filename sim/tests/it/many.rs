//! Ten thousand tools in two hundred sources, none of which can be started.

use crate::support::TestHub;
use serde_json::json;

fn hub() -> TestHub {
    let hub = TestHub::new();
    let folder = hub.file("capabilities/hub");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(sim::catalog::fill(&folder, 200, 50)).unwrap();
    hub
}

#[test]
fn ten_thousand_tools_are_found_described_and_listed() {
    let hub = hub();
    for _ in 0..2 {
        // The second process opens what the first one built.
        let mut client = hub.serve();
        let opened = client.initialize("2025-11-25");
        let instructions = opened["instructions"].as_str().unwrap().to_owned();
        // What definitions and the largest inventory cost together is counted elsewhere.
        assert!(instructions.contains(" and ") && instructions.contains(" more"), "{instructions}");
        let found = client.text("search", &json!({ "query": "export invoice service123" }));
        let first = found.lines().find(|line| line.contains("service123.")).unwrap_or_default();
        assert!(!first.is_empty(), "{found}");
        let described = client.text("describe", &json!({ "targets": ["service199.listIssue"] }));
        assert!(described.contains("listIssue("), "{described}");
        let all =
            client.text("search", &json!({ "query": "", "namespace": "service7", "limit": 25 }));
        assert_eq!(all.matches("service7.").count(), 25, "{all}");
        let envelope =
            client.execute("return (await hub.search('read contact', { limit: 3 })).length > 0");
        assert_eq!(envelope["result"], true, "{envelope:#}");
        client.close();
    }
    let kept = std::fs::read_dir(hub.file("capabilities/hub/index")).unwrap().flatten();
    assert_eq!(kept.filter(|entry| entry.path().is_dir()).count(), 1);
    assert_eq!(hub.json(["list"]).1["sources"].as_array().unwrap().len(), 200);
    // A removal is seen by the next search, in whichever process.
    let mut client = hub.serve();
    client.initialize("2025-11-25");
    hub.ok(["remove", "service42"]);
    let gone = client.text("search", &json!({ "query": "service42 label" }));
    assert!(!gone.contains("service42."), "{gone}");
}
