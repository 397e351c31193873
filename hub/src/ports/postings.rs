//! The inverted index behind search: who holds the postings is a matter of size.

use crate::model::digest::Digest;
use std::future::Future;

/// One tool as search sees it, in the fields that ranking weighs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// Words of the tool's names, raw and in code.
    pub name: Vec<String>,
    /// Words of its namespace, label and server.
    pub server: Vec<String>,
    /// Words of title and description.
    pub description: Vec<String>,
    /// Words of its parameters' names.
    pub parameters: Vec<String>,
    /// Words of its parameters' descriptions.
    pub parameter_descriptions: Vec<String>,
}

/// Keeps indexes, or makes them anew each time.
pub trait Postings: Send + Sync + 'static {
    /// An index that is ready to be asked.
    type Index: Inverted;

    /// The index over the `count` documents that `documents` makes, numbered from 0 in that order. `key`
    /// names exactly these: what was built for it before may be used, by any process, for ever. Never
    /// fails and never waits for another process: where nothing can be kept, it is made in memory.
    fn open<F>(
        &self,
        key: Digest,
        count: usize,
        documents: F,
    ) -> impl Future<Output = Self::Index> + Send
    where
        F: Fn() -> Vec<Document> + Send + Sync + 'static;
}

/// An inverted index over numbered documents.
pub trait Inverted: Send + Sync + 'static {
    /// Documents that hold any of `terms`, best first, with their BM25F score: per term one idf and one
    /// saturation over all fields. Ties keep the order of the documents. Each distinct term counts once.
    fn rank(&self, terms: &[String]) -> Vec<(u32, f32)>;

    /// Up to `count` indexed terms for which `near` holds, in byte order.
    fn terms_near(&self, near: &dyn Fn(&str) -> bool, count: usize) -> Vec<String>;
}
