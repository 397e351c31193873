//! Secrets that are a list of values, scrubbed as they are.

use hub::model::digest::Digest;
use hub::model::ids::HubId;
use hub::model::source::{StdioCommand, Transport};
use hub::ports::secrets::{Secrets, SecretsError, Signature};
use serde_json::Value;
use std::sync::{Arc, Mutex};

/// Knows a few values, and nothing of encodings. Every process signs with the same key, as every process of
/// one hub does.
#[derive(Debug, Clone, Default)]
pub struct SimSecrets(Vec<String>, Arc<Mutex<Vec<String>>>);

impl SimSecrets {
    /// Secrets of these values.
    #[must_use]
    pub fn of(values: Vec<String>) -> SimSecrets {
        SimSecrets(values, Arc::default())
    }

    fn own(&self) -> Vec<String> {
        self.1.lock().expect("not poisoned").clone()
    }
}

impl Secrets for SimSecrets {
    fn know(&self, _transport: &Transport) {}

    fn environment(&self, command: &StdioCommand) -> Result<Vec<(String, String)>, SecretsError> {
        match command.pass.first() {
            Some(name) => Err(SecretsError::NotSet(name.clone())),
            None => Ok(command.set.clone().into_iter().collect()),
        }
    }

    fn know_value(&self, value: &str) {
        self.1.lock().expect("not poisoned").push(value.to_owned());
    }

    fn know_surface(&self, mark: &str) {
        self.know_value(mark);
    }

    fn carries_surface(&self, text: &str) -> bool {
        self.own().iter().any(|mark| text.contains(mark))
    }

    fn sign(&self, hub: &HubId, text: &[u8]) -> Result<Signature, SecretsError> {
        let mut signature = [0; 32];
        let keyed = [b"the key of ", hub.as_str().as_bytes(), text].concat();
        let digits = Digest::of(&keyed).to_string();
        for (byte, digit) in signature.iter_mut().zip(digits.bytes()) {
            *byte = digit;
        }
        Ok(signature)
    }

    fn is_signed(
        &self,
        hub: &HubId,
        text: &[u8],
        signature: &Signature,
    ) -> Result<bool, SecretsError> {
        Ok(self.sign(hub, text)? == *signature)
    }

    fn scrub(&self, text: &str) -> String {
        self.0
            .iter()
            .chain(&self.own())
            .fold(text.to_owned(), |text, secret| text.replace(secret, "[secret]"))
    }

    fn scrub_value(&self, value: &mut Value) {
        let text = self.scrub(&value.to_string());
        *value = serde_json::from_str(&text).expect("scrubbing keeps JSON");
    }

    fn carries_secret(&self, text: &str) -> bool {
        self.0.iter().chain(&self.own()).any(|secret| text.contains(secret.as_str()))
    }
}
