//! What calls of the awkward server do.

use super::{LARGE_INTEGER, Server, error, lock};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Exit status of the process when `crash` is called.
pub(super) const CRASHED: i32 = 70;
/// A picture of one transparent dot.
const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
/// How often something outside is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How often an answer of the client is looked for.
const LOOKS_MAX: u32 = 500;

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

impl Server {
    /// Answers one call, or does what else it does.
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    pub(super) fn call(&self, id: &Value, params: &Value, say: &(dyn Fn(String) + Sync)) {
        let arguments = params.get("arguments").unwrap_or(&Value::Null);
        let done =
            |result: &Value| json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
        let block = |block: Value| json!({ "content": [block] });
        let number = |name: &str| arguments[name].as_u64();
        let result = match params["name"].as_str().unwrap_or_default() {
            "deep_structured" => {
                let levels = usize::try_from(number("n").unwrap_or(6_000)).unwrap_or(0);
                let (open, close) = ("[".repeat(levels), "]".repeat(levels));
                return say(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{open}{close}}}}}"#
                ));
            }
            // Few bytes on their way, and very many values once they are read.
            "bomb" => {
                let piece = arguments["piece"].as_str().unwrap_or("[]");
                let bytes = usize::try_from(number("bytes").unwrap_or(30 << 20)).unwrap_or(0);
                let pieces = vec![piece; bytes / (piece.len() + 1)].join(",");
                return say(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":[{pieces}]}}}}"#
                ));
            }
            "structured_only" => json!({ "content": [], "structuredContent": { "v": 7 } }),
            "structured" => {
                let value = match arguments["kind"].as_str().unwrap_or_default() {
                    "null" => Value::Null,
                    "boolean" => json!(true),
                    "integer" => json!(LARGE_INTEGER),
                    "number" => json!(1.5),
                    "string" => json!("text"),
                    "array" => json!([1, [2], {}]),
                    _ => json!({ "a": { "b": [] } }),
                };
                let content = match arguments["text"].as_bool() {
                    Some(true) => json!([{ "type": "text", "text": "something else" }]),
                    Some(false) | None => json!([]),
                };
                json!({ "content": content, "structuredContent": value })
            }
            "declared_not_returned" => text("plain text, no structured content"),
            "err_structured" => {
                let mut result = text("short summary");
                result["isError"] = json!(true);
                result["structuredContent"] = json!({ "trace": "full detail here" });
                result
            }
            "err_empty" => json!({ "content": [], "isError": true }),
            // Written by hand: a typed number could not hold it everywhere.
            "bigint" => {
                return say(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{{\"id\":{LARGE_INTEGER}}}"}}],"structuredContent":{{"id":{LARGE_INTEGER},"max":18446744073709551615,"min":-9223372036854775808}}}}}}"#
                ));
            }
            "surrogate" => {
                return say(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"nul \u0000, lone \ud800 and paragraph \u2028 separators"}}]}}}}"#
                ));
            }
            "image" => block(json!({ "type": "image", "data": DOT, "mimeType": "image/png" })),
            "audio" => block(json!({ "type": "audio", "data": DOT, "mimeType": "audio/wav" })),
            "resource" => block(
                json!({ "type": "resource", "resource": { "uri": "note://1", "mimeType": "text/plain", "text": "a note" } }),
            ),
            "resource_link" => {
                block(json!({ "type": "resource_link", "uri": "note://2", "name": "two" }))
            }
            "unknown_block" => block(json!({ "type": "hologram", "data": "…" })),
            "mixed" => {
                json!({ "content": [{ "type": "text", "text": "{\"a\":1}" }, { "type": "image", "data": DOT, "mimeType": "image/png" }, 7, null] })
            }
            "multi_text" => {
                json!({ "content": [{ "type": "text", "text": "{\"a\":1}" }, { "type": "text", "text": "{\"b\":2}" }] })
            }
            "empty" => json!({ "content": [] }),
            "no_content" => json!({}),
            "null_content" => json!({ "content": null }),
            "bad_json_text" => text("{\"looks\": like json"),
            "number_text" => text("12"),
            "deep_json_text" => text(&format!("{}{}", "[".repeat(5_000), "]".repeat(5_000))),
            "huge" => {
                text(&"z".repeat(usize::try_from(number("n").unwrap_or(5_000_000)).unwrap_or(0)))
            }
            "echo_args" => text(&arguments.to_string()),
            "env" => {
                let mut names: Vec<String> = std::env::vars_os()
                    .map(|(name, _)| name.to_string_lossy().into_owned())
                    .collect();
                names.sort();
                text(&json!(names).to_string())
            }
            "twice" => {
                say(done(&text("first")));
                text("second")
            }
            "wrong_id_first" => {
                say(json!({ "jsonrpc": "2.0", "id": 999_999, "result": text("not yours") })
                    .to_string());
                say(json!({ "jsonrpc": "2.0", "id": null, "result": text("nobody's") }).to_string());
                text("yours")
            }
            "both" => {
                return say(json!({ "jsonrpc": "2.0", "id": id, "result": text("a result"),
                    "error": { "code": -1, "message": "and an error" } })
                .to_string());
            }
            "no_object" => json!("a text instead of a result"),
            "input_required" => json!({ "resultType": "input_required", "inputRequests": {} }),
            "crash" => std::process::exit(CRASHED),
            "hang" => return,
            "set" => {
                *lock(&self.kept) = arguments["value"].clone();
                text("kept")
            }
            "get" => text(&lock(&self.kept).to_string()),
            "progress" => {
                self.progress(id, params, say);
                text("done")
            }
            "wait_for" => {
                let path = arguments["path"].as_str().unwrap_or_default();
                while !Path::new(path).exists() {
                    if lock(&self.cancelled).contains(id) {
                        return;
                    }
                    std::thread::sleep(LOOK_EVERY);
                }
                text("it is there")
            }
            "change" => {
                self.changed.store(true, Ordering::SeqCst);
                say(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })
                    .to_string());
                text("changed")
            }
            "ask" => return self.ask(id, say),
            "a_b" => text("ran:a_b"),
            "" => return say(error(id, -32602, "which tool?")),
            name => text(&format!("ran:{name}")),
        };
        say(done(&result));
    }

    /// Reports progress as often as it was told to, until it is done or taken back.
    fn progress(&self, id: &Value, params: &Value, say: &(dyn Fn(String) + Sync)) {
        let token = &params["_meta"]["progressToken"];
        let (times, every) =
            (params["arguments"]["times"].as_u64(), params["arguments"]["everyMs"].as_u64());
        for step in 0..times.unwrap_or(3) {
            std::thread::sleep(Duration::from_millis(every.unwrap_or(10)));
            if lock(&self.cancelled).contains(id) {
                return;
            }
            if !token.is_null() {
                let params = json!({ "progressToken": token, "progress": step + 1 });
                say(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }).to_string());
            }
        }
    }

    /// Asks the client for everything a server may ask for, and says what came back.
    fn ask(&self, id: &Value, say: &(dyn Fn(String) + Sync)) {
        let mut told = Vec::new();
        for (method, params) in [
            ("ping", json!({})),
            ("roots/list", json!({})),
            ("sampling/createMessage", json!({ "messages": [], "maxTokens": 1 })),
            (
                "elicitation/create",
                json!({ "message": "Your password?", "requestedSchema": { "type": "object", "properties": {} } }),
            ),
        ] {
            let asked = format!("ask-{}", self.asked.fetch_add(1, Ordering::SeqCst));
            say(json!({ "jsonrpc": "2.0", "id": asked, "method": method, "params": params })
                .to_string());
            let answer = (0..LOOKS_MAX).find_map(|_| {
                std::thread::sleep(LOOK_EVERY);
                let answers = lock(&self.answers);
                answers.iter().find(|answer| answer["id"] == asked.as_str()).cloned()
            });
            told.push(match answer {
                None => format!("{method}: nothing"),
                Some(answer) if answer.get("error").is_some() => {
                    format!("{method}: error {}", answer["error"]["code"])
                }
                Some(answer) => format!("{method}: {}", answer["result"]),
            });
        }
        say(json!({ "jsonrpc": "2.0", "id": id, "result": text(&told.join("; ")) }).to_string());
    }
}
