//! Every word a model reads before it calls anything: clear, short, and within 1,000 tokens in all.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::sync::Arc;

const SEARCH: &str = "Find the user's tools by what you want to do, for example \"create a GitHub issue\" or \"recent Slack messages\". Returns tool addresses with one-line TypeScript signatures, best match first; `[asks]` marks tools that need the user's approval. Read full types with `describe` before writing code. Pass `namespace` to search or list one source.";

const DESCRIBE: &str = "Get exact TypeScript declarations for tools: an address (`github.createIssue`), a whole namespace (`github`, budget permitting), or a type named in an earlier declaration (`github.CreateIssueResult`). Write `execute` code against these types.";

const EXECUTE: &str = "Run JavaScript in a sandbox where each of the user's sources is a global object of async functions: `await github.createIssue({ owner, repo, title })`. TypeScript annotations are allowed and stripped. Write the body of an async function and `return` what you need, small; run independent calls in parallel with `Promise.all`. Failed calls throw `ToolError` (`code`, `hint`, `retryable`). There is no network or filesystem besides these functions; `hub.search` and `hub.describe` work inside code. If a call needs the user's approval, the result says so: tell the user, then continue with `{ \"resume\": \"<runId>\" }` after they decide. Never ask the user for passwords or tokens in chat.";

/// What the server says about itself when a client connects.
#[must_use]
pub fn instructions(inventory: &str) -> String {
    let has = if inventory.is_empty() {
        "It has no sources yet; the user adds them in a terminal.".to_owned()
    } else {
        format!("Namespaces: {inventory}.")
    };
    format!(
        "The user's own tools and services, behind three tools: search, describe, execute. Before saying that something is not possible, search. {has} Work in this order: search → describe → one execute that chains the calls. Reads run at once; writes ask the user."
    )
}

/// The three tools, and no other.
#[must_use]
pub fn definitions() -> Vec<Tool> {
    let read_only = ToolAnnotations::new().read_only(true).idempotent(true).open_world(false);
    let search = json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "maxLength": 200, "description": "What you want to do. Empty lists the namespace, or all namespaces." },
            "namespace": { "type": "string" },
            "limit": { "type": "integer", "minimum": 1, "maximum": 25, "default": 8 }
        },
        "additionalProperties": false
    });
    let describe = json!({
        "type": "object",
        "properties": {
            "targets": { "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": 10 }
        },
        "required": ["targets"],
        "additionalProperties": false
    });
    let execute = json!({
        "type": "object",
        "properties": {
            "code": { "type": "string", "description": "Body of an async function, up to 64 KB." },
            "resume": { "type": "string", "description": "A runId to continue; instead of code." }
        },
        "additionalProperties": false
    });
    let envelope = json!({
        "type": "object",
        "properties": {
            "runId": { "type": "string" },
            "status": { "enum": ["completed", "failed", "awaiting_approval", "awaiting_connection", "cancelled", "running"] },
            "result": {},
            "error": { "type": "object" },
            "logs": { "type": "array" },
            "calls": { "type": "array" },
            "pending": { "type": "array" },
            "truncated": { "type": "object" },
            "notices": { "type": "array" }
        },
        "required": ["runId", "status", "calls"]
    });
    vec![
        Tool::new("search", SEARCH, object(search))
            .with_title("Search tools")
            .with_annotations(read_only.clone()),
        Tool::new("describe", DESCRIBE, object(describe))
            .with_title("Describe tools")
            .with_annotations(read_only),
        Tool::new("execute", EXECUTE, object(execute))
            .with_title("Run code")
            .with_annotations(ToolAnnotations::new().read_only(false).open_world(true))
            .with_raw_output_schema(Arc::new(object(envelope))),
    ]
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            JsonObject::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_fits_what_clients_show_of_it() {
        for tool in definitions() {
            let text = tool.description.unwrap_or_default();
            assert!(text.len() < 2048, "{} has {} bytes", tool.name, text.len());
        }
        assert!(instructions(&"x".repeat(800)).len() < 2048);
    }
}
