//! Secrets that are a list of values, scrubbed as they are.

use hub::model::source::{StdioCommand, Transport};
use hub::ports::secrets::{Secrets, SecretsError};
use serde_json::Value;

/// Knows a few values, and nothing of encodings.
#[derive(Debug, Clone, Default)]
pub struct SimSecrets(pub Vec<String>);

impl Secrets for SimSecrets {
    fn know(&self, _transport: &Transport) {}

    fn environment(&self, command: &StdioCommand) -> Result<Vec<(String, String)>, SecretsError> {
        match command.pass.first() {
            Some(name) => Err(SecretsError::NotSet(name.clone())),
            None => Ok(command.set.clone().into_iter().collect()),
        }
    }

    fn scrub(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "[secret]"))
    }

    fn scrub_value(&self, value: &mut Value) {
        let text = self.scrub(&value.to_string());
        *value = serde_json::from_str(&text).expect("scrubbing keeps JSON");
    }

    fn carries_secret(&self, text: &str) -> bool {
        self.0.iter().any(|secret| text.contains(secret))
    }
}
