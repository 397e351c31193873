//! Text from elsewhere, made safe to look at: what cannot be seen is written out.

use super::json::cut;

/// `text` with control, invisible, bidirectional and tag characters written as `\u{…}`, so that what
/// a person reads is what is there. Newlines and tabs stay when `multiline`.
#[must_use]
pub fn visible(text: &str, multiline: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if multiline && (c == '\n' || c == '\t') || !is_hidden(c) {
            out.push(c);
        } else {
            out.extend(c.escape_unicode());
        }
    }
    out
}

/// `text` on one line: whitespace runs become one space, hidden characters are written out, and it is
/// cut to `chars_max` characters.
#[must_use]
pub fn one_line(text: &str, chars_max: usize) -> String {
    // Only the beginning can survive the cut, so only that is looked at.
    let head = cut(text, chars_max.saturating_mul(8).saturating_add(64));
    let joined = head.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = visible(&joined, false);
    if shown.chars().count() <= chars_max && head.len() == text.len() {
        return shown;
    }
    let mut short: String = shown.chars().take(chars_max.saturating_sub(1)).collect();
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// The first sentence of `text`, on one line, at most `chars_max` characters.
#[must_use]
pub fn first_sentence(text: &str, chars_max: usize) -> String {
    let text = text.trim();
    let paragraph = text.split("\n\n").next().unwrap_or("");
    let mut end = paragraph.len();
    for (at, c) in paragraph.char_indices() {
        let after = paragraph.get(at + c.len_utf8()..).unwrap_or("");
        let stops =
            matches!(c, '.' | '!' | '?') && after.chars().next().is_none_or(char::is_whitespace);
        // An abbreviation such as "e.g. " is no end: what follows one starts small.
        let next = after.trim_start().chars().next();
        if c == '。' || stops && next.is_none_or(|n| !n.is_lowercase()) {
            end = at + c.len_utf8();
            break;
        }
    }
    one_line(paragraph.get(..end).unwrap_or(""), chars_max)
}

/// Would `c` leave no honest mark on a screen?
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_written_out() {
        assert_eq!(
            visible("a\u{202e}b\u{e0041}\u{1b}[31m\n", true),
            "a\\u{202e}b\\u{e0041}\\u{1b}[31m\n"
        );
        assert_eq!(visible("größe 日本 😀", false), "größe 日本 😀");
        assert_eq!(one_line("a\n  b\tc", 10), "a b c");
        assert_eq!(one_line("abcdefghij k", 6), "abcde…");
    }

    #[test]
    fn a_sentence_ends_where_a_reader_would_stop() {
        let check = |text: &str, expected: &str| assert_eq!(first_sentence(text, 80), expected);
        check("Create an issue. Needs a token.", "Create an issue.");
        check("Lists files, e.g. all of them. More.", "Lists files, e.g. all of them.");
        check("Version 1.2 is read", "Version 1.2 is read");
        check("No stop\n\nSecond paragraph.", "No stop");
        check("", "");
    }
}
