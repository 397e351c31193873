//! What every keeper of search indexes must do.

use hub::model::digest::Digest;
use hub::ports::postings::{Document, Inverted as _, Postings};

/// Documents in which some words are common, some rare, and some stand in several fields.
#[must_use]
pub fn documents(count: usize) -> Vec<Document> {
    const WORDS: &[&str] = &["issu", "repo", "list", "creat", "file", "größ", "日", "user", "x1"];
    let word = |at: usize| WORDS.get(at % WORDS.len()).map(|word| (*word).to_owned());
    (0..count)
        .map(|at| Document {
            name: [word(at), word(at / 3)].into_iter().flatten().collect(),
            server: vec![format!("server{}", at % 7)],
            // Lengths beyond what one byte holds exactly, and none at all.
            description: (0..at % 90).filter_map(|n| word(at + n * n)).collect(),
            parameters: vec![format!("only{at}"), "id".to_owned()],
            parameter_descriptions: if at % 5 == 0 {
                word(at + 2).into_iter().collect()
            } else {
                Vec::new()
            },
        })
        .collect()
}

/// Every answer to a few questions, as one text.
pub async fn answers<P: Postings>(postings: &P, count: usize) -> String {
    let key = Digest::of(format!("{count} documents").as_bytes());
    let index = postings.open(key, count, move || documents(count)).await;
    let mut text = String::new();
    for query in [
        "issu",
        "issu repo",
        "repo issu",
        "repo repo",
        "größ 日",
        "only7 list",
        "server3 x1 id",
        "nothing",
    ] {
        let terms: Vec<String> = query.split(' ').map(str::to_owned).collect();
        // Scores bit by bit: ties must fall alike.
        let ranked: Vec<(u32, u32)> =
            index.rank(&terms).into_iter().map(|(at, score)| (at, score.to_bits())).collect();
        text.push_str(&format!("{query}: {ranked:?}\n"));
    }
    let near = index.terms_near(&|term| term.starts_with("only1") || term == "größ", 5);
    text.push_str(&format!("{near:?}\n"));
    text
}
