//! Text from elsewhere, made safe to look at: what cannot be seen is written out.

use super::json::cut;
use unicode_script::{Script, UnicodeScript as _};

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

/// `text` with letters written as `\u{…}` where they stand in a word of another script, as a `а` of
/// Cyrillic among Latin ones: such a word reads as what it is not. Latin together with the scripts of
/// China, Japan and Korea is how people write there, and stays.
#[must_use]
pub fn unmixed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let is_word = |c: char| c.is_alphabetic() || script(c) == Script::Inherited;
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word);
        push_word(word, &mut out);
        let between = after.find(is_word).unwrap_or(after.len());
        let (between, next) = after.split_at(between);
        out.push_str(between);
        rest = next;
    }
    out
}

fn push_word(word: &str, out: &mut String) {
    if word.is_ascii() {
        return out.push_str(word);
    }
    let mut own = None;
    let mut mixed = false;
    for script in word.chars().map(script) {
        match (script, own) {
            (Script::Common | Script::Inherited, _) => {}
            (script, None) => own = Some(script),
            (script, Some(own)) => mixed |= !together(script, own),
        }
    }
    if !mixed {
        return out.push_str(word);
    }
    // Of a mixed word only the Latin letters stay; without any, those of its first script.
    let stays =
        if word.chars().any(|c| script(c) == Script::Latin) { Some(Script::Latin) } else { own };
    for c in word.chars() {
        if Some(script(c)) == stays {
            out.push(c);
        } else {
            out.extend(c.escape_unicode());
        }
    }
}

fn script(c: char) -> Script {
    c.script()
}

/// Do these two scripts belong into one word?
fn together(a: Script, b: Script) -> bool {
    let east = |script| {
        matches!(
            script,
            Script::Han | Script::Hiragana | Script::Katakana | Script::Hangul | Script::Bopomofo
        )
    };
    a == b || east(a) && (east(b) || b == Script::Latin) || east(b) && a == Script::Latin
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
    fn letters_of_another_script_within_a_word_are_written_out() {
        let check = |text: &str, expected: &str| assert_eq!(unmixed(text), expected);
        check("p\u{430}ypal.com", "p\\u{430}ypal.com");
        check("\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442} мир, größe", "привет мир, größe");
        check("iPhone用 サーバーの設定", "iPhone用 サーバーの設定");
        check("\u{391}\u{430}", "\u{391}\\u{430}");
        check("e\u{301}te\u{301} αβγ 5µm", "e\u{301}te\u{301} αβγ 5µm");
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
