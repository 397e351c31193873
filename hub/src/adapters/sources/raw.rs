//! Results that must arrive exactly as they came: nothing in between may drop a member, refuse a tool or
//! round a number.

use super::child::Scrub;
use crate::model::json::cut;
use rmcp::RoleClient;
use rmcp::model::ServerResult;
use rmcp::service::RxJsonRpcMessage;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Methods whose results are wrapped, so that the protocol library hands them on unread.
const METHODS: &[&str] = &["tools/list", "tools/call"];

/// Bytes of an error's message that are kept.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// Requests on their way whose results are wrapped. Clones share them.
#[derive(Clone)]
pub(super) struct RawResults {
    ids: Arc<Mutex<BTreeSet<String>>>,
    scrub: Scrub,
}

impl RawResults {
    /// No request is on its way. `scrub` is for what is cut.
    pub(super) fn new(scrub: Scrub) -> RawResults {
        RawResults { ids: Arc::default(), scrub }
    }

    /// Takes note of a message that leaves.
    pub(super) fn note(&self, message: &Value) {
        let method = message.get("method").and_then(Value::as_str);
        if let (Some("notifications/cancelled"), Some(id)) =
            (method, message.pointer("/params/requestId"))
        {
            self.lock().remove(&id.to_string());
        }
        if let (true, Some(id)) =
            (method.is_some_and(|method| METHODS.contains(&method)), message.get("id"))
        {
            self.lock().insert(id.to_string());
        }
    }

    /// Turns what arrived into a message; `None` if it is no JSON-RPC.
    pub(super) fn message(&self, mut value: Value) -> Option<RxJsonRpcMessage<RoleClient>> {
        let members = value.as_object_mut()?;
        if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return None;
        }
        if let Some(error) = members.get("error") {
            // An answer that is both is an error, and an error of any shape is one: nobody waits for more.
            let error = readable(error, &self.scrub);
            members.insert("error".to_owned(), error);
            members.remove("result");
        }
        let answers = !members.contains_key("method");
        if let Some(id) = members.get("id").filter(|_| answers).map(Value::to_string)
            && self.lock().remove(&id)
            && members.contains_key("result")
        {
            // No typed result is a list, so what comes out is exactly what came in.
            let result = members.remove("result").unwrap_or(Value::Null);
            members.insert("result".to_owned(), Value::Array(vec![result]));
        }
        serde_json::from_value(value).ok()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An error in the shape that the protocol wants.
fn readable(error: &Value, scrub: &Scrub) -> Value {
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let message = error.get("message").and_then(Value::as_str);
    let message = message.map_or_else(
        || error.as_str().map_or_else(|| error.to_string(), str::to_owned),
        str::to_owned,
    );
    // Before it is cut: half a secret is one, too.
    let message = scrub(&message);
    let mut members = serde_json::Map::new();
    members.insert("code".to_owned(), Value::from(code.unwrap_or(-32603)));
    members.insert("message".to_owned(), Value::from(cut(&message, MESSAGE_BYTES_MAX)));
    if let Some(data) = error.get("data") {
        members.insert("data".to_owned(), data.clone());
    }
    Value::Object(members)
}

/// The result as it came, out of its wrapping.
pub(super) fn unwrapped(answer: ServerResult) -> Option<Value> {
    let value = if let ServerResult::CustomResult(custom) = answer {
        custom.0
    } else {
        serde_json::to_value(answer).ok()?
    };
    let Value::Array(mut wrapped) = value else { return None };
    wrapped.pop().filter(|_| wrapped.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_is_kept_for_a_request_that_is_over() {
        let raw = RawResults::new(Arc::new(str::to_owned));
        for id in [1, 2, 3] {
            raw.note(&json!({"id": id, "method": "tools/call"}));
        }
        // What the server asks has ids of its own.
        raw.message(json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "result": {}}));
        let answer = raw.message(json!({"jsonrpc": "2.0", "id": 1, "result": "odd"})).unwrap();
        assert_eq!(serde_json::to_value(answer).unwrap()["result"], json!(["odd"]));
        raw.message(json!({"jsonrpc": "2.0", "id": 2, "error": {"code": 1, "message": "no"}}));
        let taken_back = json!({"method": "notifications/cancelled", "params": {"requestId": 3}});
        raw.note(&taken_back);
        assert!(raw.lock().is_empty());
    }

    #[test]
    fn an_error_of_any_shape_is_an_answer() {
        let raw = RawResults::new(Arc::new(str::to_owned));
        for (error, code, message) in [
            (json!({"code": -5, "message": "no"}), -5, "no"),
            (json!({"code": "x", "message": "no"}), -32603, "no"),
            (json!({"code": 1e10, "message": 7}), -32603, "{\"code\":10000000000.0,\"message\":7}"),
            (json!("plain words"), -32603, "plain words"),
            (Value::Null, -32603, "null"),
        ] {
            let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}, "error": error});
            let message_read = raw.message(answer).unwrap_or_else(|| panic!("{error}"));
            let read = serde_json::to_value(message_read).unwrap();
            assert_eq!(
                (&read["error"]["code"], &read["error"]["message"]),
                (&json!(code), &json!(message))
            );
        }
    }
}
