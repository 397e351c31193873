//! The names closest to a misspelt one.

/// Up to `count` of `names` closest to `wanted`, best first: small edit distance, a shared start, or one
/// inside the other. Names that look nothing alike are left out.
#[must_use]
pub fn nearest<'a>(
    wanted: &str,
    names: impl IntoIterator<Item = &'a str>,
    count: usize,
) -> Vec<&'a str> {
    let low = wanted.to_lowercase();
    let mut scored: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| {
            let other = name.to_lowercase();
            let distance = distance(&low, &other);
            let limit = low.chars().count().max(other.chars().count()) / 2;
            let inside =
                low.len() >= 3 && other.contains(&low) || other.len() >= 3 && low.contains(&other);
            (inside || distance <= limit)
                .then_some((if inside { distance.min(2) } else { distance }, name))
        })
        .collect();
    scored.sort();
    scored.into_iter().take(count).map(|(_, name)| name).collect()
}

/// Optimal string alignment distance in characters: insert, delete, replace, swap of neighbours. Only
/// the first 64 characters count.
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        for (j, y) in b.iter().enumerate() {
            let at =
                |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX / 2);
            let mut best =
                (at(&last, j) + usize::from(x != y)).min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_names_come_first_and_strangers_not_at_all() {
        let names = ["createIssue", "searchIssues", "closeIssue", "deleteRepo"];
        assert_eq!(nearest("createIsue", names, 2), ["createIssue", "closeIssue"]);
        assert_eq!(nearest("issue", names, 3), ["closeIssue", "createIssue", "searchIssues"]);
        assert!(nearest("zzz", names, 3).is_empty());
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
