//! BM25F over postings in memory.

use crate::ports::postings::{Document, Postings};
use std::collections::{BTreeMap, BTreeSet};

/// Number of fields of a document.
const FIELDS: usize = 5;
/// Weight of each field: name, server, description, parameters, parameter descriptions.
const WEIGHTS: [f32; FIELDS] = [5.0, 1.5, 1.0, 0.5, 0.4];
/// How much each field's length counts.
const LENGTH_PENALTY: [f32; FIELDS] = [0.5, 0.5, 0.75, 0.75, 0.75];
/// Saturation of a term's weighted frequency.
const K1: f32 = 1.6;

/// A term's occurrences in one document, per field.
type Frequencies = [u16; FIELDS];

/// Postings in memory.
#[derive(Debug, Default)]
pub struct MemoryPostings {
    terms: BTreeMap<String, Vec<(u32, Frequencies)>>,
    lengths: Vec<Frequencies>,
    averages: [f32; FIELDS],
}

impl Postings for MemoryPostings {
    fn build(documents: &[Document]) -> Self {
        let mut postings = MemoryPostings::default();
        let mut totals = [0u64; FIELDS];
        for (number, document) in (0u32..).zip(documents) {
            let mut lengths: Frequencies = [0; FIELDS];
            for (field, words) in fields(document).into_iter().enumerate() {
                for word in words {
                    let list = postings.terms.entry(word.clone()).or_default();
                    if list.last().is_none_or(|(last, _)| *last != number) {
                        list.push((number, [0; FIELDS]));
                    }
                    if let Some(count) =
                        list.last_mut().and_then(|(_, counts)| counts.get_mut(field))
                    {
                        *count = count.saturating_add(1);
                    }
                }
                if let (Some(length), Some(total)) = (lengths.get_mut(field), totals.get_mut(field))
                {
                    *length = u16::try_from(words.len()).unwrap_or(u16::MAX);
                    *total += u64::from(*length);
                }
            }
            postings.lengths.push(lengths);
        }
        let count = to_f32(documents.len().max(1) as u64);
        for (average, total) in postings.averages.iter_mut().zip(totals) {
            *average = (to_f32(total) / count).max(f32::MIN_POSITIVE);
        }
        postings
    }

    fn rank(&self, terms: &[String]) -> Vec<(u32, f32)> {
        let mut scores: BTreeMap<u32, f32> = BTreeMap::new();
        let distinct: BTreeSet<&String> = terms.iter().collect();
        for list in distinct.into_iter().filter_map(|term| self.terms.get(term)) {
            let (all, with) = (to_f32(self.lengths.len() as u64), to_f32(list.len() as u64));
            let idf = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
            for (number, counts) in list {
                let weighted = self.weighted(*number, counts);
                *scores.entry(*number).or_default() += idf * weighted / (K1 + weighted);
            }
        }
        let mut ranked: Vec<(u32, f32)> = scores.into_iter().collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        ranked
    }

    fn terms_near(&self, near: &dyn Fn(&str) -> bool, count: usize) -> Vec<String> {
        self.terms.keys().filter(|term| near(term)).take(count).cloned().collect()
    }
}

impl MemoryPostings {
    /// A term's frequency in one document, weighted and normalised over its fields.
    fn weighted(&self, number: u32, counts: &Frequencies) -> f32 {
        let Some(lengths) = self.lengths.get(number as usize) else { return 0.0 };
        let mut sum = 0.0;
        for ((((count, length), average), weight), penalty) in
            counts.iter().zip(lengths).zip(self.averages).zip(WEIGHTS).zip(LENGTH_PENALTY)
        {
            let norm = 1.0 - penalty + penalty * f32::from(*length) / average;
            sum += weight * f32::from(*count) / norm.max(1e-9);
        }
        sum
    }
}

fn fields(document: &Document) -> [&Vec<String>; FIELDS] {
    let Document { name, server, description, parameters, parameter_descriptions } = document;
    [name, server, description, parameters, parameter_descriptions]
}

#[expect(clippy::cast_precision_loss, reason = "a score needs no more than 24 bits")]
fn to_f32(count: u64) -> f32 {
    count as f32
}
