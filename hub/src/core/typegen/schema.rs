//! JSON Schema → type tree: local references, recursion, combinators, tuples, missing and boolean schemas.

use super::tree::{Field, Object, Type};
use crate::model::contract::Contract;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Objects nested deeper than this become named interfaces.
const INLINE_DEPTH: usize = 2;
/// Levels of arrays, unions and the like inside one printed type.
const NESTING_MAX: usize = 12;
/// References followed from one to the next.
const HOPS_MAX: usize = 32;
/// Values of an enum that are printed; the count of the others stands in the comment.
const ENUM_VALUES_MAX: usize = 24;
/// Types visited for one printed type; the rest is `unknown`.
const NODES_MAX: usize = 4_000;
/// Fields of one object; more are no use to a reader, and finding repeats among them costs.
const FIELDS_MAX: usize = 500;

/// A tool's input and output types, and the named interfaces they refer to.
pub(super) struct ToolTypes<'a> {
    /// The tool's name in code.
    pub(super) tool: &'a str,
    input: Option<&'a Value>,
    output: Option<&'a Value>,
    prefix: String,
}

/// A named interface, not yet converted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Definition<'a> {
    /// The schema that local references start from.
    root: &'a Value,
    schema: &'a Value,
    side: Side,
}

/// Which of a tool's schemas a type comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Input,
    Output,
}

/// A converted type with the interfaces it refers to.
pub(super) struct Converted<'a> {
    pub(super) kind: Type,
    pub(super) named: BTreeMap<String, Definition<'a>>,
}

impl<'a> ToolTypes<'a> {
    pub(super) fn of(tool: &'a str, contract: &'a Contract) -> ToolTypes<'a> {
        ToolTypes {
            tool,
            input: contract.input_schema(),
            output: contract.output_schema(),
            prefix: pascal(tool),
        }
    }

    /// The input as an object; a tool without a usable schema takes anything.
    pub(super) fn input(&self) -> Converted<'a> {
        self.convert_input(0)
    }

    /// The input for one line: nested objects are names.
    pub(super) fn signature_input(&self) -> Type {
        self.convert_input(INLINE_DEPTH).kind
    }

    /// The interfaces that the one-line input names.
    pub(super) fn line_named(&self) -> BTreeMap<String, Definition<'a>> {
        self.convert_input(INLINE_DEPTH).named
    }

    fn convert_input(&self, depth: usize) -> Converted<'a> {
        let Some(schema) = self.input else {
            return Converted { kind: Type::Object(Object::default()), named: BTreeMap::new() };
        };
        let mut converter = Converter::new(schema, &self.prefix, Side::Input);
        let path = self.prefix.clone();
        let kind = match converter.object_like(schema, 0) {
            Some(object) => converter.object(&object, &path, depth),
            None if takes_nothing(schema) => Type::Object(Object::default()),
            None => converter.convert(schema, &path, depth, 0),
        };
        Converted { kind, named: converter.named }
    }

    /// The output type by name where it is an object, else written out.
    pub(super) fn output(&self) -> Type {
        self.convert_output().kind
    }

    pub(super) fn convert_output(&self) -> Converted<'a> {
        let Some(schema) = self.output else {
            return Converted { kind: Type::Unknown, named: BTreeMap::new() };
        };
        let mut converter = Converter::new(schema, &self.prefix, Side::Output);
        let path = format!("{}Result", self.prefix);
        // Deeper than inline: an object becomes `<Tool>Result`.
        let kind = converter.convert(schema, &path, INLINE_DEPTH + 1, 0);
        Converted { kind, named: converter.named }
    }

    /// Converts one named interface of this tool.
    pub(super) fn definition(&self, name: &str, definition: Definition<'a>) -> Converted<'a> {
        let mut converter = Converter::new(definition.root, &self.prefix, definition.side);
        let kind = match converter.object_like(definition.schema, 0) {
            Some(object) => converter.object(&object, name, 0),
            None => Type::Unknown,
        };
        Converted { kind, named: converter.named }
    }
}

struct Converter<'a, 'p> {
    root: &'a Value,
    prefix: &'p str,
    side: Side,
    named: BTreeMap<String, Definition<'a>>,
    /// Schemas being written out, so that what is no object cannot recurse.
    open: Vec<*const Value>,
    nodes: usize,
}

/// An object schema with its `allOf` parts.
struct ObjectSchema<'a> {
    parts: Vec<&'a Map<String, Value>>,
}

impl<'a, 'p> Converter<'a, 'p> {
    fn new(root: &'a Value, prefix: &'p str, side: Side) -> Self {
        Converter { root, prefix, side, named: BTreeMap::new(), open: Vec::new(), nodes: 0 }
    }

    /// Follows local references; `None` if there is no such place, or no end to them.
    fn resolve(&self, schema: &'a Value) -> Option<(&'a Value, Option<&'a str>)> {
        let mut at = schema;
        let mut name = None;
        for _ in 0..HOPS_MAX {
            let reference = ["$ref", "$dynamicRef", "$recursiveRef"]
                .iter()
                .find_map(|key| at.get(*key).and_then(Value::as_str));
            let Some(reference) = reference else { return Some((at, name)) };
            at = match reference.strip_prefix('#')? {
                "" => self.root,
                pointer => self.root.pointer(pointer)?,
            };
            name = reference.rsplit('/').next().filter(|last| *last != "#");
        }
        None
    }

    fn convert(&mut self, schema: &'a Value, path: &str, depth: usize, nesting: usize) -> Type {
        self.nodes += 1;
        if nesting > NESTING_MAX || self.nodes > NODES_MAX {
            return Type::Unknown;
        }
        match schema {
            Value::Bool(false) => return Type::Never,
            Value::Object(_) => {}
            Value::Bool(true)
            | Value::Null
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => {
                return Type::Unknown;
            }
        }
        let Some((target, reference)) = self.resolve(schema) else { return Type::Unknown };
        if let Some(object) = self.object_like(target, 0) {
            // Recursion, a definition and depth all end in a name.
            let recursive = self.open.contains(&std::ptr::from_ref(target));
            if depth > INLINE_DEPTH
                || reference.is_some()
                || recursive
                || std::ptr::eq(target, self.root) && depth > 0
            {
                return self.name(target, reference, path);
            }
            return self.object(&object, path, depth);
        }
        if self.open.contains(&std::ptr::from_ref(target)) {
            return Type::Unknown;
        }
        self.open.push(std::ptr::from_ref(target));
        let kind = self.plain(target, path, depth, nesting);
        self.open.pop();
        kind
    }

    fn name(&mut self, target: &'a Value, reference: Option<&str>, path: &str) -> Type {
        let wanted = match (reference, self.side) {
            (Some(reference), Side::Input) => format!("{}{}", self.prefix, pascal(reference)),
            (Some(reference), Side::Output) => {
                format!("{}Result{}", self.prefix, pascal(reference))
            }
            (None, _) if std::ptr::eq(target, self.root) && self.side == Side::Input => {
                format!("{}Input", self.prefix)
            }
            (None, _) if std::ptr::eq(target, self.root) => format!("{}Result", self.prefix),
            (None, _) => path.to_owned(),
        };
        let mut name = wanted.clone();
        let mut number = 1;
        while self.named.get(&name).is_some_and(|known| !std::ptr::eq(known.schema, target)) {
            number += 1;
            name = format!("{wanted}{number}");
        }
        self.named
            .insert(name.clone(), Definition { root: self.root, schema: target, side: self.side });
        Type::Named(name)
    }

    /// The parts of a schema that is an object with fields, `allOf` of such ones included.
    fn object_like(&self, schema: &'a Value, hops: usize) -> Option<ObjectSchema<'a>> {
        if hops > HOPS_MAX / 4 {
            return None;
        }
        let (schema, _) = self.resolve(schema)?;
        let map = schema.as_object()?;
        if map.contains_key("anyOf")
            || map.contains_key("oneOf")
            || map.contains_key("enum")
            || map.contains_key("const")
        {
            return None;
        }
        let typed = map.get("type").is_none_or(|kind| kind == "object");
        let mut parts = Vec::new();
        if typed
            && map
                .get("properties")
                .and_then(Value::as_object)
                .is_some_and(|fields| !fields.is_empty())
        {
            parts.push(map);
        }
        if let Some(all) = map.get("allOf").and_then(Value::as_array).filter(|_| typed) {
            if all.len() > 64 {
                return None;
            }
            for one in all {
                parts.extend(self.object_like(one, hops + 1)?.parts);
            }
        }
        (!parts.is_empty() && parts.len() <= 64).then_some(ObjectSchema { parts })
    }

    fn object(&mut self, object: &ObjectSchema<'a>, path: &str, depth: usize) -> Type {
        let required: Vec<&str> = object
            .parts
            .iter()
            .filter_map(|part| part.get("required")?.as_array())
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut fields: Vec<Field> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut extra = None;
        for part in &object.parts {
            self.open.extend(
                object
                    .parts
                    .iter()
                    .map(|part| std::ptr::from_ref::<Map<String, Value>>(part).cast::<Value>()),
            );
            for (name, schema) in
                part.get("properties").and_then(Value::as_object).into_iter().flatten()
            {
                if fields.len() >= FIELDS_MAX || !seen.insert(name.as_str()) {
                    continue;
                }
                let inner = format!("{path}{}", pascal(name));
                let kind = self.convert(schema, &inner, depth + 1, 0);
                let required = required.contains(&name.as_str());
                fields.push(Field { name: name.clone(), required, kind, doc: doc(schema) });
            }
            self.open.truncate(self.open.len() - object.parts.len());
            match part.get("additionalProperties") {
                Some(schema @ Value::Object(_)) => {
                    let inner = self.convert(schema, &format!("{path}Value"), depth + 1, 0);
                    extra = Some(Box::new(inner));
                }
                Some(Value::Bool(true)) => extra = Some(Box::new(Type::Unknown)),
                Some(_) | None => {}
            }
        }
        fields.sort_by_key(|field| !field.required);
        Type::Object(Object { fields, extra })
    }

    /// Any schema that is no object with fields.
    fn plain(&mut self, schema: &'a Value, path: &str, depth: usize, nesting: usize) -> Type {
        let Some(map) = schema.as_object() else { return Type::Unknown };
        if let Some(value) = map.get("const") {
            return literal(value);
        }
        if let Some(values) = map.get("enum").and_then(Value::as_array) {
            return self.enumeration(values);
        }
        let mut parts = Vec::new();
        for key in ["anyOf", "oneOf"] {
            if let Some(options) = map.get(key).and_then(Value::as_array) {
                let options: Vec<Type> = options
                    .iter()
                    .take(64)
                    .map(|option| self.convert(option, path, depth, nesting + 1))
                    .collect();
                parts.push(Type::union(options));
            }
        }
        for one in map.get("allOf").and_then(Value::as_array).into_iter().flatten().take(64) {
            parts.push(self.convert(one, path, depth, nesting + 1));
        }
        let own = match map.get("type") {
            Some(Value::String(kind)) => self.typed(kind, map, path, depth, nesting),
            Some(Value::Array(kinds)) => Type::union(
                kinds
                    .iter()
                    .filter_map(Value::as_str)
                    .map(|kind| self.typed(kind, map, path, depth, nesting))
                    .collect::<Vec<_>>(),
            ),
            Some(_) | None => self.untyped(map, path, depth, nesting),
        };
        let all = Type::intersection(parts.into_iter().chain([own]));
        if map.get("nullable") == Some(&Value::Bool(true)) {
            Type::union([all, Type::Null])
        } else {
            all
        }
    }

    fn typed(
        &mut self,
        kind: &str,
        map: &'a Map<String, Value>,
        path: &str,
        depth: usize,
        nesting: usize,
    ) -> Type {
        match kind {
            "string" => Type::String,
            "integer"
                if map.get("format").and_then(Value::as_str).is_some_and(|f| f.contains("64")) =>
            {
                Type::BigNumber
            }
            "number" | "integer" => Type::Number,
            "boolean" => Type::Boolean,
            "null" => Type::Null,
            "array" => self.array(map, path, depth, nesting),
            "object" => self.open_object(map, path, depth, nesting),
            _ => Type::Unknown,
        }
    }

    fn untyped(
        &mut self,
        map: &'a Map<String, Value>,
        path: &str,
        depth: usize,
        nesting: usize,
    ) -> Type {
        if map.contains_key("items") || map.contains_key("prefixItems") {
            self.array(map, path, depth, nesting)
        } else if map.contains_key("additionalProperties") || map.contains_key("properties") {
            self.open_object(map, path, depth, nesting)
        } else {
            Type::Unknown
        }
    }

    /// An object whose fields are not all that matters: beside `anyOf`, or with none.
    fn open_object(
        &mut self,
        map: &'a Map<String, Value>,
        path: &str,
        depth: usize,
        nesting: usize,
    ) -> Type {
        let has_fields = map
            .get("properties")
            .and_then(Value::as_object)
            .is_some_and(|fields| !fields.is_empty());
        if has_fields && depth <= INLINE_DEPTH {
            return self.object(&ObjectSchema { parts: vec![map] }, path, depth);
        }
        match map.get("additionalProperties") {
            Some(Value::Bool(false)) if !has_fields => Type::Record(Box::new(Type::Never)),
            Some(schema @ Value::Object(_)) => Type::Record(Box::new(self.convert(
                schema,
                &format!("{path}Value"),
                depth + 1,
                nesting + 1,
            ))),
            Some(_) | None => Type::Record(Box::new(Type::Unknown)),
        }
    }

    fn array(
        &mut self,
        map: &'a Map<String, Value>,
        path: &str,
        depth: usize,
        nesting: usize,
    ) -> Type {
        let inner = format!("{path}Item");
        let tuple =
            map.get("prefixItems").or_else(|| map.get("items").filter(|items| items.is_array()));
        if let Some(items) = tuple.and_then(Value::as_array) {
            let rest = match (map.get("prefixItems"), map.get("items"), map.get("additionalItems"))
            {
                (Some(_), rest, _) | (None, _, rest) => rest,
            };
            let rest = match rest {
                Some(Value::Bool(false)) => None,
                Some(schema) => Some(Box::new(self.convert(schema, &inner, depth, nesting + 1))),
                None => Some(Box::new(Type::Unknown)),
            };
            let converted: Vec<Type> = items
                .iter()
                .take(32)
                .map(|item| self.convert(item, &inner, depth, nesting + 1))
                .collect();
            let least =
                map.get("minItems").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
            let required = least.unwrap_or(0).min(converted.len());
            return Type::Tuple { items: converted, required, rest };
        }
        match map.get("items") {
            Some(items) => Type::Array(Box::new(self.convert(items, &inner, depth, nesting + 1))),
            None => Type::Array(Box::new(Type::Unknown)),
        }
    }

    fn enumeration(&self, values: &[Value]) -> Type {
        let shown =
            Type::union(values.iter().take(ENUM_VALUES_MAX).map(literal).collect::<Vec<_>>());
        if values.len() <= ENUM_VALUES_MAX {
            return shown;
        }
        let all_strings = values.iter().all(Value::is_string);
        Type::union([shown, if all_strings { Type::String } else { Type::Unknown }])
    }
}

/// An object schema that names no member and invites none.
fn takes_nothing(schema: &Value) -> bool {
    let Some(map) = schema.as_object() else { return false };
    let named = map.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    let invites =
        matches!(map.get("additionalProperties"), Some(Value::Bool(true) | Value::Object(_)));
    let combined = ["anyOf", "oneOf", "allOf", "$ref", "patternProperties"];
    !named && !invites && !combined.iter().any(|key| map.contains_key(*key))
}

/// What a field's schema says about it, with what its type cannot say.
fn doc(schema: &Value) -> String {
    let mut parts = Vec::new();
    if let Some(text) = schema.get("description").and_then(Value::as_str) {
        parts.push(text.trim().to_owned());
    }
    let values = schema.get("enum").and_then(Value::as_array).map_or(0, Vec::len);
    if values > ENUM_VALUES_MAX {
        parts.push(format!("{values} values in all."));
    }
    match schema.get("default") {
        None | Some(Value::Null | Value::Array(_) | Value::Object(_)) => {}
        Some(value) => parts.push(format!("Default: {value}.")),
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

fn literal(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Type::Literal(value.clone()),
        Value::Array(_) => Type::Array(Box::new(Type::Unknown)),
        Value::Object(_) => Type::Record(Box::new(Type::Unknown)),
    }
}

/// `create_issue` → `CreateIssue`: letters and digits only, each word starting large.
pub(super) fn pascal(text: &str) -> String {
    let mut name = String::new();
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        let mut chars = word.chars();
        name.extend(chars.next().into_iter().flat_map(char::to_uppercase));
        name.push_str(chars.as_str());
    }
    name.retain(unicode_ident::is_xid_continue);
    if name.chars().next().is_none_or(|c| !unicode_ident::is_xid_start(c)) {
        name.insert(0, '_');
    }
    name.chars().take(80).collect()
}
