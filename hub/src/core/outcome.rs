//! What an upstream answered → what the guest gets (design 4, "Values").

use crate::model::call::{Block, Outcome, ToolFailure, UpstreamResult};
use crate::model::digest::Digest;
use crate::model::error::ErrorCode;
use crate::model::json::cut;
use serde_json::{Value, json};

/// Bytes of an upstream's error text that are kept.
const ERROR_BYTES_MAX: usize = 4 * 1024;

/// Where a media block is kept: under the digest of its data.
#[must_use]
pub fn handle(data: &str) -> String {
    format!("blob:{}", Digest::of(data.as_bytes()))
}

/// The outcome of an answer. `declared` says whether the tool has an output schema.
#[must_use]
pub fn outcome(result: UpstreamResult, declared: bool) -> Outcome {
    let UpstreamResult { blocks, structured, is_error } = result;
    if is_error {
        return failed(&blocks, structured).into();
    }
    if let Some(value) = structured {
        return Outcome::Value(value);
    }
    match <[Block; 1]>::try_from(blocks) {
        Ok([Block::Text(text)]) => text_outcome(text, declared),
        Ok([media @ Block::Media { .. }]) => Outcome::Value(block_value(media)),
        Err(blocks) if blocks.is_empty() => Outcome::Value(Value::Null),
        Err(blocks) => Outcome::Value(Value::Array(blocks.into_iter().map(block_value).collect())),
    }
}

/// One sole text block that is a JSON object or array becomes that value, unless the tool declares an
/// output and so would have sent it as structured content.
fn text_outcome(text: String, declared: bool) -> Outcome {
    let looks_like_json = text.trim_start().starts_with(['{', '[']);
    if !declared && looks_like_json && serde_json::from_str::<Value>(&text).is_ok() {
        Outcome::ParsedText(text)
    } else {
        Outcome::Value(Value::String(text))
    }
}

fn block_value(block: Block) -> Value {
    match block {
        Block::Text(text) => Value::String(text),
        Block::Media { kind, mime_type, data } => {
            json!({ "type": kind, "mimeType": mime_type, "handle": handle(&data) })
        }
    }
}

fn failed(blocks: &[Block], structured: Option<Value>) -> ToolFailure {
    let texts: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            Block::Media { .. } => None,
        })
        .collect();
    let text = texts.join("\n");
    let message =
        if text.trim().is_empty() { "the tool failed without saying why" } else { text.trim() };
    let mut failure = ToolFailure::new(ErrorCode::UpstreamError, cut(message, ERROR_BYTES_MAX));
    failure.detail = structured;
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(blocks: Vec<Block>, structured: Option<Value>, is_error: bool) -> UpstreamResult {
        UpstreamResult { blocks, structured, is_error }
    }

    fn text(text: &str) -> Block {
        Block::Text(text.to_owned())
    }

    #[test]
    fn structured_content_of_any_kind_wins() {
        for value in [
            json!({"v": 7}),
            json!([1, 2]),
            json!(null),
            json!("x"),
            json!(1_915_883_588_174_806_058_i64),
        ] {
            let got = outcome(answer(vec![text("other")], Some(value.clone()), false), true);
            assert_eq!(got, Outcome::Value(value));
        }
    }

    #[test]
    fn a_sole_text_block_that_is_json_becomes_a_value_only_without_an_output_schema() {
        let json_text = r#"{"id": 1}"#;
        assert_eq!(
            outcome(answer(vec![text(json_text)], None, false), false),
            Outcome::ParsedText(json_text.into())
        );
        assert_eq!(
            outcome(answer(vec![text(json_text)], None, false), true),
            Outcome::Value(json!(json_text))
        );
        for plain in ["12", "null", "\"x\"", "{not json", "[1,", ""] {
            assert_eq!(
                outcome(answer(vec![text(plain)], None, false), false),
                Outcome::Value(json!(plain))
            );
        }
    }

    #[test]
    fn several_blocks_become_an_array_and_media_a_handle() {
        let image = || Block::Media {
            kind: "image".into(),
            mime_type: Some("image/png".into()),
            data: "QUJD".into(),
        };
        let shown = json!({"type": "image", "mimeType": "image/png", "handle": handle("QUJD")});
        assert_eq!(
            outcome(answer(vec![image()], None, false), false),
            Outcome::Value(shown.clone())
        );
        assert_eq!(
            outcome(answer(vec![text("{}"), image()], None, false), false),
            Outcome::Value(json!(["{}", shown]))
        );
        assert_eq!(outcome(answer(vec![], None, false), false), Outcome::Value(Value::Null));
    }

    #[test]
    fn an_error_keeps_its_text_and_its_detail() {
        let Outcome::Failed(failure) =
            outcome(answer(vec![text("bad")], Some(json!({"trace": "x"})), true), true)
        else {
            panic!("an error is a failure");
        };
        assert_eq!((failure.code, failure.message.as_str()), (ErrorCode::UpstreamError, "bad"));
        assert_eq!(failure.detail, Some(json!({"trace": "x"})));
    }
}
