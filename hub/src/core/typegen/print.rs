//! Type tree → text, on one line or over many.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a type that is not named is handled as a whole"
)]

use super::tree::{Field, Object, Type};
use crate::model::json::cut;
use crate::model::names::is_identifier;
use crate::model::visible::{one_line, visible};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Characters of a field's comment.
const FIELD_DOC_CHARS: usize = 240;
/// Characters of a property name that are printed.
const NAME_BYTES_MAX: usize = 120;
/// Characters of a literal that are printed; a longer one is `string`.
const LITERAL_BYTES_MAX: usize = 120;

/// How a type is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Everything on one line; fields that do not fit are counted.
    OneLine {
        /// Characters an object type may take.
        chars_max: usize,
    },
    /// A line per field.
    Lines {
        /// How many fields say what they are about.
        comments: usize,
    },
}

/// Prints types, remembering the named ones it met.
pub(super) struct Printer {
    layout: Layout,
    /// Put before a name; empty inside the namespace itself.
    qualifier: String,
    indent: usize,
    /// Names that are written as `unknown`.
    opaque: BTreeSet<String>,
    pub(super) names: Vec<String>,
}

impl Printer {
    pub(super) fn new(layout: Layout) -> Printer {
        Printer {
            layout,
            qualifier: String::new(),
            indent: 0,
            opaque: BTreeSet::new(),
            names: Vec::new(),
        }
    }

    /// Names are written as `<namespace>.<name>`, and fields start `indent` tabs in.
    pub(super) fn qualified(mut self, namespace: Option<&str>, indent: usize) -> Printer {
        self.qualifier = namespace.map(|name| format!("{name}.")).unwrap_or_default();
        self.indent = indent;
        self
    }

    /// These names have no declaration beside what is printed.
    pub(super) fn without(mut self, opaque: &BTreeSet<String>) -> Printer {
        self.opaque.clone_from(opaque);
        self
    }

    /// The parameter list before the options: nothing, `input: …` or `input?: …`.
    pub(super) fn input(&mut self, input: &Type) -> String {
        match input {
            Type::Object(object) if object.fields.is_empty() && object.extra.is_none() => {
                String::new()
            }
            Type::Record(inner) if **inner == Type::Never => String::new(),
            Type::Object(object) if object.fields.iter().all(|field| !field.required) => {
                format!("input?: {}", self.show(input))
            }
            other => format!("input: {}", self.show(other)),
        }
    }

    pub(super) fn show(&mut self, kind: &Type) -> String {
        match kind {
            Type::Unknown => "unknown".to_owned(),
            Type::Never => "never".to_owned(),
            Type::Null => "null".to_owned(),
            Type::Boolean => "boolean".to_owned(),
            Type::Number => "number".to_owned(),
            Type::BigNumber => "number | bigint".to_owned(),
            Type::String => "string".to_owned(),
            Type::Literal(value) => literal(value),
            Type::Array(item) => format!("{}[]", self.operand(item)),
            Type::Tuple { items, required, rest } => self.tuple(items, *required, rest.as_deref()),
            Type::Object(object) => self.object(object),
            Type::Record(value) => format!("Record<string, {}>", self.show(value)),
            Type::Union(options) => {
                let shown: Vec<String> = options.iter().map(|option| self.member(option)).collect();
                shown.join(" | ")
            }
            Type::Intersection(parts) => {
                let shown: Vec<String> = parts.iter().map(|part| self.operand(part)).collect();
                shown.join(" & ")
            }
            Type::Named(name) if self.opaque.contains(name) => "unknown".to_owned(),
            Type::Named(name) => {
                if !self.names.contains(name) {
                    self.names.push(name.clone());
                }
                format!("{}{name}", self.qualifier)
            }
        }
    }

    /// A type where something binds tighter than `|` and `&`.
    fn operand(&mut self, kind: &Type) -> String {
        let text = self.show(kind);
        match kind {
            Type::Union(_) | Type::Intersection(_) | Type::BigNumber => format!("({text})"),
            Type::Literal(_)
            | Type::Unknown
            | Type::Never
            | Type::Null
            | Type::Boolean
            | Type::Number
            | Type::String
            | Type::Array(_)
            | Type::Tuple { .. }
            | Type::Object(_)
            | Type::Record(_)
            | Type::Named(_) => text,
        }
    }

    /// A type inside a union.
    fn member(&mut self, kind: &Type) -> String {
        match kind {
            Type::Intersection(_) => self.operand(kind),
            other => self.show(other),
        }
    }

    fn tuple(&mut self, items: &[Type], required: usize, rest: Option<&Type>) -> String {
        let mut parts: Vec<String> = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let shown = self.operand(item);
            parts.push(if at < required { shown } else { format!("{shown}?") });
        }
        if let Some(rest) = rest {
            parts.push(format!("...{}[]", self.operand(rest)));
        }
        format!("[{}]", parts.join(", "))
    }

    fn object(&mut self, object: &Object) -> String {
        match self.layout {
            Layout::OneLine { chars_max } => self.object_on_one_line(object, chars_max),
            Layout::Lines { .. } => {
                self.indent += 1;
                let body: String = self.fields(object).concat();
                self.indent -= 1;
                format!("{{\n{body}{}}}", "\t".repeat(self.indent))
            }
        }
    }

    fn object_on_one_line(&mut self, object: &Object, chars_max: usize) -> String {
        let mut parts: Vec<String> = Vec::new();
        let mut used = 0;
        for (at, field) in object.fields.iter().enumerate() {
            let part = self.field(field);
            used += part.chars().count() + 2;
            if used > chars_max && at > 0 {
                parts.push(format!("/* {} more */", object.fields.len() - at));
                return format!("{{ {} }}", parts.join("; "));
            }
            parts.push(part);
        }
        parts.extend(self.index(object));
        if parts.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", parts.join("; ")) }
    }

    /// A line, with its comment before it, for each member.
    pub(super) fn fields(&mut self, object: &Object) -> Vec<String> {
        let tabs = "\t".repeat(self.indent);
        let mut lines = Vec::new();
        for field in &object.fields {
            let mut line = String::new();
            let text = self.field_comment(field);
            if !text.is_empty() {
                let _ = writeln!(line, "{tabs}/** {text} */");
            }
            let shown = self.field(field);
            let _ = writeln!(line, "{tabs}{shown};");
            lines.push(line);
        }
        lines.extend(self.index(object).map(|index| format!("{tabs}{index};\n")));
        lines
    }

    /// What a field says about itself, as long as comments are left.
    fn field_comment(&mut self, field: &Field) -> String {
        let Layout::Lines { comments } = &mut self.layout else { return String::new() };
        if *comments == 0 || field.doc.trim().is_empty() {
            return String::new();
        }
        *comments -= 1;
        comment(&one_line(&field.doc, FIELD_DOC_CHARS))
    }

    fn field(&mut self, field: &Field) -> String {
        let mark = if field.required { "" } else { "?" };
        format!("{}{mark}: {}", property(&field.name), self.show(&field.kind))
    }

    fn index(&mut self, object: &Object) -> Option<String> {
        // Beside fields only `unknown` is sure to fit them all.
        let extra = object.extra.as_ref()?;
        let kind = if object.fields.is_empty() { self.show(extra) } else { "unknown".to_owned() };
        Some(format!("[key: string]: {kind}"))
    }
}

/// A property name as it may stand in a type.
fn property(name: &str) -> String {
    if is_identifier(name) && name.len() <= NAME_BYTES_MAX { name.to_owned() } else { quoted(name) }
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) if text.len() > LITERAL_BYTES_MAX => "string".to_owned(),
        Value::String(text) => quoted(text),
        Value::Number(number) if number.is_f64() => "number".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => "unknown".to_owned(),
    }
}

/// A string literal in which nothing hides.
fn quoted(text: &str) -> String {
    let json = Value::String(cut(text, NAME_BYTES_MAX * 2).to_owned()).to_string();
    visible(&json, false)
}

/// Text that may stand inside a comment: it can neither close it nor open another.
pub(super) fn comment(text: &str) -> String {
    text.replace("*/", "*\\/").replace("/*", "/\\*")
}
