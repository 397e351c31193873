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
pub use render::Inventory;
pub use target::{DESCRIBE_TOKENS, describe, read_targets};
pub use words::document;

use crate::model::digest::Digest;
use crate::model::facts::{Facts, SourceFacts};
use crate::model::ids::SourceId;
use crate::model::names::RawToolName;
use crate::model::source::ManifestTool;
use crate::ports::postings::{Document, Inverted};
use std::fmt::Write as _;
use std::sync::Arc;

/// Every tool of every consented source, in the order of their addresses: what an index is over.
#[derive(Debug, Clone)]
pub struct Catalog {
    facts: Arc<Facts>,
    tools: Vec<(SourceId, RawToolName)>,
}

impl Catalog {
    /// The catalog of one moment.
    #[must_use]
    pub fn new(facts: Arc<Facts>) -> Catalog {
        let tools =
            sorted(&facts).map(|(source, tool)| (source.record.id.clone(), tool.raw.clone()));
        let tools = tools.collect();
        Catalog { facts, tools }
    }

    /// How many tools it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Has it none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Names exactly these documents, in this order: another word anywhere is another key.
    #[must_use]
    pub fn key(&self) -> Digest {
        let mut text = format!("{}\n", words::VERSION);
        for (source, tool) in sorted(&self.facts) {
            let record = &source.record;
            let label = record.label.as_deref().unwrap_or("");
            let _ = writeln!(text, "{:?} {:?} {}", record.namespace.as_str(), label, tool.digest);
        }
        Digest::of(text.as_bytes())
    }

    /// Every tool as search sees it.
    #[must_use]
    pub fn documents(&self) -> Vec<Document> {
        sorted(&self.facts).map(|(source, tool)| document(source, tool)).collect()
    }
}

fn sorted(facts: &Facts) -> impl Iterator<Item = (&SourceFacts, &ManifestTool)> {
    facts.visible().into_iter().flat_map(|source| {
        let mut sorted: Vec<_> = source.tools.values().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        sorted.into_iter().map(move |tool| (source, tool))
    })
}

/// A catalog with postings over its documents.
#[derive(Debug)]
pub struct Index<I> {
    facts: Arc<Facts>,
    tools: Vec<(SourceId, RawToolName)>,
    postings: I,
}

impl<I: Inverted> Index<I> {
    /// `postings` are over the documents of `catalog`.
    #[must_use]
    pub fn new(catalog: Catalog, postings: I) -> Index<I> {
        Index { facts: catalog.facts, tools: catalog.tools, postings }
    }

    /// The facts it was built from.
    #[must_use]
    pub fn facts(&self) -> &Arc<Facts> {
        &self.facts
    }
}
