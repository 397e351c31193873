//! The scrubber: finds secret values, in the encodings an upstream may echo them in, and replaces them.
//!
//! Not found, and said so in the README: pieces of a value, reversed, encrypted or compressed ones.

use aho_corasick::AhoCorasick;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// What stands where a secret stood.
const MARK: &str = "[secret]";
/// Values shorter than this are not scrubbed: they would be found everywhere.
const BYTES_MIN: usize = crate::model::connection::SECRET_BYTES_MIN;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Secret values with their encodings.
#[derive(Default)]
pub(super) struct Scrubber {
    values: BTreeSet<Vec<u8>>,
    needles: BTreeSet<String>,
    /// Finds every needle in one pass; made anew with each value.
    finder: Option<AhoCorasick>,
}

impl Scrubber {
    /// Is this value among them?
    pub(super) fn knows(&self, value: &[u8]) -> bool {
        value.len() < BYTES_MIN || self.values.contains(value)
    }

    /// Adds a value and its encodings.
    pub(super) fn add(&mut self, value: &[u8]) {
        if self.knows(value) {
            return;
        }
        self.values.insert(value.to_vec());
        let long_enough = encodings(value).into_iter().filter(|needle| needle.len() >= BYTES_MIN);
        self.needles.extend(long_enough);
        self.finder = AhoCorasick::new(&self.needles).ok();
        if self.finder.is_none() {
            tracing::error!("secrets cannot be looked for: there are too many");
        }
    }

    /// Where secrets stand in a text: in order, none touching another.
    fn places(&self, text: &str) -> Vec<(usize, usize)> {
        let Some(finder) = &self.finder else { return Vec::new() };
        let mut found: Vec<(usize, usize)> =
            finder.find_overlapping_iter(text).map(|hit| (hit.start(), hit.end())).collect();
        found.sort_unstable();
        // What overlaps goes as one: a value inside another must not leave the rest of that.
        let mut merged: Vec<(usize, usize)> = Vec::new();
        for (start, end) in found {
            match merged.last_mut() {
                Some((_, last)) if start < *last => *last = end.max(*last),
                Some(_) | None => merged.push((start, end)),
            }
        }
        merged
    }

    pub(super) fn text(&self, text: &str) -> String {
        if !self.carries(text) {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for (start, end) in self.places(text) {
            out.push_str(text.get(from..start).unwrap_or_default());
            out.push_str(MARK);
            from = end;
        }
        out.push_str(text.get(from..).unwrap_or_default());
        out
    }

    pub(super) fn carries(&self, text: &str) -> bool {
        self.finder.as_ref().is_some_and(|finder| finder.is_match(text))
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
        write!(f, "Scrubber({} values)", self.values.len())
    }
}

/// A value as it is, and as base64 (both alphabets, all three alignments), hex, percent, JSON and HTML.
fn encodings(bytes: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    for shift in 0..3 {
        let standard = base64_core(bytes, shift);
        all.push(standard.replace('+', "-").replace('/', "_"));
        all.push(standard);
    }
    let hex = |format: fn(u8) -> String| bytes.iter().map(|byte| format(*byte)).collect();
    all.push(hex(|byte| format!("{byte:02x}")));
    all.push(hex(|byte| format!("{byte:02X}")));
    all.push(hex(|byte| format!("%{byte:02x}")));
    all.push(hex(|byte| format!("%{byte:02X}")));
    // What is no text has no other forms.
    let Ok(value) = std::str::from_utf8(bytes) else { return all };
    all.push(value.to_owned());
    for upper in [true, false] {
        for plain in ["-_.~", "-_.!~*'()", "-_.*"] {
            let percent = percent(bytes, plain, upper);
            all.push(percent.replace("%20", "+"));
            all.push(percent);
        }
    }
    let json = json_inside(value);
    all.push(json_inside(&json));
    all.push(json.replace('/', "\\/"));
    for upper in [true, false] {
        all.push(escaped(value, upper, |_| true));
        all.push(escaped(value, upper, |c| !c.is_ascii()));
        all.push(escaped(value, upper, |c| !c.is_ascii() || "<>&'\"".contains(c)));
    }
    all.push(json);
    all.extend(html(value));
    all
}

/// What stands between the quotes of a JSON string.
fn json_inside(value: &str) -> String {
    let text = Value::String(value.to_owned()).to_string();
    text.get(1..text.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

/// As inside a JSON string, with some characters as `\u` and four digits.
fn escaped(value: &str, upper: bool, which: fn(char) -> bool) -> String {
    let mut out = String::new();
    for c in value.chars() {
        if !which(c) {
            out.push_str(&json_inside(&c.to_string()));
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = if upper { write!(out, "\\u{unit:04X}") } else { write!(out, "\\u{unit:04x}") };
        }
    }
    out
}

/// As HTML: with the few characters that must be written as entities, in the ways that is done.
fn html(value: &str) -> Vec<String> {
    let base = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut all = vec![base.clone()];
    for double in ["&quot;", "&#34;", "&#x22;"] {
        let with_double = base.replace('"', double);
        for single in ["'", "&#39;", "&#x27;", "&apos;"] {
            all.push(with_double.replace('\'', single));
        }
    }
    let entities =
        |format: fn(u32) -> String| value.chars().map(|c| format(u32::from(c))).collect();
    all.push(entities(|c| format!("&#{c};")));
    all.push(entities(|c| format!("&#x{c:x};")));
    all.push(entities(|c| format!("&#x{c:X};")));
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

/// Percent-encoded but for letters, digits and `plain`, with large or small hexadecimal letters.
fn percent(bytes: &[u8], plain: &str, upper: bool) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let c = char::from(*byte);
        let _ = match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => write!(text, "{c}"),
            _ if plain.contains(c) => write!(text, "{c}"),
            _ if upper => write!(text, "%{byte:02X}"),
            _ => write!(text, "%{byte:02x}"),
        };
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use proptest::prelude::*;
    use serde_json::json;

    const SECRET: &str = "s3cr3t/t0ken+\"<é'&";

    fn scrubber() -> Scrubber {
        let mut scrubber = Scrubber::default();
        scrubber.add(SECRET.as_bytes());
        scrubber
    }

    /// Ways in which an upstream may show a text again.
    fn shown(text: &str) -> Vec<String> {
        let hex = |upper| {
            text.bytes().fold(String::new(), |mut out, byte| {
                let _ = if upper { write!(out, "{byte:02X}") } else { write!(out, "{byte:02x}") };
                out
            })
        };
        let mut url = url::Url::parse("http://x/").unwrap();
        url.query_pairs_mut().append_pair("k", text);
        let mut path = url.clone();
        path.path_segments_mut().unwrap().push(text);
        vec![
            text.to_owned(),
            STANDARD.encode(text),
            URL_SAFE_NO_PAD.encode(text),
            hex(true),
            hex(false),
            percent(text.as_bytes(), "-_.~", true),
            percent(text.as_bytes(), "-_.~", false),
            percent(text.as_bytes(), "-_.!~*'()", true),
            url.query().unwrap().to_owned(),
            json!(text).to_string(),
            json!(json!(text).to_string()).to_string(),
            json!(text).to_string().replace('/', "\\/"),
            escaped(text, false, |c| !c.is_ascii()),
            escaped(text, true, |_| true),
            maud::html! { (text) }.into_string(),
            text.chars().fold(String::new(), |mut out, c| {
                let _ = write!(out, "&#{};", u32::from(c));
                out
            }),
        ]
    }

    #[test]
    fn a_value_is_found_in_every_encoding_and_alignment() {
        for before in ["", "a", "ab", "abc", "Bearer "] {
            for after in ["", "z", "zz", "zzz"] {
                for shown in shown(&format!("{before}{SECRET}{after}")) {
                    let clean = scrubber().text(&shown);
                    assert!(clean.contains(MARK), "{shown}");
                    assert!(!scrubber().carries(&clean));
                }
            }
        }
    }

    #[test]
    fn values_that_overlap_go_as_one() {
        let mut scrubber = Scrubber::default();
        for value in ["abcdef", "defghi", "efg", "bcdefghijk"] {
            scrubber.add(value.as_bytes());
        }
        assert_eq!(scrubber.text("-abcdefghi-"), "-[secret]-");
        assert_eq!(scrubber.text("abcdefghijkabcdef"), "[secret][secret]");
        assert_eq!(scrubber.text("-abcde-"), "-abcde-");
    }

    #[test]
    fn keys_and_numbers_are_scrubbed_too() {
        let mut scrubber = scrubber();
        scrubber.add(b"123456789");
        let mut value = json!({"a": [SECRET, 123_456_789], "k": {SECRET: true}});
        scrubber.value(&mut value);
        assert_eq!(value, json!({"a": ["[secret]", "[secret]"], "k": {"[secret]": true}}));
    }

    #[test]
    fn bytes_that_are_no_text_are_found_as_base64_and_hex() {
        let mut scrubber = Scrubber::default();
        let key = [0xff, 0xfe, 0, 1, 2, 3, 0x80, 9];
        scrubber.add(&key);
        assert!(scrubber.carries(&STANDARD.encode(key)));
        assert!(scrubber.carries("x fffe000102038009 y"));
    }

    #[test]
    fn short_values_are_not_scrubbed() {
        let mut scrubber = Scrubber::default();
        scrubber.add(b"12345");
        assert_eq!(scrubber.text("12345"), "12345");
    }

    proptest! {
        #[test]
        fn no_text_around_a_value_hides_it(
            value in "[ -~é日]{6,40}", before in "(?s).{0,12}", after in "(?s).{0,12}",
        ) {
            let mut scrubber = Scrubber::default();
            scrubber.add(value.as_bytes());
            for shown in shown(&format!("{before}{value}{after}")) {
                let clean = scrubber.text(&shown);
                prop_assert!(clean.contains(MARK), "{value:?} in {shown:?}");
                prop_assert!(!scrubber.carries(&clean.replace(MARK, " ")), "{clean:?}");
            }
        }
    }
}
