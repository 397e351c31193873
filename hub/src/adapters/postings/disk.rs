//! Postings on disk, mapped into memory: built once, read by any number of processes.

use super::score::{FIELDS, Worth, fields, idf, score, sort};
use crate::ports::postings::{Document, Inverted};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use tantivy::directory::MmapDirectory;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::Postings as _;
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::store::Compressor;
use tantivy::tokenizer::{PreTokenizedString, Token};
use tantivy::{
    DocSet as _, Index, IndexBuilder, IndexSettings, InvertedIndexReader, ReloadPolicy, TERMINATED,
    TantivyDocument, TantivyError, Term,
};

/// Names of the fields on disk, in the order of `score::fields`.
const NAMES: [&str; FIELDS] =
    ["name", "server", "description", "parameters", "parameter_descriptions"];
/// Memory that building may use before it writes.
const BUILD_BYTES: usize = 64 << 20;

/// An index on disk.
pub(super) struct DiskIndex {
    documents: usize,
    fields: Vec<(Field, Arc<InvertedIndexReader>, FieldNormReader)>,
    worth: Worth,
}

fn schema() -> (Schema, [Field; FIELDS]) {
    let mut schema = Schema::builder();
    let indexing = TextFieldIndexing::default()
        .set_index_option(IndexRecordOption::WithFreqs)
        .set_fieldnorms(true);
    let options = TextOptions::default().set_indexing_options(indexing);
    let fields = NAMES.map(|name| schema.add_text_field(name, options.clone()));
    (schema.build(), fields)
}

/// Writes an index over `documents` into a folder that is empty.
pub(super) fn build(folder: &Path, documents: &[Document]) -> Result<(), TantivyError> {
    let (schema, names) = schema();
    let settings = IndexSettings {
        docstore_compression: Compressor::None,
        docstore_compress_dedicated_thread: false,
        ..IndexSettings::default()
    };
    let directory = MmapDirectory::open(folder)?;
    // One segment: a document's number is its place.
    let mut writer = IndexBuilder::new()
        .schema(schema)
        .settings(settings)
        .single_segment_index_writer(directory, BUILD_BYTES)?;
    for document in documents {
        let mut row = TantivyDocument::default();
        for (field, words) in names.into_iter().zip(fields(document)) {
            let tokens = words.iter().enumerate().map(|(position, word)| Token {
                position,
                text: word.clone(),
                position_length: 1,
                ..Token::default()
            });
            let text = PreTokenizedString { text: String::new(), tokens: tokens.collect() };
            row.add_pre_tokenized_text(field, text);
        }
        writer.add_document(row)?;
    }
    writer.finalize()?;
    Ok(())
}

impl DiskIndex {
    /// Opens what [`build`] wrote for `documents` documents.
    pub(super) fn open(folder: &Path, documents: usize) -> Result<DiskIndex, TantivyError> {
        let index = Index::open_in_dir(folder)?;
        let (wanted, names) = schema();
        let other = || TantivyError::InvalidArgument("another index".to_owned());
        if index.schema() != wanted {
            return Err(other());
        }
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let searcher = reader.searcher();
        let [segment] = searcher.segment_readers() else { return Err(other()) };
        if segment.max_doc() as usize != documents || segment.alive_bitset().is_some() {
            return Err(other());
        }
        let mut fields = Vec::with_capacity(FIELDS);
        let mut words = [0; FIELDS];
        for (field, total) in names.into_iter().zip(&mut words) {
            let inverted = segment.inverted_index(field)?;
            *total = inverted.total_num_tokens();
            fields.push((field, inverted, segment.get_fieldnorms_reader(field)?));
        }
        Ok(DiskIndex { documents, fields, worth: Worth::new(words, documents) })
    }

    /// Adds what `term` is worth in each document; the documents that hold it, in any field.
    fn weigh(&self, term: &str, weighted: &mut BTreeMap<u32, f32>) -> std::io::Result<()> {
        for (at, (field, inverted, lengths)) in self.fields.iter().enumerate() {
            let term = Term::from_field_text(*field, term);
            let found = inverted.read_postings(&term, IndexRecordOption::WithFreqs)?;
            let Some(mut postings) = found else { continue };
            let mut document = postings.doc();
            while document != TERMINATED {
                let length = lengths.fieldnorm_id(document);
                *weighted.entry(document).or_default() +=
                    self.worth.of(at, length, postings.term_freq());
                document = postings.advance();
            }
        }
        Ok(())
    }
}

impl Inverted for DiskIndex {
    fn rank(&self, terms: &[String]) -> Vec<(u32, f32)> {
        let mut scores = vec![0.0_f32; self.documents];
        let mut weighted = BTreeMap::new();
        for term in terms.iter().collect::<BTreeSet<_>>() {
            weighted.clear();
            if let Err(error) = self.weigh(term, &mut weighted) {
                tracing::warn!(%error, "a part of the search index cannot be read");
                continue;
            }
            let idf = idf(self.documents, weighted.len());
            for (document, weighted) in &weighted {
                if let Some(sum) = scores.get_mut(*document as usize) {
                    *sum += score(idf, *weighted);
                }
            }
        }
        let mut ranked: Vec<(u32, f32)> =
            (0u32..).zip(scores).filter(|(_, score)| *score > 0.0).collect();
        sort(&mut ranked);
        ranked
    }

    fn terms_near(&self, near: &dyn Fn(&str) -> bool, count: usize) -> Vec<String> {
        let mut found = BTreeSet::new();
        for (_, inverted, _) in &self.fields {
            let Ok(mut terms) = inverted.terms().stream() else { continue };
            while terms.advance() {
                if let Ok(term) = std::str::from_utf8(terms.key())
                    && near(term)
                {
                    found.insert(term.to_owned());
                }
            }
        }
        found.into_iter().take(count).collect()
    }
}
