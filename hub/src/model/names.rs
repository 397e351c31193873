//! What people and code call things: namespaces, raw tool names, connections, tool addresses.

use super::ids::SourceId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Longest raw tool name, in bytes; a longer one is dropped with a notice.
pub const RAW_TOOL_NAME_BYTES_MAX: usize = 1024;
/// Longest namespace or connection name, in bytes.
pub const SHORT_NAME_BYTES_MAX: usize = 64;

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing between the quotes.
    #[error("a {kind} may not be empty")]
    Empty {
        /// What was being named.
        kind: &'static str,
    },
    /// More bytes than the kind allows.
    #[error("a {kind} has at most {bytes_max} bytes, not {bytes}")]
    TooLong {
        /// What was being named.
        kind: &'static str,
        /// Its length.
        bytes: usize,
        /// The most it may have.
        bytes_max: usize,
    },
    /// A character the kind does not allow.
    #[error("`{text}` is not a {kind}: {rule}")]
    Malformed {
        /// What was being named.
        kind: &'static str,
        /// The refused text, escaped.
        text: String,
        /// What would have been accepted.
        rule: &'static str,
    },
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $bytes_max:expr, $rule:literal, $fits:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The name as its owner spells it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                if text.is_empty() {
                    return Err(NameError::Empty { kind: $kind });
                }
                if text.len() > $bytes_max {
                    return Err(NameError::TooLong { kind: $kind, bytes: text.len(), bytes_max: $bytes_max });
                }
                let fits: fn(&str) -> bool = $fits;
                if !fits(text) {
                    let text = text.escape_debug().to_string();
                    return Err(NameError::Malformed { kind: $kind, text, rule: $rule });
                }
                Ok($name(text.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

name!(
    /// A tool's own name, as its source spells it. Policy, pins and grants know tools by it.
    RawToolName, "tool name", RAW_TOOL_NAME_BYTES_MAX, "any text", |_| true
);
name!(
    /// A JavaScript identifier that stands for a tool inside its namespace.
    JsName, "JavaScript name", RAW_TOOL_NAME_BYTES_MAX + 16, "a JavaScript identifier", is_identifier
);
name!(
    /// The identifier a source's tools appear under in code. Unique per hub, stable across refreshes.
    Namespace, "namespace", SHORT_NAME_BYTES_MAX,
    "it is a JavaScript identifier that neither the language nor the sandbox owns, such as `github`",
    |text| is_identifier(text) && !is_owned(text)
);
name!(
    /// One named credential of one source, without the credential.
    ConnectionName, "connection name", SHORT_NAME_BYTES_MAX,
    "letters, digits, `-`, `_` and `.`, such as `work`",
    |text| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
);

/// A tool as policy, pins and grants see it: never by its JavaScript name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ToolRef {
    /// Which source, by its random id.
    pub source: SourceId,
    /// Which tool, as the source spells it.
    pub raw: RawToolName,
}

/// `<namespace>.<tool>`: how code, people and journals name a tool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The part before the dot.
    pub namespace: Namespace,
    /// The part after it.
    pub tool: JsName,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace, self.tool)
    }
}

impl FromStr for Address {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.split_once('.') {
            Some((namespace, tool)) => {
                Ok(Address { namespace: namespace.parse()?, tool: tool.parse()? })
            }
            None => Err(NameError::Malformed {
                kind: "tool address",
                text: text.chars().take(80).flat_map(char::escape_debug).collect(),
                rule: "it is written `<namespace>.<tool>`",
            }),
        }
    }
}

/// May `text` stand as an identifier in code?
#[must_use]
pub fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c == '$' || c == '_' || unicode_ident::is_xid_start(c))
        && chars.all(|c| c == '$' || unicode_ident::is_xid_continue(c))
}

/// Is `text` a name that the language or the sandbox's prelude owns?
#[must_use]
pub fn is_owned(text: &str) -> bool {
    RESERVED_WORDS.contains(&text) || PRELUDE_NAMES.contains(&text)
}

/// Words that may not stand as an identifier in strict code.
pub const RESERVED_WORDS: &[&str] = &[
    "arguments",
    "await",
    "async",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "eval",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "null",
    "package",
    "private",
    "protected",
    "public",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// Names in the sandbox's global scope that a namespace may not take.
pub const PRELUDE_NAMES: &[&str] = &[
    "hub",
    "console",
    "ToolError",
    "setTimeout",
    "clearTimeout",
    "setInterval",
    "clearInterval",
    "queueMicrotask",
    "structuredClone",
    "TextEncoder",
    "TextDecoder",
    "atob",
    "btoa",
    "crypto",
    "globalThis",
    "self",
    "window",
    "global",
    "process",
    "require",
    "module",
    "exports",
    "Buffer",
    "fetch",
    "URL",
    "URLSearchParams",
    "WebAssembly",
    "Object",
    "Function",
    "Array",
    "Number",
    "Boolean",
    "String",
    "Symbol",
    "BigInt",
    "Date",
    "Promise",
    "RegExp",
    "Error",
    "AggregateError",
    "EvalError",
    "RangeError",
    "ReferenceError",
    "SyntaxError",
    "TypeError",
    "URIError",
    "SuppressedError",
    "JSON",
    "Math",
    "Reflect",
    "Proxy",
    "Map",
    "Set",
    "WeakMap",
    "WeakSet",
    "WeakRef",
    "FinalizationRegistry",
    "ArrayBuffer",
    "SharedArrayBuffer",
    "Atomics",
    "DataView",
    "Iterator",
    "Int8Array",
    "Uint8Array",
    "Uint8ClampedArray",
    "Int16Array",
    "Uint16Array",
    "Int32Array",
    "Uint32Array",
    "BigInt64Array",
    "BigUint64Array",
    "Float16Array",
    "Float32Array",
    "Float64Array",
    "NaN",
    "Infinity",
    "isNaN",
    "isFinite",
    "parseInt",
    "parseFloat",
    "decodeURI",
    "encodeURI",
    "decodeURIComponent",
    "encodeURIComponent",
    "escape",
    "unescape",
    "DOMException",
    "performance",
    "DisposableStack",
    "AsyncDisposableStack",
    "Intl",
    "Temporal",
    "CallOptions",
    "then",
    "toJSON",
    "constructor",
    "__proto__",
    "prototype",
    "valueOf",
    "toString",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_identifiers_nobody_owns() {
        for good in ["github", "größe", "日本", "a1", "_x", "$"] {
            assert!(good.parse::<Namespace>().is_ok(), "{good}");
        }
        for bad in
            ["", "1a", "a-b", "a.b", "class", "hub", "Math", "__proto__", "a b", &"x".repeat(65)]
        {
            assert!(bad.parse::<Namespace>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_has_two_parts() {
        assert_eq!(
            "github.createIssue".parse::<Address>().unwrap().to_string(),
            "github.createIssue"
        );
        for bad in ["github", "github.", ".x", "github.a.b", "hub.search"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
