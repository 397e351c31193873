//! Schemas of every kind → signatures and declarations, as text a person can read.

use super::*;
use serde_json::{Value, json};

fn contract(value: &Value) -> Contract {
    Contract::from_listed(value.as_object().unwrap())
}

/// The whole declaration of one tool.
fn declared(tool: &Value, tokens_max: usize) -> Declared {
    let contract = contract(tool);
    let tools = NamespaceTools {
        namespace: "github",
        connections: "connections: personal*, work".to_owned(),
        tools: vec![("createIssue", &contract, "[asks]".to_owned())],
    };
    declare(&[Target::Tool(&tools, 0)], tokens_max)
}

fn tool() -> Value {
    json!({
        "name": "create_issue", "description": "Create an issue in a repository. Closes */ nothing.",
        "inputSchema": {"type": "object", "required": ["title", "owner"], "properties": {
            "labels": {"type": "array", "items": {"type": "string"}, "description": "Labels to add."},
            "owner": {"type": "string"},
            "title": {"type": "string", "description": "Short.\nOne line."},
            "state": {"enum": ["open", "closed", null], "default": "open"},
            "content-type": {"type": ["string", "null"]},
            "meta": {"type": "object", "properties": {"a": {"type": "object", "properties": {
                "b": {"type": "object", "properties": {"c": {"type": "integer", "format": "int64"}}}}}}},
            "parent": {"$ref": "#/$defs/Node"}},
            "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "v": true}}}},
        "outputSchema": {"type": "object", "required": ["id"], "properties": {
            "id": {"type": "integer"}, "url": {"type": "string"}}}
    })
}

#[test]
fn a_signature_is_one_line_with_required_fields_first() {
    insta::assert_snapshot!(signature("github", "createIssue", &contract(&tool())), @r#"github.createIssue(input: { owner: string; title: string; labels?: string[]; state?: "open" | "closed" | null; "content-type"?: string | null; meta?: CreateIssueMeta; parent?: CreateIssueNode }): Promise<CreateIssueResult>"#);
    insta::assert_snapshot!(signature("a", "b", &contract(&json!({"name": "b"}))), @"a.b(): Promise<unknown>");
}

#[test]
fn a_declaration_has_comments_options_and_named_interfaces() {
    insta::assert_snapshot!(declared(&tool(), 2_500).text);
}

#[test]
fn types_of_every_kind() {
    let shown = |schema: Value| {
        let tool =
            json!({"name": "t", "inputSchema": {"type": "object", "properties": {"x": schema}}});
        let text = signature("n", "t", &contract(&tool));
        text.split_once("x?: ").and_then(|(_, rest)| rest.split_once(" }): ")).unwrap().0.to_owned()
    };
    let check =
        |schema: Value, expected: &str| assert_eq!(shown(schema.clone()), expected, "{schema}");
    check(json!(true), "unknown");
    check(json!(false), "never");
    check(json!({}), "unknown");
    check(json!({"type": "any"}), "unknown");
    check(json!({"const": "a"}), "\"a\"");
    check(json!({"enum": [1, "a", true]}), "1 | \"a\" | true");
    check(json!({"type": ["integer", "string"]}), "number | string");
    check(json!({"type": "string", "nullable": true}), "string | null");
    check(json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), "string | null");
    check(
        json!({"oneOf": [{"type": "array", "items": {"enum": ["a", "b"]}}, {"type": "number"}]}),
        "(\"a\" | \"b\")[] | number",
    );
    check(json!({"type": "array"}), "unknown[]");
    check(json!({"items": {"type": "string"}}), "string[]");
    check(
        json!({"prefixItems": [{"type": "string"}, {"type": "number"}], "items": false, "minItems": 1}),
        "[string, number?]",
    );
    check(json!({"items": [{"type": "string"}]}), "[string?, ...unknown[]]");
    check(json!({"type": "object"}), "Record<string, unknown>");
    check(
        json!({"type": "object", "additionalProperties": {"type": "number"}}),
        "Record<string, number>",
    );
    check(json!({"type": "object", "additionalProperties": false}), "Record<string, never>");
    check(json!({"type": "integer", "format": "int64"}), "number | bigint");
    check(json!({"allOf": [{"type": "string"}, {"type": "number"}]}), "string & number");
    check(json!({"$ref": "#/nowhere"}), "unknown");
    check(json!({"$ref": "http://example.com/x"}), "unknown");
    check(json!({"enum": ["a\u{202e}\"*/"]}), "\"a\\u{202e}\\\"*/\"");
}

#[test]
fn recursion_and_depth_end_in_names_or_unknown() {
    let mut deep = json!({"type": "string"});
    for _ in 0..500 {
        deep = json!({"type": "array", "items": deep});
    }
    let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": {
        "list": {"$ref": "#/$defs/L"}, "deep": deep, "self": {"$ref": "#"}},
        "$defs": {"L": {"type": "array", "items": {"$ref": "#/$defs/L"}}}}});
    insta::assert_snapshot!(signature("n", "t", &contract(&tool)), @"n.t(input?: { list?: unknown[]; deep?: unknown[][][][][][][][][][][][][]; self?: TInput }): Promise<unknown>");
}

#[test]
fn a_huge_enum_is_cut_and_counted() {
    let values: Vec<String> = (0..5000).map(|n| format!("v{n}")).collect();
    let text = declared(
        &json!({"name": "t", "inputSchema": {"properties": {"e": {"enum": values}}}}),
        2_500,
    )
    .text;
    assert!(text.contains("5000 values in all."), "{text}");
    assert!(text.len() < 1_500, "{}", text.len());
}

#[test]
fn nothing_exceeds_the_budget_and_what_is_left_out_is_named() {
    let fields: serde_json::Map<String, Value> = (0..300)
        .map(|n| {
            (
                format!("field_{n}"),
                json!({"type": "string", "description": "What this field is about."}),
            )
        })
        .collect();
    let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": fields}});
    for tokens_max in [300, 600, 1_200, 2_500] {
        let declared = declared(&tool, tokens_max);
        let used = crate::model::tokens::estimate(&declared.text);
        assert!(used <= tokens_max, "{used} over {tokens_max}");
        assert!(declared.cut);
        assert!(tokens_max < 1_000 || used * 6 >= tokens_max * 5, "{used} of {tokens_max}");
        assert!(tokens_max > 2_000 || declared.text.contains("more fields"), "{}", declared.text);
    }
}

#[test]
fn an_interface_is_described_on_its_own() {
    let contract = contract(&tool());
    let tools = NamespaceTools {
        namespace: "github",
        connections: String::new(),
        tools: vec![("createIssue", &contract, String::new())],
    };
    let named = |name: &str| declare(&[Target::Interface(&tools, name.to_owned())], 2_500);
    insta::assert_snapshot!(named("CreateIssueNode").text, @r"
    declare namespace github {
    	interface CreateIssueNode {
    		next?: CreateIssueNode;
    		v?: unknown;
    	}
    }
    ");
    assert!(named("CreateIssueMetaAB").unknown.is_empty());
    assert_eq!(named("CreateIssueNothing").unknown, ["github.CreateIssueNothing"]);
}

proptest::proptest! {
    #[test]
    fn no_schema_panics_or_breaks_out_of_its_line(
        name in "[^/*]{0,12}", text in "(?s).{0,40}", kind in proptest::sample::select(vec!["string", "object", "array", "x"]),
    ) {
        let tool = json!({"name": "t", "description": text, "inputSchema": {"type": "object", "properties": {
            name: {"type": kind, "description": text, "default": text}}}});
        let line = signature("n", "t", &contract(&tool));
        proptest::prop_assert!(!line.contains('\n'));
        let whole = declared(&tool, 2_500).text;
        // Every comment that opens closes once, so no text of the server's stands outside one.
        proptest::prop_assert_eq!(whole.matches("/*").count(), whole.matches("*/").count());
    }
}
