//! Secrets that are a list of values, scrubbed as they are.

use hub::model::connection::{Destination, Reference, SECRET_BYTES_MIN};
use hub::model::digest::Digest;
use hub::model::ids::HubId;
use hub::model::source::{StdioCommand, Transport};
use hub::model::time::WallMs;
use hub::ports::secrets::{SecretText, Secrets, SecretsError, Signature};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// The one token by which clients over HTTP are known.
const SIM_TOKEN: &str = "a-token-of-the-simulator";

/// Knows a few values, and nothing of encodings. Every process signs with the same key, as every process of
/// one hub does.
#[derive(Debug, Clone, Default)]
pub struct SimSecrets(
    Vec<String>,
    Arc<Mutex<Vec<String>>>,
    Arc<Mutex<BTreeMap<Reference, (Destination, String)>>>,
);

impl SimSecrets {
    /// Secrets of these values.
    #[must_use]
    pub fn of(values: Vec<String>) -> SimSecrets {
        SimSecrets(values, Arc::default(), Arc::default())
    }

    fn own(&self) -> Vec<String> {
        self.1.lock().expect("not poisoned").clone()
    }
}

impl Secrets for SimSecrets {
    fn know(&self, _transport: &Transport) {}

    fn environment(
        &self,
        command: &StdioCommand,
        given: &BTreeSet<String>,
    ) -> Result<Vec<(String, String)>, SecretsError> {
        match command.pass.iter().find(|name| !given.contains(*name)) {
            Some(name) => Err(SecretsError::NotSet(name.clone())),
            None => Ok(command.set.clone().into_iter().collect()),
        }
    }

    async fn keep(
        &self,
        reference: &Reference,
        destination: &Destination,
        value: SecretText,
    ) -> Result<(), SecretsError> {
        if value.expose().len() < SECRET_BYTES_MIN {
            return Err(SecretsError::Unfit("it is too short".to_owned()));
        }
        self.know_value(value.expose());
        let item = (destination.clone(), value.expose().to_owned());
        self.2.lock().expect("not poisoned").insert(reference.clone(), item);
        Ok(())
    }

    async fn release(
        &self,
        reference: &Reference,
        destination: &Destination,
    ) -> Result<SecretText, SecretsError> {
        let kept = self.2.lock().expect("not poisoned").get(reference).cloned();
        match kept {
            None => Err(SecretsError::Missing(reference.to_string())),
            Some((bound, value)) if bound == *destination => {
                self.know_value(&value);
                Ok(SecretText::new(value))
            }
            Some(_) => Err(SecretsError::Elsewhere(reference.to_string())),
        }
    }

    async fn forget(&self, reference: &Reference) -> Result<(), SecretsError> {
        self.2.lock().expect("not poisoned").remove(reference);
        Ok(())
    }

    async fn learn(
        &self,
        _hub: &HubId,
        references: Vec<(Reference, WallMs)>,
    ) -> Result<(), SecretsError> {
        for (reference, _) in references {
            let kept = self.2.lock().expect("not poisoned").get(&reference).cloned();
            if let Some((_, value)) = kept {
                self.know_value(&value);
            }
        }
        Ok(())
    }

    fn prepare_tokens(&self) -> Result<(), SecretsError> {
        Ok(())
    }

    fn bearer(&self, token: &str) -> Option<String> {
        (token == SIM_TOKEN).then(|| "default".to_owned())
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
