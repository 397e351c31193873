//! Search and describe over a small hub, as text a model reads.

use super::*;
use crate::adapters::postings::MemoryIndex;
use crate::model::connection::Place;
use crate::model::contract::Contract;
use crate::model::facts::{SourceFacts, SourcePolicy};
use crate::model::policy::{ConnectionScope, Effect, Pin, Policy, Rule, Scope};
use crate::model::source::{Consent, ManifestTool, SourceRecord, StdioCommand, Transport};
use crate::model::time::WallMs;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn source(number: u8, namespace: &str, tools: &[Value]) -> SourceFacts {
    let transport = Transport::Stdio(StdioCommand {
        program: "/bin/x".into(),
        args: vec![],
        cwd: "/".into(),
        path: String::new(),
        set: BTreeMap::new(),
        pass: vec![],
    });
    let record = SourceRecord {
        id: SourceId::from_random([number; 10]),
        namespace: namespace.parse().unwrap(),
        label: None,
        consent: Some(Consent { transport: transport.digest(), given: WallMs(0) }),
        transport,
        added: WallMs(0),
    };
    let mut facts = SourceFacts::new(record, None, SourcePolicy::Usable(Policy::default()));
    let mut policy = Policy::default();
    for tool in tools {
        let contract = Contract::from_listed(tool.as_object().unwrap());
        let raw = contract.raw_name().unwrap();
        let digest = contract.digest();
        policy.pins.insert(raw.clone(), Pin { contract: digest, reviewed: WallMs(0) });
        let name = crate::core::addresses::identifier(raw.as_str()).parse().unwrap();
        facts.tools.insert(raw.clone(), ManifestTool { name, raw, digest, contract });
    }
    facts.policy = SourcePolicy::Usable(policy);
    facts
}

fn tool(name: &str, description: &str, read_only: bool, fields: &[&str]) -> Value {
    let fields: serde_json::Map<String, Value> =
        fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
    json!({"name": name, "description": description, "annotations": {"readOnlyHint": read_only},
           "inputSchema": {"type": "object", "properties": fields}})
}

fn index() -> Index<MemoryIndex> {
    let mut github = source(
        1,
        "github",
        &[
            tool(
                "create_issue",
                "Create an issue in a repository. Needs a token.",
                false,
                &["owner", "title"],
            ),
            tool("search_issues", "Search issues and pull requests.", true, &["q"]),
            tool("list_commits", "List commits of a branch.", true, &["branch"]),
            tool("delete_repo", "Delete a repository.", false, &["owner"]),
        ],
    );
    for name in ["personal", "work"] {
        github.connections.enter(&name.parse().unwrap(), Place::Bearer, WallMs(0));
    }
    if let SourcePolicy::Usable(policy) = &mut github.policy {
        let scope =
            Scope { tool: Some("delete_repo".parse().unwrap()), connection: ConnectionScope::Any };
        policy.rules.push(Rule { scope, effect: Effect::Deny, contract: None });
    }
    let slack = source(
        2,
        "slack",
        &[
            tool("post_message", "Post a message to a channel.", false, &["channel", "text"]),
            tool("list_channels", "List channels.", true, &[]),
        ],
    );
    let sources =
        [github, slack].into_iter().map(|source| (source.record.id.clone(), source)).collect();
    let catalog = Catalog::new(Arc::new(Facts { sources, ..Facts::default() }));
    let postings = MemoryIndex::build(&catalog.documents());
    Index::new(catalog, postings)
}

#[expect(clippy::needless_pass_by_value, reason = "reads better in the cases")]
fn found(arguments: Value) -> String {
    match Request::read(&arguments).and_then(|request| search(&index(), &request)) {
        Ok(text) => text,
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn hits_are_grouped_marked_and_counted() {
    insta::assert_snapshot!(found(json!({"query": "issues", "limit": 1})), @r"
    github  (connections: personal*, work)
      github.searchIssues(input?: { q?: string }): Promise<unknown>
        Search issues and pull requests.
    1 more match. Narrow the query or pass namespace.
    ");
    insta::assert_snapshot!(found(json!({"query": "create issue in a repository"})), @r"
    github  (connections: personal*, work)
      github.createIssue(input?: { owner?: string; title?: string }): Promise<unknown>   [asks]
        Create an issue in a repository.
      github.searchIssues(input?: { q?: string }): Promise<unknown>
        Search issues and pull requests.
    1 match is hidden: denied by the user's policy.
    ");
}

#[test]
fn an_empty_query_lists_a_namespace_or_the_namespaces() {
    insta::assert_snapshot!(found(json!({"namespace": "slack"})), @r"
    slack
      slack.listChannels(): Promise<unknown>
        List channels.
      slack.postMessage(input?: { channel?: string; text?: string }): Promise<unknown>   [asks]
        Post a message to a channel.
    ");
    insta::assert_snapshot!(found(json!({})), @r"
    github (4 tools)  (connections: personal*, work)
    slack (2 tools)
    Pass `namespace` to list one of them, or a query to search all.
    ");
    let index = index();
    let visible = index.facts().visible();
    let mut inventory = Inventory::default();
    assert!(visible.iter().all(|source| inventory.add(&source.record, source.tools.len())));
    insta::assert_snapshot!(inventory.finish(visible.len()), @"github (4 tools), slack (2 tools)");
    let mut full = Inventory::default();
    let named = (0..500).take_while(|_| full.add(&visible[0].record, 10_000)).count();
    assert!((10..100).contains(&named), "{named}");
    assert!(full.finish(500).ends_with(&format!(" and {} more", 500 - named)));
}

#[test]
fn what_is_near_is_found_and_what_is_not_is_said() {
    for query in [
        "mesage",
        "messages",
        "mess",
        "posting",
        "chanel",
        "COMMITS",
        "listCommits",
        "list-commits",
    ] {
        assert!(!found(json!({"query": query})).starts_with("Nothing"), "{query}");
    }
    insta::assert_snapshot!(found(json!({"query": "zzzz"})), @r#"Nothing matches "zzzz". Try other words, or search with an empty query to list the namespaces."#);
    // Connection names are no words of any tool.
    assert!(found(json!({"query": "personal"})).starts_with("Nothing"));
}

#[test]
fn out_of_range_input_names_field_and_range() {
    insta::assert_snapshot!(found(json!({"query": "x".repeat(201)})), @"error: `query` has 201 characters; it may have 0 to 200");
    insta::assert_snapshot!(found(json!({"limit": 26})), @"error: `limit` must be an integer from 1 to 25");
    insta::assert_snapshot!(found(json!({"limit": 0})), @"error: `limit` must be an integer from 1 to 25");
    insta::assert_snapshot!(found(json!({"q": "x"})), @"error: there is no field `q`; `search` takes `query`, `namespace` and `limit`");
    insta::assert_snapshot!(found(json!({"namespace": "githb", "query": "x"})), @"error: there is no namespace `githb`; there is `github`");
    assert!(Request::read(&json!({"query": "é".repeat(200), "limit": 25.0})).is_ok());
    let targets = |value: Value| {
        read_targets(&json!({"targets": value})).map_or_else(|e| e.to_string(), |t| t.join(" "))
    };
    insta::assert_snapshot!(targets(json!([])), @"`targets` has 0 items; it may have 1 to 10");
    insta::assert_snapshot!(targets(json!(vec!["a"; 11])), @"`targets` has 11 items; it may have 1 to 10");
    insta::assert_snapshot!(targets(json!([1])), @"`targets` must be a list of 1 to 10 strings");
    assert_eq!(targets(json!("github")), "github");
}

fn described(targets: &[&str]) -> String {
    let targets: Vec<String> = targets.iter().map(|target| (*target).to_owned()).collect();
    describe(index().facts(), &targets, DESCRIBE_TOKENS)
        .unwrap_or_else(|error| format!("error: {error}"))
}

#[test]
fn describe_takes_addresses_and_namespaces_and_says_what_is_not_there() {
    insta::assert_snapshot!(described(&["slack", "github.searchIssues", "github.searchIsues"]), @r#"
    interface CallOptions {
    	/** One of the namespace's connections; the default one if left out. */
    	connection?: string;
    }
    declare const slack: {
    	/** List channels. */
    	listChannels(options?: CallOptions): Promise<unknown>;
    	/** Post a message to a channel. [asks] */
    	postMessage(input?: {
    		channel?: string;
    		text?: string;
    	}, options?: CallOptions): Promise<unknown>;
    };
    /** connections: personal*, work */
    declare const github: {
    	/** Search issues and pull requests. */
    	searchIssues(input?: {
    		q?: string;
    	}, options?: CallOptions): Promise<unknown>;
    };
    // there is no tool `github.searchIsues`; did you mean `github.searchIssues`
    "#);
    insta::assert_snapshot!(described(&["slak"]), @"error: there is no namespace `slak`; there is `slack`");
    insta::assert_snapshot!(described(&["slack.zzz"]), @"error: there is no tool `slack.zzz`; search with namespace `slack` lists them");
    // A denied tool is not described.
    insta::assert_snapshot!(described(&["github.deleteRepo"]), @"error: there is no tool `github.deleteRepo`; search with namespace `github` lists them");
}

#[test]
fn words_split_at_case_separators_and_digits() {
    let check = |text: &str, expected: &str| assert_eq!(words::words(text).join(" "), expected);
    check("createIssue", "create issue");
    check("HTTPServer_v2", "http server v 2");
    check("Größe naïve", "große naive");
    check("日本 tool", "日 本 tool");
    check("", "");
}
