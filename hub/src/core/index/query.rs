//! A search request: checked, ranked, filtered through policy, and never empty when something is near.

use super::Index;
use super::render::{Hit, Listing, render};
use super::words::{query_terms, words};
use crate::core::policy::{CallFacts, DecisionsOnRecord, rule};
use crate::model::call::Binding;
use crate::model::digest::Digest;
use crate::model::facts::SourceFacts;
use crate::model::names::ToolRef;
use crate::model::nearest::distance;
use crate::model::policy::Effect;
use crate::model::source::ManifestTool;
use crate::ports::postings::Inverted;
use serde_json::Value;
use std::collections::BTreeMap;

/// Characters a query may have.
const QUERY_CHARS_MAX: usize = 200;
/// Hits a search may return.
const LIMIT_MAX: u64 = 25;
/// Hits a search returns unless told otherwise.
const LIMIT_DEFAULT: usize = 8;
/// Terms near a word of the query that are tried when the word itself is found nowhere.
const NEAR_TERMS: usize = 24;

/// What `search` was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    query: String,
    namespace: Option<String>,
    limit: usize,
}

/// An argument that is missing, unknown or out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RequestError(pub(super) String);

impl Request {
    /// Reads the arguments of `search`.
    ///
    /// # Errors
    /// Names the field and its range.
    pub fn read(arguments: &Value) -> Result<Request, RequestError> {
        let fail = |text: String| Err(RequestError(text));
        let Some(members) = arguments.as_object() else {
            return fail(
                "`search` takes an object with `query`, `namespace` and `limit`".to_owned(),
            );
        };
        if let Some(unknown) =
            members.keys().find(|key| !["query", "namespace", "limit"].contains(&key.as_str()))
        {
            let unknown: String = unknown.chars().take(40).flat_map(char::escape_debug).collect();
            return fail(format!(
                "there is no field `{unknown}`; `search` takes `query`, `namespace` and `limit`"
            ));
        }
        let query = match members.get("query") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) if text.chars().count() <= QUERY_CHARS_MAX => text.clone(),
            Some(Value::String(text)) => {
                let chars = text.chars().count();
                return fail(format!(
                    "`query` has {chars} characters; it may have 0 to {QUERY_CHARS_MAX}"
                ));
            }
            Some(_) => {
                return fail(format!(
                    "`query` must be a string of 0 to {QUERY_CHARS_MAX} characters"
                ));
            }
        };
        let namespace = match members.get("namespace") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) if name.is_empty() => None,
            Some(Value::String(name)) => Some(name.clone()),
            Some(_) => return fail("`namespace` must be a string".to_owned()),
        };
        let limit = match members.get("limit") {
            None | Some(Value::Null) => LIMIT_DEFAULT,
            Some(value) => match value.as_u64().or_else(|| whole(value)) {
                Some(limit @ 1..=LIMIT_MAX) => usize::try_from(limit).unwrap_or(LIMIT_DEFAULT),
                Some(_) | None => {
                    return fail(format!("`limit` must be an integer from 1 to {LIMIT_MAX}"));
                }
            },
        };
        Ok(Request { query, namespace, limit })
    }
}

/// `8.0` is eight to a model.
fn whole(value: &Value) -> Option<u64> {
    let number = value.as_f64()?;
    (number.fract() == 0.0 && (0.0..1e6).contains(&number))
        .then(|| format!("{number:.0}").parse().ok())?
}

/// Answers a search as plain text.
///
/// # Errors
/// The namespace does not exist; names the closest ones.
pub fn search<I: Inverted>(index: &Index<I>, request: &Request) -> Result<String, RequestError> {
    let within = match &request.namespace {
        None => None,
        Some(name) => Some(
            index
                .facts
                .namespace(name)
                .ok_or_else(|| super::target::no_namespace(&index.facts, name))?,
        ),
    };
    if request.query.trim().is_empty() && within.is_none() {
        return Ok(super::render::namespaces(&index.facts));
    }
    let query = request.query.trim();
    let mut listing = Listing { query: query.to_owned(), ..Listing::default() };
    let mut effects = Effects::default();
    if query.is_empty() {
        let all = 0..u32::try_from(index.tools.len()).unwrap_or(u32::MAX);
        fill(&mut listing, index, request, within, &mut effects, all);
    } else {
        let terms = query_terms(query);
        fill(&mut listing, index, request, within, &mut effects, rank(index, &terms));
        if listing.hits.is_empty() {
            // Nothing visible holds a word of the query: try what starts like one, or is a letter away.
            let hidden = listing.hidden;
            listing.hidden = 0;
            let near = near_terms(index, query, terms);
            fill(&mut listing, index, request, within, &mut effects, rank(index, &near));
            listing.hidden = listing.hidden.max(hidden);
        }
    }
    Ok(render(&listing, within))
}

/// Adds documents to a listing, best first, as far as namespace, policy and limit allow.
fn fill<'a, I: Inverted>(
    listing: &mut Listing<'a>,
    index: &'a Index<I>,
    request: &Request,
    within: Option<&SourceFacts>,
    effects: &mut Effects,
    documents: impl IntoIterator<Item = u32>,
) {
    for at in documents {
        let Some((id, raw)) = index.tools.get(at as usize) else { continue };
        let Some(source) = index.facts.sources.get(id) else { continue };
        if within.is_some_and(|within| within.record.id != *id) {
            continue;
        }
        let Some(tool) = source.tools.get(raw) else { continue };
        match effects.of(source, tool) {
            Effect::Deny => listing.hidden += 1,
            Effect::Allow | Effect::Ask if listing.hits.len() >= request.limit => listing.more += 1,
            effect @ (Effect::Allow | Effect::Ask) => {
                listing.hits.push(Hit { source, tool, asks: effect == Effect::Ask });
            }
        }
    }
}

fn rank<I: Inverted>(index: &Index<I>, terms: &[String]) -> Vec<u32> {
    index.postings.rank(terms).into_iter().map(|(document, _)| document).collect()
}

/// Indexed terms near any word of the query, those one letter away first.
fn near_terms<I: Inverted>(index: &Index<I>, query: &str, terms: Vec<String>) -> Vec<String> {
    let wanted: Vec<String> = words(query).into_iter().chain(terms).collect();
    let near = |term: &str| wanted.iter().any(|word| is_near(word, term));
    let mut found = index.postings.terms_near(&near, usize::MAX);
    found.sort_by_key(|term| wanted.iter().map(|word| distance(word, term)).min());
    found.truncate(NEAR_TERMS);
    found
}

/// A shared start of three letters, or one letter's difference.
fn is_near(word: &str, term: &str) -> bool {
    let start = |text: &str| text.chars().take(3).collect::<String>();
    let long = word.chars().count() >= 3 && term.chars().count() >= 3;
    long && start(word) == start(term) || word.chars().count() >= 2 && distance(word, term) <= 1
}

/// What the policy would say about tools, without a connection's rules; cached per tool within a search.
#[derive(Default)]
pub(super) struct Effects {
    known: BTreeMap<ToolRef, Effect>,
}

impl Effects {
    pub(super) fn of(&mut self, source: &SourceFacts, tool: &ManifestTool) -> Effect {
        let tool_ref = ToolRef { source: source.record.id.clone(), raw: tool.raw.clone() };
        *self.known.entry(tool_ref).or_insert_with_key(|tool_ref| {
            let binding = Binding {
                tool: tool_ref.clone(),
                connection: source.connections.default.clone(),
                contract: tool.digest,
                arguments: Digest::of(b"{}"),
            };
            let facts = CallFacts {
                seq: None,
                binding: &binding,
                frozen: tool.digest,
                read_only: tool.contract.is_read_only(),
            };
            rule(&source.policy, &DecisionsOnRecord::default(), facts).effect
        })
    }
}
