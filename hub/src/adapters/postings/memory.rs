//! Postings in memory.

use super::score::{FIELDS, Worth, fields, idf, length, score, sort};
use crate::model::digest::Digest;
use crate::ports::postings::{Document, Inverted, Postings};
use std::collections::{BTreeMap, BTreeSet};

/// Makes every index anew, in memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryPostings;

impl Postings for MemoryPostings {
    type Index = MemoryIndex;

    async fn open<F>(&self, _key: Digest, _count: usize, documents: F) -> MemoryIndex
    where
        F: Fn() -> Vec<Document> + Send + Sync + 'static,
    {
        MemoryIndex::build(&documents())
    }
}

/// An index in memory.
#[derive(Debug)]
pub struct MemoryIndex {
    terms: BTreeMap<String, Vec<(u32, [u16; FIELDS])>>,
    lengths: Vec<[u8; FIELDS]>,
    worth: Worth,
}

impl MemoryIndex {
    /// An index over `documents`.
    #[must_use]
    pub fn build(documents: &[Document]) -> MemoryIndex {
        let mut terms: BTreeMap<String, Vec<(u32, [u16; FIELDS])>> = BTreeMap::new();
        let mut lengths = Vec::with_capacity(documents.len());
        let mut totals = [0u64; FIELDS];
        for (number, document) in (0u32..).zip(documents) {
            let fields = fields(document);
            for (field, words) in fields.into_iter().enumerate() {
                for word in words {
                    let list = terms.entry(word.clone()).or_default();
                    if list.last().is_none_or(|(last, _)| *last != number) {
                        list.push((number, [0; FIELDS]));
                    }
                    if let Some(count) =
                        list.last_mut().and_then(|(_, counts)| counts.get_mut(field))
                    {
                        *count = count.saturating_add(1);
                    }
                }
            }
            for (total, words) in totals.iter_mut().zip(fields) {
                *total += words.len() as u64;
            }
            lengths.push(fields.map(|words| length(words.len())));
        }
        MemoryIndex { terms, worth: Worth::new(totals, lengths.len()), lengths }
    }
}

impl Inverted for MemoryIndex {
    fn rank(&self, terms: &[String]) -> Vec<(u32, f32)> {
        let mut scores: BTreeMap<u32, f32> = BTreeMap::new();
        let distinct: BTreeSet<&String> = terms.iter().collect();
        for list in distinct.into_iter().filter_map(|term| self.terms.get(term)) {
            let idf = idf(self.lengths.len(), list.len());
            for (number, counts) in list {
                let Some(lengths) = self.lengths.get(*number as usize) else { continue };
                let weighted = counts.iter().zip(lengths).enumerate().fold(
                    0.0,
                    |sum, (field, (count, length))| {
                        sum + self.worth.of(field, *length, u32::from(*count))
                    },
                );
                *scores.entry(*number).or_default() += score(idf, weighted);
            }
        }
        let mut ranked: Vec<(u32, f32)> = scores.into_iter().collect();
        sort(&mut ranked);
        ranked
    }

    fn terms_near(&self, near: &dyn Fn(&str) -> bool, count: usize) -> Vec<String> {
        self.terms.keys().filter(|term| near(term)).take(count).cloned().collect()
    }
}
