//! Search: tokenising, query, ranking and rendering. The postings are a port.
//!
//! `words` splits and stems, `query` ranks and filters, `render` writes the answer, `target` finds what
//! `describe` names.

mod query;
mod render;
mod target;
mod words;

#[cfg(test)]
mod tests;

pub use query::{Request, RequestError, search};
pub use render::inventory;
pub use target::{DESCRIBE_TOKENS, describe, read_targets};
pub use words::document;

use crate::model::facts::Facts;
use crate::model::ids::SourceId;
use crate::model::names::RawToolName;
use crate::ports::postings::{Document, Postings};
use std::sync::Arc;

/// Postings over the tools of one moment, with the tool behind each document.
#[derive(Debug)]
pub struct Index<P> {
    facts: Arc<Facts>,
    tools: Vec<(SourceId, RawToolName)>,
    postings: P,
}

impl<P: Postings> Index<P> {
    /// Indexes every tool of every consented source, in the order of their addresses.
    #[must_use]
    pub fn new(facts: Arc<Facts>) -> Index<P> {
        let mut tools = Vec::new();
        let mut documents: Vec<Document> = Vec::new();
        for source in facts.visible() {
            let mut sorted: Vec<_> = source.tools.values().collect();
            sorted.sort_by(|a, b| a.name.cmp(&b.name));
            for tool in sorted {
                tools.push((source.record.id.clone(), tool.raw.clone()));
                documents.push(document(source, tool));
            }
        }
        Index { postings: P::build(&documents), facts, tools }
    }

    /// The facts it was built from.
    #[must_use]
    pub fn facts(&self) -> &Arc<Facts> {
        &self.facts
    }
}
