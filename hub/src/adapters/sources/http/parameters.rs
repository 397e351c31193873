//! Arguments that a tool wants repeated as headers (`x-mcp-header` in its input schema).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderName, HeaderValue};
use serde_json::Value;

/// Depth to which properties of properties are looked at.
const DEPTH_MAX: usize = 8;
/// Headers one tool may ask for.
const HEADERS_MAX: usize = 32;
/// Bytes the names may have that lead to such an argument, each.
const NAME_BYTES_MAX: usize = 256;
/// Bytes such a value may have.
const VALUE_BYTES_MAX: usize = 8 * 1024;

/// Where an argument stands, and the header it goes into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameter {
    path: Vec<String>,
    header: HeaderName,
}

/// What a tool's input schema asks for.
pub(super) fn wanted(schema: &Value) -> Vec<Parameter> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found);
    found
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Parameter>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, property) in properties {
        if found.len() >= HEADERS_MAX || path.len() >= DEPTH_MAX {
            return;
        }
        if name.len() > NAME_BYTES_MAX {
            continue;
        }
        path.push(name.clone());
        let header = property.get("x-mcp-header").and_then(Value::as_str);
        let header = header.map(|header| format!("mcp-param-{}", header.to_ascii_lowercase()));
        if let Some(Ok(header)) = header.map(|header| header.parse()) {
            found.push(Parameter { path: path.clone(), header });
        }
        collect(property, path, found);
        path.pop();
    }
}

/// The headers for one call. An argument that is missing or no plain value has none.
pub(super) fn headers<'a>(
    parameters: &'a [Parameter],
    arguments: &'a Value,
) -> impl Iterator<Item = (HeaderName, HeaderValue)> + 'a {
    parameters.iter().filter_map(move |parameter| {
        let mut value = arguments;
        for name in &parameter.path {
            value = value.get(name)?;
        }
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some((parameter.header.clone(), encoded(&text)?))
    })
}

/// Text as a header's value: as it is where that is safe, in base64 otherwise.
pub(super) fn encoded(text: &str) -> Option<HeaderValue> {
    if text.len() > VALUE_BYTES_MAX {
        return None;
    }
    let plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && text.trim() == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    let text = if plain {
        text.to_owned()
    } else {
        format!("=?base64?{}?=", BASE64_STANDARD.encode(text))
    };
    HeaderValue::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_travel_in_the_headers_their_schema_names() {
        let schema = json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "flag": {"type": "boolean", "x-mcp-header": "Flag"},
            "bad": {"x-mcp-header": "no header\n"},
            "plain": {"type": "string"},
        }});
        let parameters = wanted(&schema);
        let of = |arguments: Value| -> Vec<String> {
            let pairs = headers(&parameters, &arguments);
            pairs.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
        };
        assert_eq!(
            of(
                json!({"region": "eu", "deep": {"n": 9_007_199_254_740_993_i64}, "flag": true, "plain": "x"})
            ),
            ["mcp-param-region: eu", "mcp-param-n: 9007199254740993", "mcp-param-flag: true"]
        );
        assert_eq!(
            of(json!({"region": "a\r\nx: y"})),
            ["mcp-param-region: =?base64?YQ0KeDogeQ==?="]
        );
        assert_eq!(of(json!({"region": " ü"})), ["mcp-param-region: =?base64?IMO8?="]);
        assert_eq!(of(json!({"region": null})), Vec::<String>::new());
    }
}
