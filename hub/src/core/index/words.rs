//! Text → terms: words split at case, separators and digits, folded and stemmed.

use crate::model::facts::SourceFacts;
use crate::model::source::ManifestTool;
use crate::ports::postings::Document;
use frostem::{Algorithm, Stemmer};
use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

/// Changes with how texts become terms, so that no index of older terms is used.
pub(super) const VERSION: u32 = 1;

/// Words of a request that say nothing about the tool that is wanted.
const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "am", "an", "and", "any", "are", "as", "at", "be", "been", "by", "can",
    "could", "did", "do", "does", "for", "from", "give", "had", "has", "have", "help", "how", "i",
    "if", "in", "into", "is", "it", "its", "just", "let", "like", "me", "my", "need", "no", "not",
    "of", "on", "or", "our", "out", "please", "should", "so", "some", "tell", "that", "the",
    "their", "them", "then", "there", "these", "they", "this", "those", "to", "tool", "tools",
    "up", "us", "use", "using", "want", "was", "we", "were", "what", "when", "where", "which",
    "who", "will", "with", "would", "you", "your",
];

/// Words one field of a document has at most; a longer text says little more.
const FIELD_WORDS_MAX: usize = 2_000;
/// Depth to which parameters of parameters are indexed.
const PARAMETER_DEPTH: usize = 3;

/// Splits and folds `text` into stemmed terms.
pub(super) fn terms(text: &str) -> Vec<String> {
    let stemmer = Stemmer::new(Algorithm::English);
    words(text).into_iter().map(|word| stemmer.stem(&word).into_owned()).collect()
}

/// The terms of a query: distinct, stop words dropped unless nothing else is left.
pub(super) fn query_terms(query: &str) -> Vec<String> {
    let stemmer = Stemmer::new(Algorithm::English);
    let all = words(query);
    let mut kept: Vec<&String> =
        all.iter().filter(|word| !STOP_WORDS.contains(&word.as_str())).collect();
    if kept.is_empty() {
        kept = all.iter().collect();
    }
    let mut terms = Vec::new();
    for word in kept {
        let term = stemmer.stem(word).into_owned();
        if !terms.contains(&term) {
            terms.push(term);
        }
    }
    terms
}

/// Lower-case words: split where no letter or digit stands, between small and capital letters, before
/// the last capital of a run (`HTTPServer` → `http`, `server`) and between letters and digits; each
/// ideograph alone; accents dropped.
pub(super) fn words(text: &str) -> Vec<String> {
    let folded: Vec<char> = text.nfkd().filter(|c| !is_combining(*c)).collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (at, c) in folded.iter().copied().enumerate() {
        let before = at.checked_sub(1).and_then(|before| folded.get(before)).copied();
        let after = folded.get(at + 1).copied();
        let splits = !c.is_alphanumeric()
            || is_ideograph(c)
            || before.is_some_and(|b| starts_anew(b, c, after));
        if splits && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if is_ideograph(c) {
            words.push(c.to_string());
        } else if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn starts_anew(before: char, c: char, after: Option<char>) -> bool {
    before.is_lowercase() && c.is_uppercase()
        || before.is_uppercase() && c.is_uppercase() && after.is_some_and(char::is_lowercase)
        || before.is_alphabetic() != c.is_alphabetic() && before.is_alphanumeric()
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{3040}'..='\u{30ff}' | '\u{20000}'..='\u{3ffff}')
}

fn is_combining(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// One tool in the fields that ranking weighs. Connections are not among them.
#[must_use]
pub fn document(source: &SourceFacts, tool: &ManifestTool) -> Document {
    let mut document = Document {
        name: terms(tool.raw.as_str()),
        server: terms(source.record.namespace.as_str()),
        description: terms(tool.contract.title().unwrap_or("")),
        ..Document::default()
    };
    document.server.extend(terms(source.record.label.as_deref().unwrap_or("")));
    document.description.extend(terms(tool.contract.description()));
    if let Some(schema) = tool.contract.input_schema() {
        parameters(schema, 0, &mut document);
    }
    for field in [
        &mut document.name,
        &mut document.description,
        &mut document.parameters,
        &mut document.parameter_descriptions,
    ] {
        field.truncate(FIELD_WORDS_MAX);
    }
    document
}

fn parameters(schema: &Value, depth: usize, document: &mut Document) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, schema) in properties {
        if document.parameters.len() > FIELD_WORDS_MAX {
            return;
        }
        document.parameters.extend(terms(name));
        if let Some(text) = schema.get("description").and_then(Value::as_str) {
            document.parameter_descriptions.extend(terms(text));
        }
        if depth < PARAMETER_DEPTH {
            parameters(schema, depth + 1, document);
            if let Some(items) = schema.get("items") {
                parameters(items, depth + 1, document);
            }
        }
    }
}
