//! Secrets that a person's own environment holds, handed on to the sources that declare them; and the key
//! this hub signs with.

use super::scrub::Scrubber;
use super::vault::Vault;
use crate::model::ids::HubId;
use crate::model::source::{StdioCommand, Transport};
use crate::ports::secrets::{Secrets, SecretsError, Signature};
use hmac::{Hmac, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, RwLock};
use zeroize::Zeroizing;

/// Variables every child gets, if they are set: where things are and how text looks, and nothing else.
const SAFE: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "TERM",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// Bytes of the key that this hub signs with.
const KEY_BYTES: usize = 32;

/// Secrets from a fixed copy of the environment.
#[derive(Debug)]
pub struct EnvironmentSecrets {
    variables: BTreeMap<String, String>,
    scrubber: RwLock<Scrubber>,
    /// Marks of approval pages, each in its encodings.
    surface: RwLock<Scrubber>,
    vault: Vault,
    keys: Mutex<BTreeMap<HubId, Zeroizing<Vec<u8>>>>,
}

impl EnvironmentSecrets {
    /// Secrets from these variables, read once at start; what the hub itself keeps goes to the system's
    /// keychain, or where there is none to `file`.
    #[must_use]
    pub fn new(
        variables: impl IntoIterator<Item = (String, String)>,
        file: PathBuf,
    ) -> EnvironmentSecrets {
        EnvironmentSecrets {
            variables: variables.into_iter().collect(),
            scrubber: RwLock::default(),
            surface: RwLock::default(),
            vault: Vault::new(file),
            keys: Mutex::default(),
        }
    }

    /// Where the hub's own secrets are kept, in a person's words. Blocks.
    #[must_use]
    pub fn whereabouts(&self) -> String {
        self.vault.whereabouts()
    }

    fn mac(&self, hub: &HubId, text: &[u8]) -> Result<Hmac<Sha256>, SecretsError> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if !keys.contains_key(hub) {
            let make = || {
                let mut bytes = Zeroizing::new(vec![0; KEY_BYTES]);
                getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
                Ok(bytes)
            };
            let key = self.vault.get_or_make(&format!("{hub}/hub/signing/key"), make);
            let key = key.map_err(|error| SecretsError::Closed(error.to_string()))?;
            if key.len() < KEY_BYTES {
                let why = "the key that questions are signed with is damaged";
                return Err(SecretsError::Closed(why.to_owned()));
            }
            keys.insert(hub.clone(), key);
        }
        let key = keys.get(hub).map(|key| key.as_slice()).unwrap_or_default();
        let mac = Hmac::<Sha256>::new_from_slice(key);
        let mut mac = mac.map_err(|error| SecretsError::Closed(error.to_string()))?;
        mac.update(text);
        Ok(mac)
    }

    fn read<T>(&self, with: impl FnOnce(&Scrubber) -> T) -> T {
        with(&self.scrubber.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Secrets for EnvironmentSecrets {
    fn know(&self, transport: &Transport) {
        let values: Vec<String> = match transport {
            Transport::Stdio(command) => {
                command.pass.iter().filter_map(|name| self.variables.get(name).cloned()).collect()
            }
            Transport::Http(endpoint) => endpoint.url.query_secrets(),
        };
        for value in &values {
            self.scrubber.write().unwrap_or_else(PoisonError::into_inner).add(value);
        }
    }

    fn environment(&self, command: &StdioCommand) -> Result<Vec<(String, String)>, SecretsError> {
        let mut environment: BTreeMap<String, String> = SAFE
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), self.variables.get(*name)?.clone())))
            .collect();
        environment.insert("PATH".to_owned(), command.path.clone());
        environment.extend(command.set.clone());
        for name in &command.pass {
            let value =
                self.variables.get(name).ok_or_else(|| SecretsError::NotSet(name.clone()))?;
            self.scrubber.write().unwrap_or_else(PoisonError::into_inner).add(value);
            environment.insert(name.clone(), value.clone());
        }
        Ok(environment.into_iter().collect())
    }

    fn know_value(&self, value: &str) {
        self.scrubber.write().unwrap_or_else(PoisonError::into_inner).add(value);
    }

    fn know_surface(&self, mark: &str) {
        self.know_value(mark);
        self.surface.write().unwrap_or_else(PoisonError::into_inner).add(mark);
    }

    fn carries_surface(&self, text: &str) -> bool {
        self.surface.read().unwrap_or_else(PoisonError::into_inner).carries(text)
    }

    fn sign(&self, hub: &HubId, text: &[u8]) -> Result<Signature, SecretsError> {
        Ok(self.mac(hub, text)?.finalize().into_bytes().into())
    }

    fn is_signed(
        &self,
        hub: &HubId,
        text: &[u8],
        signature: &Signature,
    ) -> Result<bool, SecretsError> {
        // In constant time.
        Ok(self.mac(hub, text)?.verify_slice(signature).is_ok())
    }

    fn scrub(&self, text: &str) -> String {
        self.read(|scrubber| scrubber.text(text))
    }

    fn scrub_value(&self, value: &mut Value) {
        self.read(|scrubber| scrubber.value(value));
    }

    fn carries_secret(&self, text: &str) -> bool {
        self.read(|scrubber| scrubber.carries(text))
    }
}
