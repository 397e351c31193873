//! o200k tokens without a tokenizer: a cheap estimate that never counts too few.
//!
//! It splits text the way the encoding does and counts each piece from above: a word of `words.txt`
//! (every word that is one token with and without a space before it), or after a space one of
//! `words_after_space.txt`, is one token, any other as many as a word of its length can be expected to
//! have at most. A test holds it to the real tokenizer.

/// Words that are one token, sorted by bytes, one a line.
const WORDS: &str = include_str!("words.txt");
/// Words of four small letters and more that are one token only after a space, sorted the same way.
const WORDS_AFTER_SPACE: &str = include_str!("words_after_space.txt");

/// What is added to the count: one part of so many, and so many tokens.
const SPARE_PART: usize = 100;
const SPARE: usize = 1;

/// At most how many o200k tokens `text` has, and rarely a sixth more.
#[must_use]
pub fn estimate(text: &str) -> usize {
    let mut halves = 0;
    let mut rest = text;
    let mut lead = Lead::None;
    while let Some(first) = rest.chars().next() {
        let kind = Kind::of(first);
        let length = match kind {
            Kind::Upper | Kind::Lower => word_length(rest),
            Kind::Digit | Kind::Mark | Kind::Space | Kind::Break | Kind::Other => {
                rest.find(|c| Kind::of(c) != kind).unwrap_or(rest.len())
            }
        };
        let (piece, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        let next = after.chars().next().map(Kind::of);
        let (cost, next_lead) = match kind {
            Kind::Upper | Kind::Lower => {
                (lead.cost() + word_cost(piece, lead == Lead::Space), Lead::None)
            }
            Kind::Digit => (lead.cost().min(2) + 2 * piece.len().div_ceil(3), Lead::None),
            Kind::Mark => mark_cost(piece, next),
            Kind::Space => space_cost(piece, next),
            Kind::Break => (if lead == Lead::AfterMark { 0 } else { 2 }, Lead::None),
            Kind::Other => (other_cost(piece), Lead::None),
        };
        halves += cost;
        lead = next_lead;
        rest = after;
    }
    // Counted closely, so a little is added: a text of odd names is encoded worse than its parts.
    if halves == 0 { 0 } else { (halves + halves / SPARE_PART).div_ceil(2) + SPARE }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Upper,
    Lower,
    Digit,
    Mark,
    Space,
    Break,
    Other,
}

impl Kind {
    fn of(c: char) -> Kind {
        match c {
            'A'..='Z' => Kind::Upper,
            'a'..='z' => Kind::Lower,
            '0'..='9' => Kind::Digit,
            '\n' | '\r' => Kind::Break,
            ' ' | '\t' => Kind::Space,
            c if c.is_ascii() => Kind::Mark,
            _ => Kind::Other,
        }
    }
}

/// What stands right before a word and is encoded with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    None,
    /// One space, which costs nothing.
    Space,
    /// A mark that may cost a token of its own, or join the word.
    Joined,
    /// A line break behind marks belongs to them.
    AfterMark,
}

impl Lead {
    fn cost(self) -> usize {
        match self {
            Lead::None | Lead::Space | Lead::AfterMark => 0,
            Lead::Joined => 1,
        }
    }
}

/// Capitals and the small letters after them, or only capitals: one word of the encoding.
fn word_length(text: &str) -> usize {
    let upper = text.bytes().take_while(u8::is_ascii_uppercase).count();
    let lower = text.bytes().skip(upper).take_while(u8::is_ascii_lowercase).count();
    upper + lower
}

fn word_cost(word: &str, after_space: bool) -> usize {
    match word.len() {
        1 => 2,
        _ if is_line_of(WORDS, word) || after_space && is_line_of(WORDS_AFTER_SPACE, word) => 2,
        2 => 3,
        long => (2 * long).div_ceil(3).max(4),
    }
}

fn mark_cost(marks: &str, next: Option<Kind>) -> (usize, Lead) {
    match next {
        // One mark before a word belongs to the word.
        Some(Kind::Upper | Kind::Lower) if marks.len() == 1 => (0, Lead::Joined),
        Some(Kind::Break) => (marks.len().div_ceil(2).max(1) * 2, Lead::AfterMark),
        Some(_) | None => (marks.len().div_ceil(2).max(1) * 2, Lead::None),
    }
}

fn space_cost(spaces: &str, next: Option<Kind>) -> (usize, Lead) {
    let last_is_space = spaces.ends_with(' ');
    let joins = match next {
        Some(Kind::Upper | Kind::Lower) => true,
        Some(Kind::Mark | Kind::Other) => last_is_space,
        Some(Kind::Digit | Kind::Break | Kind::Space) | None => false,
    };
    let alone = if joins { spaces.len() - 1 } else { spaces.len() };
    let cost = 2 * alone.div_ceil(16);
    let lead = match (joins, last_is_space) {
        (true, true) => Lead::Space,
        (true, false) => Lead::Joined,
        (false, _) => Lead::None,
    };
    (cost, lead)
}

/// Letters of other scripts, symbols: from above by their UTF-8 length, except where a letter is known
/// to be at most one token.
fn other_cost(text: &str) -> usize {
    let cost = |c: char| match c {
        '\u{3000}'..='\u{30ff}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{ff00}'..='\u{ffef}' => 2,
        c if c.len_utf8() <= 2 => 2,
        c => 2 * (c.len_utf8() - 1),
    };
    text.chars().map(cost).sum()
}

/// Is `word` a line of `words`, which is sorted?
fn is_line_of(words: &str, word: &str) -> bool {
    let (mut low, mut high) = (0, words.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let start =
            words.get(low..middle).and_then(|part| part.rfind('\n')).map_or(low, |at| low + at + 1);
        let line = words.get(start..).and_then(|text| text.lines().next()).unwrap_or("");
        match line.cmp(word) {
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Less => low = start + line.len() + 1,
            std::cmp::Ordering::Greater => high = start,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_list_is_found_and_no_other() {
        for words in [WORDS, WORDS_AFTER_SPACE] {
            assert!(words.lines().is_sorted());
            for word in words.lines() {
                assert!(is_line_of(words, word), "{word}");
            }
        }
        for word in ["", "zzzzq", "descriptio", "Zzq"] {
            assert!(!is_line_of(WORDS, word), "{word}");
        }
    }

    #[test]
    fn nothing_costs_nothing_and_more_text_never_costs_less() {
        assert_eq!(estimate(""), 0);
        let text = "declare const github: {\n\t/** Create an issue. */\n\tcreateIssue(): Promise<unknown>;\n};\n";
        let mut before = 0;
        for end in 0..=text.len() {
            let now = estimate(&text[..end]);
            assert!(now + 4 >= before, "{end}");
            before = now;
        }
    }
}
