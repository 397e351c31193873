//! One JSON printer for everything that is digested or sent: keys sorted, integers in full.

use serde_json::{Map, Value};

/// `value` with the keys of every object in byte order, so that equal values print alike.
#[must_use]
pub fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            let mut out = Map::with_capacity(map.len());
            for key in keys {
                if let Some(inner) = map.get(key) {
                    out.insert(key.clone(), sorted(inner));
                }
            }
            Value::Object(out)
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// The exact bytes that are digested and sent for `value`.
#[must_use]
pub fn canonical(value: &Value) -> String {
    sorted(value).to_string()
}

/// Levels a value may be nested, wherever it comes from: what wraps it in journals and frames must still
/// be read back by a parser that stops at 127.
pub const DEPTH_MAX: usize = 100;

/// Level at which the parser would give up; what lies deeper is left out before.
const PARSED_DEPTH_MAX: usize = 120;

/// Values a message of a server may have, roughly: each costs a hundred times its bytes while it is read.
const VALUES_MAX: usize = 4 << 20;

/// Parses JSON text as JavaScript prints it, where half a surrogate pair may stand alone; such
/// halves become U+FFFD, because no other part of the hub could carry them.
///
/// # Errors
/// The text is not JSON, or is nested deeper than [`DEPTH_MAX`] levels.
pub fn parse_from_guest(text: &str) -> serde_json::Result<Value> {
    let value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(first) => match well_formed(text) {
            Some(repaired) => serde_json::from_str(&repaired)?,
            None => return Err(first),
        },
    };
    if is_too_deep(&value) {
        let why = format!("it is nested deeper than {DEPTH_MAX} levels");
        return Err(serde::de::Error::custom(why));
    }
    Ok(value)
}

/// Parses a message of a server: halves of surrogate pairs and bytes that are no text become U+FFFD, and
/// containers from a level on that nothing here could carry become 0. What was cut so is still too deep,
/// which [`is_too_deep`] tells of each part that matters. An answer with more values than anything here
/// could carry keeps its id, and has null for its result.
#[must_use]
pub fn parse_from_server(bytes: &[u8]) -> Option<Value> {
    if has_too_many_values(bytes) {
        let Head { id, result: _ } = serde_json::from_slice(bytes).ok()?;
        return Some(serde_json::json!({ "jsonrpc": "2.0", "id": id, "result": null }));
    }
    if let Ok(value) = serde_json::from_slice(bytes) {
        return Some(value);
    }
    let text = String::from_utf8_lossy(bytes);
    let text = well_formed(&text).map_or(text, std::borrow::Cow::Owned);
    serde_json::from_str(&shallow(&text)).ok()
}

/// What is kept of an answer that is not read.
#[derive(serde::Deserialize)]
struct Head {
    id: u64,
    #[expect(dead_code, reason = "it has to be there, whatever it is")]
    result: serde::de::IgnoredAny,
}

/// Counts what stands between values, outside of text. A member of an object costs more than an item.
fn has_too_many_values(bytes: &[u8]) -> bool {
    if bytes.len() <= VALUES_MAX / 2 {
        return false;
    }
    let (mut values, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            b':' if !in_string => values += 2,
            _ => {}
        }
    }
    values > VALUES_MAX
}

/// Is `value` nested deeper than [`DEPTH_MAX`] levels?
#[must_use]
pub fn is_too_deep(value: &Value) -> bool {
    fn deeper(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(items) => left == 0 || items.iter().any(|item| deeper(item, left - 1)),
            Value::Object(members) => {
                left == 0 || members.values().any(|member| deeper(member, left - 1))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
    deeper(value, DEPTH_MAX)
}

/// JSON text with containers deeper than [`PARSED_DEPTH_MAX`] replaced by 0. Goes through the text once,
/// without recursion; text that is no JSON stays no JSON.
fn shallow(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for c in text.chars() {
        let kept = depth <= PARSED_DEPTH_MAX;
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            if kept {
                out.push(c);
            }
            continue;
        }
        match c {
            '"' => in_string = true,
            '{' | '[' => {
                depth += 1;
                if depth == PARSED_DEPTH_MAX + 1 {
                    out.push('0');
                }
            }
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if kept && depth <= PARSED_DEPTH_MAX {
            out.push(c);
        }
    }
    out
}

/// Replaces escapes of unpaired surrogates; `None` when there is none.
fn well_formed(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut changed = false;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let taken = match unit(escape) {
            Some(0xd800..=0xdbff) => match escape.get(6..).and_then(unit) {
                Some(0xdc00..=0xdfff) => 12,
                _ => 0,
            },
            Some(0xdc00..=0xdfff) => 0,
            Some(_) => 6,
            None => 2,
        };
        if taken == 0 {
            changed = true;
            out.push_str("\\ufffd");
            rest = escape.get(6..).unwrap_or("");
        } else {
            let (kept, after) = escape.split_at_checked(taken).unwrap_or((escape, ""));
            out.push_str(kept);
            rest = after;
        }
    }
    out.push_str(rest);
    changed.then_some(out)
}

/// The code unit of a leading `\uXXXX`.
fn unit(escape: &str) -> Option<u16> {
    u16::from_str_radix(escape.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

/// Cuts `text` to at most `bytes_max` bytes, at a character.
#[must_use]
pub fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while end > 0 && !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn equal_values_print_alike_and_integers_stay_whole() {
        let a = json!({"b": 9_007_199_254_740_993_i64, "a": {"y": 1, "x": u64::MAX}});
        assert_eq!(canonical(&a), r#"{"a":{"x":18446744073709551615,"y":1},"b":9007199254740993}"#);
    }

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        let check = |text: &str, expected: &str| {
            assert_eq!(parse_from_guest(text).unwrap(), json!(expected), "{text}");
        };
        check(r#""a\ud800b""#, "a\u{fffd}b");
        check(r#""\udc00""#, "\u{fffd}");
        check(r#""\ud83d\ude00""#, "😀");
        check(r#""\\ud800""#, "\\ud800");
        check(r#""\ud800\ud83d\ude00""#, "\u{fffd}😀");
        assert!(parse_from_guest("{").is_err());
    }

    #[test]
    fn a_message_that_is_too_deep_in_one_place_is_read_all_the_same() {
        for (open, inner, close) in
            [("[", "1", "]"), ("{\"a]\\\"{\":", "\"}\"", "}"), ("[{\"x\":", "null", "},2]")]
        {
            for levels in [1, 50, 99, 100, 101, 119, 120, 121, 130, 6_000] {
                let deep = format!("{}{inner}{}", open.repeat(levels), close.repeat(levels));
                let text =
                    format!("{{\"before\":[1,\"]\"],\"deep\":{deep},\"after\":{{\"b\":2}}}}");
                let value =
                    parse_from_server(text.as_bytes()).unwrap_or_else(|| panic!("{open} {levels}"));
                assert_eq!(
                    (&value["before"], &value["after"]),
                    (&json!([1, "]"]), &json!({"b": 2}))
                );
                let per_level = open.matches(['[', '{']).count() - usize::from(open.contains("a]"));
                assert_eq!(
                    is_too_deep(&value["deep"]),
                    levels * per_level > DEPTH_MAX,
                    "{open} {levels}"
                );
                assert_eq!(
                    parse_from_guest(&deep).is_err(),
                    levels * per_level > DEPTH_MAX,
                    "{open} {levels}"
                );
            }
        }
        assert_eq!(parse_from_server(b"\"\xff \\ud800\""), Some(json!("\u{fffd} \u{fffd}")));
        assert_eq!(parse_from_server(b"Starting server ..."), None);
    }

    #[test]
    fn an_answer_with_too_many_values_keeps_its_id() {
        let answer = |items: String| {
            let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":[{items}]}}");
            parse_from_server(text.as_bytes()).unwrap()["result"].clone()
        };
        let zeros = |count: usize| vec!["0"; count].join(",");
        assert_eq!(answer(zeros(VALUES_MAX - 100)).as_array().unwrap().len(), VALUES_MAX - 100);
        for piece in ["{\"a\":0}", "\"\\\\\""] {
            assert_eq!(answer(vec![piece; VALUES_MAX + 1].join(",")), Value::Null, "{piece}");
        }
        // In text they are no values.
        let text = format!("\"\\\"{}\"", zeros(VALUES_MAX + 1));
        assert!(answer(text)[0].is_string());
        let batch = format!("[{}]", zeros(VALUES_MAX + 1));
        assert_eq!(parse_from_server(batch.as_bytes()), None);
    }

    #[test]
    fn a_cut_falls_between_characters() {
        assert_eq!(cut("éé", 3), "é");
        assert_eq!(cut("abc", 9), "abc");
        assert_eq!(cut("é", 1), "");
    }

    proptest::proptest! {
        #[test]
        fn order_of_keys_never_changes_the_print(keys in proptest::collection::btree_set("[a-z]{1,4}", 0..8)) {
            let forward: Map<String, Value> = keys.iter().map(|k| (k.clone(), json!(1))).collect();
            let backward: Map<String, Value> = keys.iter().rev().map(|k| (k.clone(), json!(1))).collect();
            proptest::prop_assert_eq!(canonical(&Value::Object(forward)), canonical(&Value::Object(backward)));
        }
    }
}
