//! Secrets that a person entered, each bound to one destination; those that their own environment holds;
//! and the key this hub signs with.
#![expect(
    clippy::disallowed_methods,
    reason = "a keychain may never answer, and must not be waited for"
)]

use super::scrub::Scrubber;
use super::tokens::Tokens;
use super::vault::{Vault, VaultError};
use crate::model::connection::{Destination, Reference, SECRET_BYTES_MAX, SECRET_BYTES_MIN};
use crate::model::ids::HubId;
use crate::model::source::{StdioCommand, Transport};
use crate::model::time::WallMs;
use crate::ports::secrets::{SecretText, Secrets, SecretsError, Signature};
use hmac::{Hmac, Mac as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Sha256;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use zeroize::{Zeroize as _, Zeroizing};

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

/// How long the keychain may take; a desktop may be asking its person to unlock it.
const KEYCHAIN_WITHIN: Duration = Duration::from_secs(30);
/// Requests to the keychain at once: one that hangs must not hold a thread for each that follows.
const KEYCHAIN_AT_ONCE: usize = 4;

/// Secrets of the keychain, and of a fixed copy of the environment.
#[derive(Debug)]
pub struct KeptSecrets {
    variables: BTreeMap<String, String>,
    scrubber: RwLock<Scrubber>,
    /// Marks of approval pages, each in its encodings.
    surface: RwLock<Scrubber>,
    tokens: Tokens,
    vault: Arc<Vault>,
    free: Arc<Semaphore>,
    keys: Mutex<BTreeMap<HubId, Zeroizing<Vec<u8>>>>,
    /// What was learned, and the time at which that was entered.
    learned: Mutex<BTreeMap<Reference, WallMs>>,
}

/// A value as it is kept: with the one destination it may go to.
#[derive(Serialize, Deserialize)]
struct Item {
    #[serde(rename = "for")]
    destination: Destination,
    value: String,
}

impl Drop for Item {
    fn drop(&mut self) {
        self.value.zeroize();
    }
}

impl KeptSecrets {
    /// Secrets from these variables, read once at start; what the hub itself keeps goes to the system's
    /// keychain, or where there is none to `file`. Clients over HTTP are known by what is in `tokens`.
    #[must_use]
    pub fn new(
        variables: impl IntoIterator<Item = (String, String)>,
        file: PathBuf,
        tokens: PathBuf,
    ) -> KeptSecrets {
        KeptSecrets {
            variables: variables.into_iter().collect(),
            scrubber: RwLock::default(),
            surface: RwLock::default(),
            tokens: Tokens::new(tokens),
            vault: Arc::new(Vault::new(file)),
            free: Arc::new(Semaphore::new(KEYCHAIN_AT_ONCE)),
            keys: Mutex::default(),
            learned: Mutex::default(),
        }
    }

    /// Where the hub's own secrets are kept, in a person's words. Blocks.
    #[must_use]
    pub fn whereabouts(&self) -> String {
        self.vault.whereabouts()
    }

    fn mac(&self, hub: &HubId, text: &[u8]) -> Result<Hmac<Sha256>, SecretsError> {
        // Never held while the keychain is asked: it may take for ever, and others only look.
        let keys = || self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if !keys().contains_key(hub) {
            let make = || {
                let mut bytes = Zeroizing::new(vec![0; KEY_BYTES]);
                getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
                Ok(bytes)
            };
            let key = self.vault.get_or_make(&signing_key(hub), make);
            let key = key.map_err(|error| SecretsError::Closed(error.to_string()))?;
            if key.len() < KEY_BYTES {
                let why = "the key that questions are signed with is damaged";
                return Err(SecretsError::Closed(why.to_owned()));
            }
            self.add_bytes(&key);
            keys().insert(hub.clone(), key);
        }
        let mac = {
            let keys = keys();
            let key = keys.get(hub).map(|key| key.as_slice()).unwrap_or_default();
            Hmac::<Sha256>::new_from_slice(key)
        };
        let mut mac = mac.map_err(|error| SecretsError::Closed(error.to_string()))?;
        mac.update(text);
        Ok(mac)
    }

    fn read<T>(&self, with: impl FnOnce(&Scrubber) -> T) -> T {
        with(&self.scrubber.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn add_bytes(&self, value: &[u8]) {
        if !self.read(|scrubber| scrubber.knows(value)) {
            self.scrubber.write().unwrap_or_else(PoisonError::into_inner).add(value);
        }
    }

    /// Everything that a kept value shows up as.
    fn add_kept(&self, reference: &Reference, value: &str) {
        self.add_bytes(value.as_bytes());
        if let crate::model::connection::Place::Basic = reference.place
            && let Some((_, password)) = value.split_once(':')
        {
            self.add_bytes(password.as_bytes());
        }
    }

    /// Asks the vault about one reference, on a thread of its own and for so long only.
    async fn ask<T: Send + 'static>(
        &self,
        what: &str,
        ask: impl FnOnce(&Vault) -> Result<T, VaultError> + Send + 'static,
    ) -> Result<T, SecretsError> {
        let (vault, free) = (Arc::clone(&self.vault), Arc::clone(&self.free));
        let asking = async move {
            let place = free.acquire_owned().await;
            let asked = tokio::task::spawn_blocking(move || {
                let _place = place;
                ask(&vault)
            });
            asked.await.unwrap_or_else(|error| Err(VaultError::Failed(error.to_string())))
        };
        match tokio::time::timeout(KEYCHAIN_WITHIN, asking).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(VaultError::Locked)) => Err(SecretsError::Locked(what.to_owned())),
            Ok(Err(VaultError::Failed(why))) => Err(SecretsError::Failed(what.to_owned(), why)),
            Err(_) => Err(SecretsError::Slow(what.to_owned(), KEYCHAIN_WITHIN.as_secs())),
        }
    }

    async fn item(&self, reference: &Reference) -> Result<Option<Item>, SecretsError> {
        let name = reference.to_string();
        let Some(bytes) = self.ask(&name.clone(), move |vault| vault.get(&name)).await? else {
            return Ok(None);
        };
        match serde_json::from_slice::<Item>(&bytes) {
            Ok(item) => {
                self.add_kept(reference, &item.value);
                Ok(Some(item))
            }
            Err(_) => {
                let why = "what is kept there is damaged; enter the credential again";
                Err(SecretsError::Failed(reference.to_string(), why.to_owned()))
            }
        }
    }
}

/// Where the key is kept that a hub signs with.
fn signing_key(hub: &HubId) -> String {
    format!("{hub}/hub/signing/key")
}

/// Can this be kept as a secret, and used in a request?
fn is_fit(reference: &Reference, value: &str) -> Result<(), SecretsError> {
    use crate::model::connection::Place;
    let unfit = |why: String| Err(SecretsError::Unfit(why));
    if value.len() < SECRET_BYTES_MIN {
        return unfit(format!(
            "a credential has at least {SECRET_BYTES_MIN} bytes: a shorter one would be found everywhere when it is taken out of text"
        ));
    }
    if value.len() > SECRET_BYTES_MAX {
        return unfit(format!("a credential has at most {SECRET_BYTES_MAX} bytes"));
    }
    match &reference.place {
        Place::Env(_) if value.contains('\0') => unfit("it contains a zero byte".to_owned()),
        Place::Env(_) => Ok(()),
        Place::Bearer | Place::Basic | Place::Header(_) | Place::Query(_) => {
            if value.chars().any(|c| !(' '..='~').contains(&c)) {
                return unfit("it contains a line break, or a character that no header can carry; was more pasted than the credential?".to_owned());
            }
            if value.trim() != value {
                return unfit("it begins or ends with a space".to_owned());
            }
            match (&reference.place, value.split_once(':')) {
                (Place::Basic, Some((user, password))) if !user.is_empty() => {
                    if password.len() < SECRET_BYTES_MIN {
                        return unfit(format!("a password has at least {SECRET_BYTES_MIN} bytes"));
                    }
                    Ok(())
                }
                (Place::Basic, _) => unfit("it is not `user:password`".to_owned()),
                (_, _) => Ok(()),
            }
        }
    }
}

impl Secrets for KeptSecrets {
    fn know(&self, transport: &Transport) {
        let values: Vec<String> = match transport {
            Transport::Stdio(command) => {
                command.pass.iter().filter_map(|name| self.variables.get(name).cloned()).collect()
            }
            Transport::Http(endpoint) => endpoint.url.query_secrets(),
        };
        for value in &values {
            self.add_bytes(value.as_bytes());
        }
    }

    fn environment(
        &self,
        command: &StdioCommand,
        given: &BTreeSet<String>,
    ) -> Result<Vec<(String, String)>, SecretsError> {
        let mut environment: BTreeMap<String, String> = SAFE
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), self.variables.get(*name)?.clone())))
            .collect();
        environment.insert("PATH".to_owned(), command.path.clone());
        environment.extend(command.set.clone());
        for name in command.pass.iter().filter(|name| !given.contains(*name)) {
            let value =
                self.variables.get(name).ok_or_else(|| SecretsError::NotSet(name.clone()))?;
            self.add_bytes(value.as_bytes());
            environment.insert(name.clone(), value.clone());
        }
        Ok(environment.into_iter().collect())
    }

    async fn keep(
        &self,
        reference: &Reference,
        destination: &Destination,
        value: SecretText,
    ) -> Result<(), SecretsError> {
        is_fit(reference, value.expose())?;
        self.add_kept(reference, value.expose());
        let item = Item { destination: destination.clone(), value: value.expose().to_owned() };
        let bytes = serde_json::to_vec(&item).map(Zeroizing::new);
        let name = reference.to_string();
        let bytes = bytes.map_err(|error| SecretsError::Failed(name.clone(), error.to_string()))?;
        self.ask(&name.clone(), move |vault| vault.put(&name, &bytes)).await
    }

    async fn release(
        &self,
        reference: &Reference,
        destination: &Destination,
    ) -> Result<SecretText, SecretsError> {
        match self.item(reference).await? {
            None => Err(SecretsError::Missing(reference.to_string())),
            Some(item) if item.destination != *destination => {
                Err(SecretsError::Elsewhere(reference.to_string()))
            }
            Some(mut item) => Ok(SecretText::new(std::mem::take(&mut item.value))),
        }
    }

    async fn forget(&self, reference: &Reference) -> Result<(), SecretsError> {
        let name = reference.to_string();
        self.ask(&name.clone(), move |vault| vault.remove(&name)).await
    }

    async fn learn(
        &self,
        hub: &HubId,
        references: Vec<(Reference, WallMs)>,
    ) -> Result<(), SecretsError> {
        for token in self.tokens.values() {
            self.add_bytes(token.as_bytes());
        }
        let has_key = self.keys.lock().unwrap_or_else(PoisonError::into_inner).contains_key(hub);
        if !has_key {
            let name = signing_key(hub);
            // One that is damaged signs nothing, and is said to be when it is to sign.
            let key = self.ask(&signing_key(hub), move |vault| vault.peek(&name)).await;
            if let Ok(Some(key)) = key {
                self.add_bytes(&key);
            }
        }
        for (reference, entered) in references {
            let known =
                |learned: &BTreeMap<Reference, WallMs>| learned.get(&reference) == Some(&entered);
            if known(&self.learned.lock().unwrap_or_else(PoisonError::into_inner)) {
                continue;
            }
            self.item(&reference).await?;
            let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
            learned.insert(reference, entered);
        }
        Ok(())
    }

    fn prepare_tokens(&self) -> Result<(), SecretsError> {
        self.tokens.prepare().map_err(SecretsError::Closed)?;
        for token in self.tokens.values() {
            self.add_bytes(token.as_bytes());
        }
        Ok(())
    }

    fn bearer(&self, token: &str) -> Option<String> {
        self.tokens.name_of(token)
    }

    fn know_value(&self, value: &str) {
        self.add_bytes(value.as_bytes());
    }

    fn know_surface(&self, mark: &str) {
        self.know_value(mark);
        self.surface.write().unwrap_or_else(PoisonError::into_inner).add(mark.as_bytes());
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
