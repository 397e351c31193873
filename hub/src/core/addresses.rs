//! What tools are called in code: stable JavaScript names for raw tool names (design 5).

use crate::model::names::{JsName, RawToolName, is_owned};
use std::collections::BTreeMap;
use unicode_normalization::UnicodeNormalization as _;

/// The camelCase identifier of a raw tool name, before collisions are looked at.
///
/// Words are what stands between characters no identifier may have (and `_`); case inside a word is
/// kept, the first word starts small, the others large.
#[must_use]
pub fn identifier(raw: &str) -> String {
    let text: String = raw.nfc().collect();
    let mut name = String::with_capacity(text.len());
    for word in text.split(|c: char| c == '_' || !unicode_ident::is_xid_continue(c)) {
        if word.is_empty() {
            continue;
        }
        if name.is_empty() {
            name.push_str(&lowered_start(word));
        } else {
            let mut chars = word.chars();
            name.extend(chars.next().into_iter().flat_map(char::to_uppercase));
            name.push_str(chars.as_str());
        }
    }
    if name.chars().next().is_none_or(|c| !unicode_ident::is_xid_start(c)) {
        name.insert(0, '_');
    }
    if is_owned(&name) {
        name.push('_');
    }
    name
}

/// `word` with its capitals at the start made small: `GET` → `get`, `HTTPServer` → `httpServer`.
fn lowered_start(word: &str) -> String {
    let capitals = word.chars().take_while(|c| c.is_uppercase()).count();
    let all = word.chars().all(|c| !c.is_lowercase());
    let lowered = if all { word.chars().count() } else { capitals.max(2) - 1 };
    let lowered = if capitals == 0 { 0 } else { lowered };
    word.chars()
        .enumerate()
        .flat_map(
            |(at, c)| {
                if at < lowered { c.to_lowercase().collect::<Vec<_>>() } else { vec![c] }
            },
        )
        .collect()
}

/// Gives every raw name its JavaScript name. A name in `held` stays with its raw name for ever, used or
/// not; of new raw names that meet, the first by raw name gets the plain identifier and the others
/// `_2`, `_3`. Returns `held` with the new names added.
#[must_use]
pub fn assign<'a>(
    raws: impl IntoIterator<Item = &'a RawToolName>,
    held: &BTreeMap<JsName, RawToolName>,
) -> BTreeMap<JsName, RawToolName> {
    let mut names = held.clone();
    let mut fresh: Vec<&RawToolName> =
        raws.into_iter().filter(|raw| !held.values().any(|known| known == *raw)).collect();
    fresh.sort();
    fresh.dedup();
    for raw in fresh {
        let plain = identifier(raw.as_str());
        let mut wanted = plain.clone();
        let mut number = 1;
        while names.keys().any(|taken| taken.as_str() == wanted) {
            number += 1;
            wanted = format!("{plain}_{number}");
        }
        // Too long for a name only if capitals grew it; such a tool stays without one.
        if let Ok(name) = wanted.parse::<JsName>() {
            names.insert(name, raw.clone());
        }
    }
    names
}

/// A namespace proposed for a source from what is known about it, free of `taken`.
#[must_use]
pub fn propose_namespace(text: &str, taken: &dyn Fn(&str) -> bool) -> String {
    let mut plain: String = identifier(text).chars().take(40).collect();
    if plain == "_" || plain.is_empty() {
        plain = "source".to_owned();
    }
    let mut wanted = plain.clone();
    let mut number = 1;
    while is_owned(&wanted) || taken(&wanted) {
        number += 1;
        wanted = format!("{plain}{number}");
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_become_camel_case() {
        let check = |raw: &str, expected: &str| assert_eq!(identifier(raw), expected, "{raw}");
        for raw in [
            "create_issue",
            "create-issue",
            "create.issue",
            "create issue",
            "createIssue",
            "CreateIssue",
        ] {
            check(raw, "createIssue");
        }
        check("GET_user", "getUser");
        check("HTTPServer", "httpServer");
        check("get_URL", "getURL");
        check("URL", "url");
        check("9lives", "_9lives");
        check("delete", "delete_");
        check("then", "then_");
        check("__proto__", "proto");
        check("constructor", "constructor_");
        check("日本語ツール", "日本語ツール");
        check("größe", "größe");
        check("gro\u{0308}ße", "größe");
        check("--", "_");
        check("notion:search/pages", "notionSearchPages");
    }

    fn raws(list: &[&str]) -> Vec<RawToolName> {
        list.iter().map(|raw| raw.parse().unwrap()).collect()
    }

    fn shown(names: &BTreeMap<JsName, RawToolName>) -> String {
        names.iter().map(|(js, raw)| format!("{js}={raw}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_first_by_raw_name_keeps_the_plain_name_and_names_are_kept_for_ever() {
        let first = assign(&raws(&["a_b", "a-b"]), &BTreeMap::new());
        assert_eq!(shown(&first), "aB=a-b aB_2=a_b");
        let second = assign(&raws(&["a.b", "a_b"]), &first);
        assert_eq!(shown(&second), "aB=a-b aB_2=a_b aB_3=a.b");
    }

    #[test]
    fn a_proposed_namespace_is_free_and_legal() {
        assert_eq!(propose_namespace("@acme/mcp-server", &|_| false), "acmeMcpServer");
        assert_eq!(propose_namespace("github", &|n| n == "github"), "github2");
        assert_eq!(propose_namespace("", &|_| false), "source");
        assert_eq!(propose_namespace("math", &|_| false), "math");
    }

    proptest! {
        #[test]
        fn every_name_is_an_identifier_nobody_owns(raw in ".{1,40}") {
            let name = identifier(&raw);
            prop_assert!(crate::model::names::is_identifier(&name), "{name}");
            prop_assert!(!is_owned(&name));
        }

        #[test]
        fn order_and_later_additions_never_move_a_name(
            mut list in proptest::collection::vec("[a-cA-C_.-]{1,4}", 1..12), later in "[a-cA-C_.-]{1,4}",
        ) {
            let given = assign(&raws(&list.iter().map(String::as_str).collect::<Vec<_>>()), &BTreeMap::new());
            list.reverse();
            let again = assign(&raws(&list.iter().map(String::as_str).collect::<Vec<_>>()), &BTreeMap::new());
            prop_assert_eq!(&given, &again);
            let grown = assign(&raws(&[later.as_str()]), &given);
            for (js, raw) in &given {
                prop_assert_eq!(grown.get(js), Some(raw));
            }
        }
    }
}
