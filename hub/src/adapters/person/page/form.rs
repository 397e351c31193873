//! What a form sends: which run, what it showed, and what was chosen.

use crate::adapters::person::words;
use crate::model::digest::Digest;
use crate::model::ids::RunId;
use crate::model::policy::Choice;

/// The fields of one submitted form; what is missing or nonsense is nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) run: Option<RunId>,
    pub(super) shown: Option<Digest>,
    pub(super) choice: Option<Choice>,
    pub(super) csrf: String,
}

impl Form {
    /// Reads a body in the form's encoding. A field that is given twice counts as not given.
    pub(super) fn read(body: &[u8]) -> Form {
        let mut form = Form::default();
        let fields: Vec<(String, String)> =
            url::form_urlencoded::parse(body).into_owned().take(16).collect();
        let once = |name: &str| {
            let mut given = fields.iter().filter(|(key, _)| key == name).map(|(_, value)| value);
            given.next().filter(|_| given.next().is_none())
        };
        form.run = once("run").and_then(|text| text.parse().ok());
        form.shown = once("shown").and_then(|text| text.parse().ok());
        form.choice = once("choice").and_then(|text| words::choice_of(text));
        form.csrf = once("csrf").cloned().unwrap_or_default();
        form
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_and_nonsense_is_nothing() {
        let run = RunId::from_random([1; 10]);
        let digest = Digest::of(b"x");
        let body = format!("csrf=a%2Bb&run={run}&shown={digest}&choice=once");
        let form = Form::read(body.as_bytes());
        let expected = Form {
            run: Some(run),
            shown: Some(digest),
            choice: Some(Choice::Once),
            csrf: "a+b".to_owned(),
        };
        assert_eq!(form, expected);
        for body in ["", "run=x&shown=&choice=yes", "choice=deny&choice=once", "\u{0}\u{ff}=&&&="] {
            assert_eq!(Form::read(body.as_bytes()), Form::default(), "{body}");
        }
    }
}
