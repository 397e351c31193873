//! Arguments against a tool's input schema: bounded, without retrieval, in words of our own.

use crate::model::nearest::nearest;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;
use std::collections::BTreeMap;

/// Nodes of a schema that is compiled.
const NODES_MAX: usize = 10_000;
/// Depth of a schema that is compiled.
const DEPTH_MAX: usize = 64;
/// Nodes once every local reference is written out.
const EXPANDED_MAX: u64 = 50_000;
/// Bytes of all patterns together.
const PATTERN_BYTES_MAX: usize = 16 * 1024;
/// Keywords that may bring properties from elsewhere, so that a name unknown here can be right.
const BRINGS_PROPERTIES: &[&str] = &[
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "then",
    "else",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "dependentSchemas",
    "dependencies",
];

/// A compiled input schema, or why arguments are not checked against it.
#[derive(Debug)]
pub enum Checker {
    /// In use.
    Checks {
        /// Compiled, without any retriever.
        validator: Box<Validator>,
        /// The only names it takes, if it is clear which.
        names: Option<Vec<String>>,
    },
    /// The schema is over a bound or is no schema; the call goes on unchecked.
    Unchecked(String),
}

impl Checker {
    /// Compiles a tool's input schema. Never fails: a bad schema is not used, and says why.
    #[must_use]
    pub fn compile(schema: Option<&Value>) -> Checker {
        let Some(schema) = schema else {
            return Checker::Unchecked("the tool has no input schema".to_owned());
        };
        if let Err(why) = admit(schema) {
            return Checker::Unchecked(why.to_owned());
        }
        let build = |draft: Option<jsonschema::Draft>| {
            let options = jsonschema::options()
                .should_validate_formats(false)
                .offline()
                .with_pattern_options(
                    PatternOptions::regex().size_limit(1 << 20).dfa_size_limit(1 << 20),
                );
            match draft {
                Some(draft) => options.with_draft(draft).build(schema),
                None => options.build(schema),
            }
        };
        let named = schema.get("$schema").is_some();
        let built = build(None).or_else(|first| {
            if named { Err(first) } else { build(Some(jsonschema::Draft::Draft7)) }
        });
        match built {
            Ok(validator) => {
                Checker::Checks { validator: Box::new(validator), names: closed_names(schema) }
            }
            Err(_) => {
                Checker::Unchecked("the tool's input schema is not a valid JSON Schema".to_owned())
            }
        }
    }

    /// Checks `arguments`. The error names path and rule, never a value of the schema.
    ///
    /// # Errors
    /// One sentence on the first thing that is wrong.
    pub fn check(&self, arguments: &Value) -> Result<(), String> {
        let (validator, names) = match self {
            Checker::Unchecked(_) => return Ok(()),
            Checker::Checks { validator, names } => (validator, names),
        };
        if let (Some(names), Some(given)) = (names, arguments.as_object())
            && let Some(unknown) = given.keys().find(|key| !names.contains(key))
        {
            return Err(unknown_name(unknown, names));
        }
        match validator.validate(arguments) {
            Ok(()) => Ok(()),
            Err(error) => Err(sentence(&error)),
        }
    }

    /// Why arguments are not checked, if they are not.
    #[must_use]
    pub fn unchecked(&self) -> Option<&str> {
        match self {
            Checker::Checks { .. } => None,
            Checker::Unchecked(why) => Some(why),
        }
    }
}

/// The names an object schema takes, unless other keywords can bring more.
fn closed_names(schema: &Value) -> Option<Vec<String>> {
    let object = schema.as_object()?;
    let extra = object.get("additionalProperties");
    let closed = matches!(extra, None | Some(Value::Bool(false)))
        && !BRINGS_PROPERTIES
            .iter()
            .any(|key| *key != "additionalProperties" && object.contains_key(*key));
    let properties = object.get("properties")?.as_object()?;
    (closed && !properties.is_empty()).then(|| properties.keys().cloned().collect())
}

fn unknown_name(unknown: &str, names: &[String]) -> String {
    let close = nearest(unknown, names.iter().map(String::as_str), 3);
    let listed =
        if close.is_empty() { names.iter().take(12).map(String::as_str).collect() } else { close };
    let lead = if listed.len() == names.len() { "it takes" } else { "did you mean" };
    let listed: Vec<String> =
        listed.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
    format!("there is no argument `{}`; {lead} {}", shown(unknown), listed.join(", "))
}

fn shown(name: &str) -> String {
    name.chars().take(80).flat_map(char::escape_debug).collect()
}

fn sentence(error: &ValidationError<'_>) -> String {
    use jsonschema::error::ValidationErrorKind as Kind;
    let path = error.instance_path().to_string();
    let place = if path.is_empty() {
        "the arguments".to_owned()
    } else {
        format!("`{}`", shown(&path.trim_start_matches('/').replace('/', ".")))
    };
    let schema_path = error.schema_path().to_string();
    let rule =
        schema_path.rsplit('/').find(|part| part.parse::<u32>().is_err()).unwrap_or("schema");
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the library's own enum; the rule's name says the rest"
    )]
    match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().map(shown).unwrap_or_default();
            if path.is_empty() {
                format!("the argument `{name}` is missing")
            } else {
                format!("{place} has no `{name}`")
            }
        }
        Kind::AdditionalProperties { unexpected } => {
            let names: Vec<String> =
                unexpected.iter().take(5).map(|name| format!("`{}`", shown(name))).collect();
            format!("{place} may not have {}", names.join(", "))
        }
        Kind::Type { kind } => {
            let wanted = match kind {
                jsonschema::error::TypeKind::Single(one) => one.to_string(),
                jsonschema::error::TypeKind::Multiple(many) => {
                    many.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or ")
                }
            };
            let given = kind_of(error.instance());
            format!("{place} must be {wanted}, not {given} (rule `type`)")
        }
        _ => {
            let breaks = if path.is_empty() { "break" } else { "breaks" };
            format!("{place} {breaks} the rule `{}`", shown(rule))
        }
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// May this schema be compiled and used? Counts nodes with every local reference written out, so that
/// doubling through `$ref` is seen before it costs anything.
///
/// # Errors
/// Which bound it breaks.
pub fn admit(schema: &Value) -> Result<(), &'static str> {
    let mut walk = Walk { root: schema, nodes: 0, pattern_bytes: 0, known: BTreeMap::new() };
    walk.cost(schema, 0).map(|_| ())
}

struct Walk<'a> {
    root: &'a Value,
    nodes: usize,
    pattern_bytes: usize,
    /// Cost of a node by its address; `None` while it is being counted.
    known: BTreeMap<*const Value, Option<u64>>,
}

impl<'a> Walk<'a> {
    fn cost(&mut self, node: &'a Value, depth: usize) -> Result<u64, &'static str> {
        if depth > DEPTH_MAX {
            return Err("the tool's input schema is nested too deeply");
        }
        match self.known.get(&std::ptr::from_ref(node)) {
            Some(Some(cost)) => return Ok(*cost),
            // A reference to an open ancestor: recursion, which costs nothing until it is used.
            Some(None) => return Ok(1),
            None => {}
        }
        self.known.insert(std::ptr::from_ref(node), None);
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err("the tool's input schema is too large");
        }
        let mut cost = 1u64;
        match node {
            Value::Object(members) => {
                for (key, child) in members {
                    cost = cost.saturating_add(self.member(key, child, depth)?);
                }
            }
            Value::Array(items) => {
                for item in items {
                    cost = cost.saturating_add(self.cost(item, depth + 1)?);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        if cost > EXPANDED_MAX {
            return Err("the references of the tool's input schema expand too far");
        }
        self.known.insert(std::ptr::from_ref(node), Some(cost));
        Ok(cost)
    }

    fn member(&mut self, key: &str, child: &'a Value, depth: usize) -> Result<u64, &'static str> {
        if let ("$ref" | "$dynamicRef" | "$recursiveRef", Some(reference)) = (key, child.as_str()) {
            let target = match reference.strip_prefix('#') {
                Some("") => Some(self.root),
                Some(pointer) => self.root.pointer(pointer),
                None => None,
            };
            return target.map_or(Ok(1), |target| self.cost(target, depth + 1));
        }
        if let ("pattern", Some(pattern)) = (key, child.as_str()) {
            self.pattern_bytes += pattern.len();
        }
        if let ("patternProperties", Some(patterns)) = (key, child.as_object()) {
            self.pattern_bytes += patterns.keys().map(String::len).sum::<usize>();
        }
        if self.pattern_bytes > PATTERN_BYTES_MAX {
            return Err("the patterns of the tool's input schema are too large");
        }
        let cost = self.cost(child, depth + 1)?;
        // Definitions cost only where they are referred to.
        Ok(if matches!(key, "$defs" | "definitions") { 0 } else { cost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "reads better in the cases")]
    fn check(schema: Value, arguments: Value, expected: &str) {
        let answer = Checker::compile(Some(&schema)).check(&arguments);
        assert_eq!(answer.err().unwrap_or_else(|| "fine".to_owned()), expected);
    }

    fn issue() -> Value {
        json!({"type": "object", "required": ["repo"], "properties": {
            "repo": {"type": "string", "pattern": "^[a-z]+$"}, "labels": {"type": "array", "items": {"type": "string"}},
            "count": {"type": ["integer", "null"], "maximum": 5}}})
    }

    #[test]
    fn errors_name_place_and_rule_and_the_nearest_names() {
        check(issue(), json!({"repo": "a", "labels": ["x"], "count": null}), "fine");
        check(issue(), json!({}), "the argument `repo` is missing");
        check(issue(), json!({"repos": "a"}), "there is no argument `repos`; did you mean `repo`");
        check(
            issue(),
            json!({"repo": "a", "zzzzzzzzzzzz": 1}),
            "there is no argument `zzzzzzzzzzzz`; it takes `repo`, `labels`, `count`",
        );
        check(issue(), json!({"repo": 1}), "`repo` must be string, not number (rule `type`)");
        check(
            issue(),
            json!({"repo": "a", "labels": [1]}),
            "`labels.0` must be string, not number (rule `type`)",
        );
        check(issue(), json!({"repo": "A"}), "`repo` breaks the rule `pattern`");
        check(issue(), json!({"repo": "a", "count": 9}), "`count` breaks the rule `maximum`");
        check(json!({"type": "object"}), json!({"any": 1}), "fine");
        check(
            json!({"type": "object", "properties": {"a": {}}, "additionalProperties": true}),
            json!({"b": 1}),
            "fine",
        );
        check(
            json!({"properties": {"a": {}}, "anyOf": [{"properties": {"b": {}}}]}),
            json!({"b": 1}),
            "fine",
        );
    }

    #[test]
    fn sixty_four_bit_integers_are_compared_exactly() {
        let schema =
            json!({"properties": {"a": {"type": "integer", "maximum": 9_007_199_254_740_992_i64}}});
        check(schema.clone(), json!({"a": 9_007_199_254_740_992_i64}), "fine");
        check(schema, json!({"a": 9_007_199_254_740_993_i64}), "`a` breaks the rule `maximum`");
    }

    #[test]
    fn tuples_of_draft_seven_are_understood_without_being_named() {
        let schema =
            json!({"properties": {"a": {"items": [{"type": "string"}, {"type": "number"}]}}});
        check(schema.clone(), json!({"a": ["x", 1]}), "fine");
        check(schema, json!({"a": [1, 1]}), "`a.0` must be string, not number (rule `type`)");
    }

    #[test]
    fn a_schema_over_a_bound_is_not_used_and_says_why() {
        let why = |schema: Value| {
            Checker::compile(Some(&schema)).unchecked().unwrap_or("checked").to_owned()
        };
        let mut deep = json!({"type": "string"});
        for _ in 0..100 {
            deep = json!({"properties": {"x": deep}});
        }
        let mut doubling = serde_json::Map::new();
        for level in 0..18 {
            let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
            doubling.insert(format!("l{level}"), json!({"allOf": [next.clone(), next]}));
        }
        doubling.insert("l18".to_owned(), json!({"type": "object"}));
        assert_eq!(why(deep), "the tool's input schema is nested too deeply");
        assert_eq!(
            why(json!({"$ref": "#/$defs/l0", "$defs": doubling})),
            "the references of the tool's input schema expand too far"
        );
        assert_eq!(
            why(json!({"enum": (0..20_000).collect::<Vec<_>>()})),
            "the tool's input schema is too large"
        );
        assert_eq!(
            why(json!({"pattern": "a".repeat(20_000)})),
            "the patterns of the tool's input schema are too large"
        );
        assert_eq!(
            why(json!({"type": "any"})),
            "the tool's input schema is not a valid JSON Schema"
        );
        for elsewhere in ["file:///etc/passwd", "http://127.0.0.1:1/x", "other.json"] {
            assert_eq!(
                why(json!({"properties": {"a": {"$ref": elsewhere}}})),
                "the tool's input schema is not a valid JSON Schema"
            );
        }
        assert_eq!(why(json!({"$ref": "#"})), "checked");
        assert_eq!(Checker::compile(None).unchecked(), Some("the tool has no input schema"));
    }
}
