//! The scrubber: finds secret values, in the encodings an upstream may echo them in, and replaces them.

use serde_json::Value;

/// What stands where a secret stood.
const MARK: &str = "[secret]";
/// Values shorter than this are not scrubbed: they would be found everywhere.
const BYTES_MIN: usize = 6;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Secret values with their encodings, longest first.
#[derive(Default)]
pub(super) struct Scrubber {
    needles: Vec<String>,
}

impl Scrubber {
    /// Adds a value and its encodings.
    pub(super) fn add(&mut self, value: &str) {
        if value.len() < BYTES_MIN || self.needles.iter().any(|known| known == value) {
            return;
        }
        for needle in encodings(value) {
            if needle.len() >= BYTES_MIN && !self.needles.contains(&needle) {
                self.needles.push(needle);
            }
        }
        self.needles.sort_by_key(|needle| std::cmp::Reverse(needle.len()));
    }

    pub(super) fn text(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for needle in &self.needles {
            if out.contains(needle.as_str()) {
                out = out.replace(needle.as_str(), MARK);
            }
        }
        out
    }

    pub(super) fn carries(&self, text: &str) -> bool {
        self.needles.iter().any(|needle| text.contains(needle.as_str()))
    }

    /// Scrubs strings, object keys and numbers of a value.
    pub(super) fn value(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                let text = number.to_string();
                if self.carries(&text) {
                    *value = Value::String(self.text(&text));
                }
            }
            Value::String(text) => {
                if self.carries(text) {
                    *text = self.text(text);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(members) => {
                members.values_mut().for_each(|member| self.value(member));
                if members.keys().any(|key| self.carries(key)) {
                    let old = std::mem::take(members);
                    members.extend(old.into_iter().map(|(key, member)| (self.text(&key), member)));
                }
            }
        }
    }
}

impl std::fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scrubber({} needles)", self.needles.len())
    }
}

/// A value as it is, and as base64 (both alphabets, all three alignments), percent, JSON, hex and HTML.
fn encodings(value: &str) -> Vec<String> {
    let bytes = value.as_bytes();
    let mut all = vec![value.to_owned()];
    for shift in 0..3 {
        let standard = base64_core(bytes, shift);
        all.push(standard.replace('+', "-").replace('/', "_"));
        all.push(standard);
    }
    all.push(percent(bytes, true));
    all.push(percent(bytes, false));
    let json = Value::String(value.to_owned()).to_string();
    all.push(json.trim_matches('"').to_owned());
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    all.push(hex.to_uppercase());
    all.push(hex);
    let html = value
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;");
    all.push(html.replace('\'', "&#39;"));
    all.push(html);
    all
}

/// The letters that a value always encodes to when `shift` bytes stand before it: those that other bytes
/// have a part in are left out.
fn base64_core(bytes: &[u8], shift: usize) -> String {
    let mut padded = vec![0; shift];
    padded.extend_from_slice(bytes);
    let mut letters = String::new();
    let mut bits = 0u32;
    let mut held = 0;
    for byte in &padded {
        bits = bits << 8 | u32::from(*byte);
        held += 8;
        while held >= 6 {
            held -= 6;
            let letter = BASE64.get((bits >> held & 63) as usize).copied().unwrap_or(b'A');
            letters.push(char::from(letter));
        }
    }
    // The first letters of a shifted value carry bits of what stands before it.
    let before = [0, 2, 3].get(shift).copied().unwrap_or(0);
    letters.get(before..).unwrap_or("").to_owned()
}

/// Percent-encoded, with large or small hexadecimal letters.
fn percent(bytes: &[u8], upper: bool) -> String {
    bytes
        .iter()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(*byte).to_string()
            }
            _ if upper => format!("%{byte:02X}"),
            _ => format!("%{byte:02x}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECRET: &str = "s3cr3t/t0ken+\"<é";

    fn scrubber() -> Scrubber {
        let mut scrubber = Scrubber::default();
        scrubber.add(SECRET);
        scrubber
    }

    #[test]
    fn a_value_is_found_in_every_encoding_and_alignment() {
        for before in ["", "a", "ab", "abc", "Bearer "] {
            for after in ["", "z", "zz", "zzz"] {
                let text = format!("{before}{SECRET}{after}");
                let mut padded = base64_core(text.as_bytes(), 0);
                padded.push('=');
                for shown in [
                    text.clone(),
                    padded.clone(),
                    padded.replace('+', "-").replace('/', "_"),
                    percent(text.as_bytes(), true),
                    json!(text).to_string(),
                ] {
                    let clean = scrubber().text(&shown);
                    assert!(clean.contains(MARK), "{shown}");
                    assert!(!scrubber().carries(&clean));
                }
            }
        }
    }

    #[test]
    fn keys_and_numbers_are_scrubbed_too() {
        let mut scrubber = scrubber();
        scrubber.add("123456789");
        let mut value = json!({"a": [SECRET, 123_456_789], "k": {SECRET: true}});
        scrubber.value(&mut value);
        assert_eq!(value, json!({"a": ["[secret]", "[secret]"], "k": {"[secret]": true}}));
    }

    #[test]
    fn short_values_are_not_scrubbed() {
        let mut scrubber = Scrubber::default();
        scrubber.add("12345");
        assert_eq!(scrubber.text("12345"), "12345");
    }
}
