//! The text of `search`, and the inventory that the server's instructions carry.

use crate::core::typegen::signature;
use crate::model::facts::{Facts, SourceFacts};
use crate::model::source::ManifestTool;
use crate::model::source::SourceRecord;
use crate::model::tokens::estimate;
use crate::model::visible::{first_sentence, one_line};
use std::fmt::Write as _;

/// Characters of a tool's description in a hit.
const SAYS_CHARS: usize = 140;
/// Tokens of one search answer.
const SEARCH_TOKENS: usize = 2_500;
/// Tokens of the inventory in the instructions.
const INVENTORY_TOKENS: usize = 220;
/// Characters of a label in the inventory.
const LABEL_CHARS: usize = 60;

/// What a search found.
#[derive(Default)]
pub(super) struct Listing<'a> {
    pub(super) query: String,
    pub(super) hits: Vec<Hit<'a>>,
    pub(super) more: usize,
    pub(super) hidden: usize,
}

/// One tool of an answer.
pub(super) struct Hit<'a> {
    pub(super) source: &'a SourceFacts,
    pub(super) tool: &'a ManifestTool,
    pub(super) asks: bool,
}

/// Groups hits by namespace, in the order of each namespace's best hit.
pub(super) fn render(listing: &Listing<'_>, within: Option<&SourceFacts>) -> String {
    let mut text = String::new();
    let mut order: Vec<&SourceFacts> = Vec::new();
    for hit in &listing.hits {
        if !order.iter().any(|known| known.record.id == hit.source.record.id) {
            order.push(hit.source);
        }
    }
    let mut more = listing.more;
    let mut used = 0;
    for source in order {
        let mut headed = false;
        for hit in listing.hits.iter().filter(|hit| hit.source.record.id == source.record.id) {
            let block = block(hit);
            let tokens = estimate(&block);
            // One large hit costs itself its place, and no other.
            if used + tokens > SEARCH_TOKENS {
                more += 1;
                continue;
            }
            used += tokens;
            if !headed {
                let _ = writeln!(text, "{}{}", source.record.namespace, connections(source));
                headed = true;
            }
            text.push_str(&block);
        }
    }
    if listing.hits.is_empty() {
        text.push_str(&nothing(listing, within));
    }
    if more > 0 {
        let advice = if within.is_some() {
            "Narrow the query."
        } else {
            "Narrow the query or pass namespace."
        };
        let _ =
            writeln!(text, "{more} more {}. {advice}", if more == 1 { "match" } else { "matches" });
    }
    if listing.hidden > 0 {
        let what = if listing.hidden == 1 { "match is" } else { "matches are" };
        let _ = writeln!(text, "{} {what} hidden: denied by the user's policy.", listing.hidden);
    }
    text.truncate(text.trim_end().len());
    text
}

fn block(hit: &Hit<'_>) -> String {
    let tool = hit.tool;
    let mut block = format!(
        "  {}{}\n",
        signature(hit.source.record.namespace.as_str(), tool.name.as_str(), &tool.contract),
        if hit.asks { "   [asks]" } else { "" }
    );
    let says = first_sentence(tool.contract.description(), SAYS_CHARS);
    let says = if says.is_empty() {
        one_line(tool.contract.title().unwrap_or(""), SAYS_CHARS)
    } else {
        says
    };
    if !says.is_empty() {
        let _ = writeln!(block, "    {says}");
    }
    block
}

/// `  (connections: personal*, work)`, the default starred; nothing without connections.
pub(super) fn connections(source: &SourceFacts) -> String {
    let connections = &source.connections;
    if connections.connections.is_empty() {
        return String::new();
    }
    let names: Vec<String> = connections
        .connections
        .keys()
        .map(|name| {
            let star = if connections.default.as_ref() == Some(name) { "*" } else { "" };
            format!("{name}{star}")
        })
        .collect();
    format!("  (connections: {})", names.join(", "))
}

fn nothing(listing: &Listing<'_>, within: Option<&SourceFacts>) -> String {
    let query = one_line(&listing.query, 80);
    match within {
        _ if listing.hidden > 0 => String::new(),
        Some(source) if listing.query.is_empty() => {
            format!("`{}` has no tools.\n", source.record.namespace)
        }
        Some(source) => {
            let namespace = &source.record.namespace;
            format!(
                "Nothing in `{namespace}` matches \"{query}\". Search without a query to list all its tools.\n"
            )
        }
        None => format!(
            "Nothing matches \"{query}\". Try other words, or search with an empty query to list the namespaces.\n"
        ),
    }
}

/// The answer to an empty search: every namespace with its number of tools.
pub(super) fn namespaces(facts: &Facts) -> String {
    let visible = facts.visible();
    if visible.is_empty() {
        return "The hub has no sources yet. The user can add one in a terminal: `capabilities hub add <command or URL>`.".to_owned();
    }
    let mut text = String::new();
    for source in visible {
        let _ = writeln!(text, "{}", line(source, true));
    }
    text.push_str("Pass `namespace` to list one of them, or a query to search all.");
    text
}

fn line(source: &SourceFacts, with_connections: bool) -> String {
    let connections = if with_connections { connections(source) } else { String::new() };
    format!("{}{connections}", item(&source.record, source.tools.len()))
}

fn item(record: &SourceRecord, tools: usize) -> String {
    let tools = if tools == 1 { "1 tool".to_owned() } else { format!("{tools} tools") };
    let label = record.label.as_deref().map(|label| format!(", {}", one_line(label, LABEL_CHARS)));
    format!("{} ({tools}{})", record.namespace, label.unwrap_or_default())
}

/// Namespaces with tool counts and the labels people typed, within its own token budget. Never upstream
/// text.
#[derive(Debug, Default)]
pub struct Inventory {
    text: String,
    named: usize,
}

impl Inventory {
    /// Adds a source, in the order of namespaces; `false` when there is no room, for this or any other.
    pub fn add(&mut self, record: &SourceRecord, tools: usize) -> bool {
        let item = item(record, tools);
        let separator = if self.text.is_empty() { "" } else { ", " };
        if estimate(&self.text) + estimate(&item) + 16 > INVENTORY_TOKENS {
            return false;
        }
        let _ = write!(self.text, "{separator}{item}");
        self.named += 1;
        true
    }

    /// The whole line, where there are `sources` in all.
    #[must_use]
    pub fn finish(mut self, sources: usize) -> String {
        if sources > self.named {
            let _ = write!(self.text, " and {} more", sources - self.named);
        }
        self.text
    }
}
