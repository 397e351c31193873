//! What a tool claims to be: its class, and how two claims differ, in words a person can check.

use crate::model::contract::{CONTRACT_MEMBERS, Contract};
use crate::model::json::canonical;
use crate::model::visible::one_line;
use serde_json::Value;

/// Lines a difference has at most; more are counted.
const CHANGES_MAX: usize = 24;
/// Characters of a value that a difference quotes.
const QUOTE_CHARS: usize = 160;

/// The three classes of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Declares itself read-only.
    ReadOnly,
    /// Changes something, or declares nothing about itself.
    Writes,
    /// Says that it deletes or overwrites.
    Destructive,
}

/// The class a review shows a tool in.
#[must_use]
pub fn class(contract: &Contract) -> Class {
    if contract.is_read_only() {
        Class::ReadOnly
    } else if contract.is_destructive() {
        Class::Destructive
    } else {
        Class::Writes
    }
}

/// What changed from `old` to `new`, a line each, hidden characters written out. Empty when the
/// contracts are the same.
#[must_use]
pub fn changes(old: &Contract, new: &Contract) -> Vec<String> {
    let mut lines = Vec::new();
    for member in CONTRACT_MEMBERS {
        compare(member, old.member(member), new.member(member), &mut lines);
    }
    if lines.len() > CHANGES_MAX {
        let more = lines.len() - CHANGES_MAX;
        lines.truncate(CHANGES_MAX);
        lines.push(format!("and {more} more differences"));
    }
    lines
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, lines: &mut Vec<String>) {
    match (old, new) {
        (None, None) => {}
        (None, Some(new)) => lines.push(format!("{path}: added {}", quote(new))),
        (Some(old), None) => lines.push(format!("{path}: removed {}", quote(old))),
        (Some(old), Some(new)) if canonical(old) == canonical(new) => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let inner = format!("{path}.{}", one_line(key, 60));
                compare(&inner, old.get(key.as_str()), new.get(key.as_str()), lines);
            }
        }
        (Some(old), Some(new)) => {
            lines.push(format!("{path}: was {}, is {}", quote(old), quote(new)));
        }
    }
}

fn quote(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", one_line(text, QUOTE_CHARS)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            one_line(&canonical(value), QUOTE_CHARS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[expect(clippy::needless_pass_by_value, reason = "reads better in the cases")]
    fn contract(value: Value) -> Contract {
        Contract::from_listed(value.as_object().unwrap())
    }

    #[test]
    fn differences_name_the_place_and_both_sides() {
        let old = contract(json!({"name": "post", "description": "Post.", "inputSchema": {
            "type": "object", "properties": {"text": {"type": "string"}}}}));
        let new = contract(
            json!({"name": "post", "description": "Post\u{202e} to all.", "title": "P", "inputSchema": {
            "type": "object", "properties": {"text": {"type": "number"}, "bcc": {"type": "string"}}}}),
        );
        insta::assert_snapshot!(changes(&old, &new).join("\n"), @r#"
        title: added "P"
        description: was "Post.", is "Post\u{202e} to all."
        inputSchema.properties.bcc: added {"type":"string"}
        inputSchema.properties.text.type: was "string", is "number"
        "#);
        assert!(changes(&old, &old).is_empty());
    }

    #[test]
    fn absent_and_null_are_told_apart_and_other_members_are_not_part_of_it() {
        let absent = contract(json!({"name": "a"}));
        let null = contract(json!({"name": "a", "title": null}));
        let extra = contract(json!({"name": "a", "_meta": {"x": 1}}));
        assert_ne!(absent.digest(), null.digest());
        assert_eq!(absent.digest(), extra.digest());
    }

    #[test]
    fn only_a_true_read_only_hint_makes_a_tool_read_only() {
        let check = |annotations: Value, expected: Class| {
            assert_eq!(
                class(&contract(json!({"name": "t", "annotations": annotations}))),
                expected
            );
        };
        check(json!({"readOnlyHint": true}), Class::ReadOnly);
        check(json!({"readOnlyHint": true, "destructiveHint": true}), Class::ReadOnly);
        check(json!({"readOnlyHint": "true"}), Class::Writes);
        check(json!({"readOnlyHint": 1, "destructiveHint": "yes"}), Class::Writes);
        check(json!({"destructiveHint": true}), Class::Destructive);
        check(json!({}), Class::Writes);
        check(Value::Null, Class::Writes);
    }
}
