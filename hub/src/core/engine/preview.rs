//! Arguments as a person is shown them.

use crate::model::json::cut;
use crate::model::limits::PREVIEW_BYTES_MAX;
use crate::model::visible::{unmixed, visible};
use serde_json::Value;

/// Pretty JSON with hidden and mixed-in characters written out, at most 4 KB; and how many bytes are not shown.
#[must_use]
pub fn preview(arguments: &Value) -> (String, u64) {
    let pretty = serde_json::to_string_pretty(arguments).unwrap_or_else(|_| arguments.to_string());
    let whole = unmixed(&visible(&pretty, true));
    let shown = cut(&whole, PREVIEW_BYTES_MAX);
    (shown.to_owned(), (whole.len() - shown.len()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_preview_shows_what_is_there_and_counts_what_it_leaves_out() {
        let (shown, hidden) = preview(&json!({"to": "#eng\u{202e}", "text": "hi\nthere"}));
        assert_eq!(shown, "{\n  \"to\": \"#eng\\u{202e}\",\n  \"text\": \"hi\\nthere\"\n}");
        assert_eq!(hidden, 0);
        let (shown, hidden) = preview(&json!("é".repeat(3000)));
        assert_eq!(shown.len() as u64 + hidden, 6002);
        assert!(shown.len() <= 4096);
    }
}
