//! The inverted index behind search: who holds the postings is a matter of size.

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

/// Postings over documents that are numbered from 0 in the order they were given.
pub trait Postings: Send + Sync + Sized {
    /// Builds postings over `documents`.
    fn build(documents: &[Document]) -> Self;

    /// Documents that hold any of `terms`, best first, with their BM25F score: per term one idf and one
    /// saturation over all fields. Ties keep the order of the documents. Each distinct term counts once.
    fn rank(&self, terms: &[String]) -> Vec<(u32, f32)>;

    /// Up to `count` indexed terms for which `near` holds, in byte order.
    fn terms_near(&self, near: &dyn Fn(&str) -> bool, count: usize) -> Vec<String>;
}
