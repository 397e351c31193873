//! What servers send, read member by member: one odd tool or block never costs the others.

use super::child::Scrub;
use crate::model::call::{Block, UpstreamResult};
use crate::model::contract::Contract;
use crate::model::json::{DEPTH_MAX, is_too_deep};
use crate::model::visible::one_line;
use crate::ports::sources::CallError;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Tools one source may list.
const TOOLS_MAX: usize = 20_000;
/// Bytes of one tool as JSON; a larger one is dropped with a notice.
const TOOL_BYTES_MAX: usize = 512 * 1024;
/// Bytes of all tools of one source.
const LISTING_BYTES_MAX: usize = 32 << 20;
/// Bytes the cursor of a page may have: each is kept, and sent back.
const CURSOR_BYTES_MAX: usize = 4 * 1024;
/// Notices kept of one listing.
const NOTICES_MAX: usize = 50;

/// Collects the pages of a listing.
pub(super) struct Pages {
    scrub: Scrub,
    pub(super) tools: Vec<Contract>,
    pub(super) notices: Vec<String>,
    names: BTreeSet<String>,
    cursors: BTreeSet<String>,
    bytes: usize,
}

impl Pages {
    /// Nothing listed yet. `scrub` is for what is shown of names.
    pub(super) fn new(scrub: Scrub) -> Pages {
        Pages {
            scrub,
            tools: Vec::new(),
            notices: Vec::new(),
            names: BTreeSet::new(),
            cursors: BTreeSet::new(),
            bytes: 0,
        }
    }

    /// A tool's name, for a notice: scrubbed before it is cut.
    fn shown(&self, name: &str) -> String {
        one_line(&(self.scrub)(name), 60)
    }

    /// Takes one page; the cursor of the next, if there is one that leads anywhere.
    pub(super) fn take(&mut self, page: &Value) -> Result<Option<String>, String> {
        let Some(tools) = page.get("tools").and_then(Value::as_array) else {
            return Err("its tool list is not a list".to_owned());
        };
        for tool in tools {
            self.take_tool(tool);
        }
        let Some(cursor) =
            page.get("nextCursor").and_then(Value::as_str).filter(|cursor| !cursor.is_empty())
        else {
            return Ok(None);
        };
        if cursor.len() > CURSOR_BYTES_MAX {
            self.notice(
                "the list goes on at a place too long to name; what came before is kept".to_owned(),
            );
            return Ok(None);
        }
        if !self.cursors.insert(cursor.to_owned()) {
            self.notice("the list repeats a page; what came before is kept".to_owned());
            return Ok(None);
        }
        if self.tools.len() >= TOOLS_MAX || self.bytes > LISTING_BYTES_MAX {
            self.notice(format!("only the first {TOOLS_MAX} tools are kept"));
            return Ok(None);
        }
        Ok(Some(cursor.to_owned()))
    }

    fn take_tool(&mut self, tool: &Value) {
        let Some(members) = tool.as_object() else {
            return self.notice("an entry of the list is not a tool".to_owned());
        };
        match members.get("name").and_then(Value::as_str) {
            None | Some("") => self.notice("a tool without a name was dropped".to_owned()),
            Some(name) if self.names.contains(name) => {
                self.notice(format!("`{}` is listed twice; the first is kept", self.shown(name)));
            }
            Some(name) => {
                let contract = Contract::from_listed(members);
                if contract.raw_name().is_none() {
                    return self.notice(format!(
                        "the tool `{}` was dropped: its name is too long",
                        self.shown(name)
                    ));
                }
                if members.values().any(is_too_deep) {
                    return self.notice(format!(
                        "the tool `{}` was dropped: it is nested deeper than {DEPTH_MAX} levels",
                        self.shown(name)
                    ));
                }
                let bytes = contract.canonical().len();
                if bytes > TOOL_BYTES_MAX {
                    let kilobytes = bytes / 1024;
                    return self.notice(format!(
                        "the tool `{}` was dropped: it describes itself in {kilobytes} KB",
                        self.shown(name)
                    ));
                }
                self.bytes += bytes;
                if self.bytes > LISTING_BYTES_MAX {
                    return self
                        .notice("the list is too large; what came first is kept".to_owned());
                }
                if self.tools.len() < TOOLS_MAX {
                    self.names.insert(name.to_owned());
                    self.tools.push(contract);
                }
            }
        }
    }

    fn notice(&mut self, text: String) {
        if self.notices.len() < NOTICES_MAX && !self.notices.contains(&text) {
            self.notices.push(text);
        }
    }
}

/// Why a result cannot be used; the call was made all the same.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// It is nested too deep to be carried on.
    TooDeep,
    /// It is no result of the protocol.
    Odd(String),
}

impl From<Unusable> for CallError {
    fn from(unusable: Unusable) -> CallError {
        match unusable {
            Unusable::TooDeep => CallError::TooDeep,
            Unusable::Odd(why) => CallError::Lost(why),
        }
    }
}

/// Reads the result of a call.
///
/// # Errors
/// It is no result the hub can use; the call was made all the same.
pub(super) fn call_result(value: Value) -> Result<UpstreamResult, Unusable> {
    let Value::Object(mut members) = value else {
        let why = "the answer is not an object, or has more values than can be read";
        return Err(Unusable::Odd(why.to_owned()));
    };
    match members.get("resultType").and_then(Value::as_str) {
        None | Some("complete") => {}
        Some("input_required") => {
            // It says itself that it is not done, and gets no second message.
            let why = "the tool asks for input that only a client with a person could give";
            let blocks = vec![Block::Text(why.to_owned())];
            return Ok(UpstreamResult { blocks, structured: None, is_error: true });
        }
        Some(other) => {
            let why = format!("the answer is of the kind `{}`", one_line(other, 40));
            return Err(Unusable::Odd(why));
        }
    }
    let structured = members.remove("structuredContent");
    if structured.as_ref().is_some_and(is_too_deep) {
        return Err(Unusable::TooDeep);
    }
    let is_error = members.get("isError").and_then(Value::as_bool) == Some(true);
    let blocks = match members.remove("content") {
        Some(Value::Array(items)) => items.into_iter().map(block).collect(),
        Some(_) | None => Vec::new(),
    };
    Ok(UpstreamResult { blocks, structured, is_error })
}

fn block(value: Value) -> Block {
    let Value::Object(members) = value else { return Block::Text(value.to_string()) };
    let text = |map: &Map<String, Value>, key: &str| {
        map.get(key).and_then(Value::as_str).map(str::to_owned)
    };
    let kind = text(&members, "type").unwrap_or_else(|| "unknown".to_owned());
    if kind == "text" {
        return Block::Text(text(&members, "text").unwrap_or_default());
    }
    let inner = members.get("resource").and_then(Value::as_object).unwrap_or(&members);
    let mime_type = text(inner, "mimeType");
    let data = text(inner, "data").or_else(|| text(inner, "blob")).or_else(|| text(inner, "text"));
    let data = data
        .or_else(|| text(inner, "uri"))
        .unwrap_or_else(|| Value::Object(members.clone()).to_string());
    Block::Media { kind: kind.chars().take(60).collect(), mime_type, data }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_bad_tool_drops_only_itself() {
        let mut pages = Pages::new(std::sync::Arc::new(str::to_owned));
        let page = json!({"tools": [{"name": "a", "inputSchema": null, "extra": 1}, 7, {"name": 3}, {"name": "a"}, {"name": "b"}], "nextCursor": "2"});
        assert_eq!(pages.take(&page).unwrap().as_deref(), Some("2"));
        assert_eq!(pages.take(&page).unwrap(), None, "the cursor does not advance");
        let names: Vec<String> =
            pages.tools.iter().map(|tool| tool.raw_name().unwrap().to_string()).collect();
        assert_eq!(names, ["a", "b"]);
        insta::assert_snapshot!(pages.notices.join("\n"), @r"
        an entry of the list is not a tool
        a tool without a name was dropped
        `a` is listed twice; the first is kept
        `b` is listed twice; the first is kept
        the list repeats a page; what came before is kept
        ");
    }

    #[test]
    fn a_cursor_is_short_or_ends_the_list() {
        let mut pages = Pages::new(std::sync::Arc::new(str::to_owned));
        let page =
            |length: usize| json!({"tools": [{"name": "a"}], "nextCursor": "c".repeat(length)});
        assert!(pages.take(&page(CURSOR_BYTES_MAX)).unwrap().is_some());
        assert_eq!(pages.take(&page(CURSOR_BYTES_MAX + 1)).unwrap(), None);
        assert_eq!(pages.tools.len(), 1);
        assert!(pages.notices.iter().any(|notice| notice.contains("too long to name")));
    }

    #[test]
    fn results_of_every_shape_are_read() {
        let read = |value: Value| call_result(value).unwrap();
        assert_eq!(
            read(json!({"content": [], "structuredContent": [1]})).structured,
            Some(json!([1]))
        );
        assert_eq!(read(json!({})).blocks, []);
        let image =
            read(json!({"content": [{"type": "image", "data": "QQ==", "mimeType": "image/png"}]}));
        assert_eq!(
            image.blocks,
            [Block::Media {
                kind: "image".into(),
                mime_type: Some("image/png".into()),
                data: "QQ==".into()
            }]
        );
        let embedded = read(
            json!({"content": [{"type": "resource", "resource": {"uri": "x://y", "text": "t", "mimeType": "text/plain"}}]}),
        );
        assert_eq!(
            embedded.blocks,
            [Block::Media {
                kind: "resource".into(),
                mime_type: Some("text/plain".into()),
                data: "t".into()
            }]
        );
        assert!(read(json!({"resultType": "input_required"})).is_error);
        assert!(call_result(json!({"resultType": "task"})).is_err());
        assert!(call_result(json!([1])).is_err());
    }
}
