//! A place in the code and what is wrong there, as a model can use it.

use crate::model::error::{ErrorCode, Failure};
use crate::model::json::cut;
use crate::model::visible::visible;

/// Characters of the source line that are shown on either side of the place.
const AROUND: usize = 60;

/// A failure that shows line, column, source line and a mark under the place.
pub(super) fn at(source: &str, offset: usize, code: ErrorCode, what: &str) -> Failure {
    let before = cut(source, offset);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before.get(start..).unwrap_or("").chars().count() + 1;
    let text = source.get(start..).unwrap_or("").lines().next().unwrap_or("");
    let from = column.saturating_sub(AROUND);
    let shown: String = text.chars().skip(from).take(2 * AROUND).collect();
    let number = line.to_string();
    let indent = " ".repeat(number.len());
    let mark = " ".repeat(column - 1 - from.min(column - 1));
    let message = format!(
        "{} at line {line}, column {column}\n{number} | {}\n{indent} | {mark}^",
        what.trim_end_matches('.'),
        visible(&shown.replace('\t', " "), false),
    );
    Failure::new(code, message)
}
