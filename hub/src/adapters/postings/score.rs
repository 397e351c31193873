//! BM25F: one idf and one saturation per term, over the weighted frequencies of all fields.

use crate::ports::postings::Document;
use tantivy::fieldnorm::FieldNormReader;

/// Number of fields of a document.
pub(super) const FIELDS: usize = 5;
/// Weight of each field: name, server, description, parameters, parameter descriptions.
const WEIGHTS: [f32; FIELDS] = [5.0, 1.5, 1.0, 0.5, 0.4];
/// How much each field's length counts.
const LENGTH_PENALTY: [f32; FIELDS] = [0.5, 0.5, 0.75, 0.75, 0.75];
/// Saturation of a term's weighted frequency.
const K1: f32 = 1.6;

/// A document's fields, in the order in which everything here counts them.
pub(super) fn fields(document: &Document) -> [&Vec<String>; FIELDS] {
    let Document { name, server, description, parameters, parameter_descriptions } = document;
    [name, server, description, parameters, parameter_descriptions]
}

/// What one occurrence of a term is worth, by field and by the field's length. A length is one byte, as
/// it is kept on disk: exact up to 40 words, in steps beyond.
#[derive(Debug)]
pub(super) struct Worth([Box<[f32; 256]>; FIELDS]);

impl Worth {
    /// For `documents` documents whose fields have so many words in all.
    pub(super) fn new(words: [u64; FIELDS], documents: usize) -> Worth {
        let documents = to_f32(documents.max(1) as u64);
        let mut tables = words.into_iter().zip(WEIGHTS).zip(LENGTH_PENALTY);
        Worth(std::array::from_fn(|_| {
            let ((words, weight), penalty) = tables.next().unwrap_or(((0, 0.0), 0.0));
            let average = (to_f32(words) / documents).max(f32::MIN_POSITIVE);
            let table = std::array::from_fn(|id| {
                let length = FieldNormReader::id_to_fieldnorm(u8::try_from(id).unwrap_or(u8::MAX));
                let norm = 1.0 - penalty + penalty * to_f32(u64::from(length)) / average;
                weight / norm.max(1e-9)
            });
            Box::new(table)
        }))
    }

    /// What `count` occurrences are worth in a field of this length.
    pub(super) fn of(&self, field: usize, length: u8, count: u32) -> f32 {
        let table = self.0.get(field);
        let each = table.and_then(|table| table.get(usize::from(length))).copied();
        each.unwrap_or(0.0) * to_f32(u64::from(count))
    }
}

/// A field's length as one byte.
pub(super) fn length(words: usize) -> u8 {
    FieldNormReader::fieldnorm_to_id(u32::try_from(words).unwrap_or(u32::MAX))
}

/// How rare a term is that `with` of `all` documents hold.
pub(super) fn idf(all: usize, with: usize) -> f32 {
    let (all, with) = (to_f32(all as u64), to_f32(with as u64));
    (1.0 + (all - with + 0.5) / (with + 0.5)).ln()
}

/// The score of one term in one document.
pub(super) fn score(idf: f32, weighted: f32) -> f32 {
    idf * weighted / (K1 + weighted)
}

/// Best first; ties in the order of the documents.
pub(super) fn sort(ranked: &mut [(u32, f32)]) {
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
}

#[expect(clippy::cast_precision_loss, reason = "a score needs no more than 24 bits")]
fn to_f32(count: u64) -> f32 {
    count as f32
}
