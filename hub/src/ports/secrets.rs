//! Secrets, as everyone but their own adapter may use them: kept, released for one destination, and taken
//! out of text.

use crate::model::connection::{Destination, Reference};
use crate::model::ids::HubId;
use crate::model::source::{StdioCommand, Transport};
use crate::model::time::WallMs;
use serde_json::Value;
use std::collections::BTreeSet;
use std::future::Future;
use zeroize::Zeroizing;

/// Secrets, and the scrubber that knows them.
pub trait Secrets: Send + Sync + 'static {
    /// Learns the values a source is to get, so that they are scrubbed from here on, whether it is ever
    /// started or not.
    fn know(&self, transport: &Transport);

    /// The environment a source's child gets: a small safe one, the plain settings, and the passed-on
    /// variables, save those in `given`, which come from elsewhere. From here on every passed-on value is
    /// scrubbed from everything.
    ///
    /// # Errors
    /// A passed-on variable is not set. Nothing was started.
    fn environment(
        &self,
        command: &StdioCommand,
        given: &BTreeSet<String>,
    ) -> Result<Vec<(String, String)>, SecretsError>;

    /// Keeps a value under `reference`, to be released for `destination` alone. It replaces what was there,
    /// and is scrubbed from here on.
    ///
    /// # Errors
    /// It was not kept: the value cannot be a secret, or there is no place for it at the moment.
    fn keep(
        &self,
        reference: &Reference,
        destination: &Destination,
        value: SecretText,
    ) -> impl Future<Output = Result<(), SecretsError>> + Send;

    /// The value under `reference`, for one use.
    ///
    /// # Errors
    /// There is none, it was entered for another destination, or it cannot be read at the moment.
    fn release(
        &self,
        reference: &Reference,
        destination: &Destination,
    ) -> impl Future<Output = Result<SecretText, SecretsError>> + Send;

    /// Removes the value under `reference`; that there is none is no error.
    ///
    /// # Errors
    /// It may still be there.
    fn forget(
        &self,
        reference: &Reference,
    ) -> impl Future<Output = Result<(), SecretsError>> + Send;

    /// Learns the hub's own key and everything that is kept under `references`, each with the time it was
    /// entered, so that all of it is scrubbed from here on. What was learned before is not read again, and
    /// a reference without a value teaches nothing.
    ///
    /// # Errors
    /// A value that is there could not be read, and so cannot be found in text either.
    fn learn(
        &self,
        hub: &HubId,
        references: Vec<(Reference, WallMs)>,
    ) -> impl Future<Output = Result<(), SecretsError>> + Send;

    /// Makes the token by which clients over HTTP are known, if there is none. Blocks.
    ///
    /// # Errors
    /// Tokens cannot be kept, or others can read them: a sentence with the file and what to do.
    fn prepare_tokens(&self) -> Result<(), SecretsError>;

    /// The name of a token that a client gave; nothing if it is none of the hub's. Compared in constant time.
    /// Reads a small file if that has changed.
    fn bearer(&self, token: &str) -> Option<String>;

    /// Learns a value of the hub's own, such as a token it made up, so that it is scrubbed from here on.
    fn know_value(&self, value: &str);

    /// Learns a mark that an approval page carries, or its address: it is scrubbed, and whatever carries
    /// it was read off that page.
    fn know_surface(&self, mark: &str);

    /// Does `text` carry a mark of an approval page?
    fn carries_surface(&self, text: &str) -> bool;

    /// Signs `text` with the hub's own key, which stays where secrets are kept and is made when there is
    /// none. Blocks.
    ///
    /// # Errors
    /// There is no place to keep a key, or it is locked.
    fn sign(&self, hub: &HubId, text: &[u8]) -> Result<Signature, SecretsError>;

    /// Did this hub, in this process or another, sign `text` like this? Blocks.
    ///
    /// # Errors
    /// As [`Secrets::sign`].
    fn is_signed(
        &self,
        hub: &HubId,
        text: &[u8],
        signature: &Signature,
    ) -> Result<bool, SecretsError>;

    /// `text` with every secret, in every known encoding, replaced by `[secret]`.
    fn scrub(&self, text: &str) -> String;

    /// Scrubs every string, object key and number of a value.
    fn scrub_value(&self, value: &mut Value);

    /// Does `text` carry a secret in any known encoding?
    fn carries_secret(&self, text: &str) -> bool;
}

/// HMAC-SHA256 over a text.
pub type Signature = [u8; 32];

/// A secret value on its way. It cannot be printed, copied or stored by accident, and is wiped when it is
/// dropped.
#[derive(PartialEq, Eq)]
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    /// Takes charge of a value.
    #[must_use]
    pub fn new(value: String) -> SecretText {
        SecretText(Zeroizing::new(value))
    }

    /// The value itself: for whoever keeps it, and for whoever sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

/// Why a secret cannot be had. References are shown, values never.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretsError {
    /// A variable that the source is to get is not set here.
    #[error("the environment variable `{0}` is not set")]
    NotSet(String),
    /// The place where secrets are kept does not answer, or is locked.
    #[error("{0}")]
    Closed(String),
    /// Nothing is kept under this reference.
    #[error("there is no credential under `{0}`")]
    Missing(String),
    /// It was entered for another origin or command.
    #[error(
        "the credential `{0}` was entered for another origin or command, and is sent nowhere else"
    )]
    Elsewhere(String),
    /// The keychain is locked, or the person refused to open it.
    #[error("the keychain is locked or access to it was denied, so `{0}` cannot be used")]
    Locked(String),
    /// The keychain does not answer in time.
    #[error("the keychain did not answer within {1} s when asked for `{0}`")]
    Slow(String, u64),
    /// It failed in another way.
    #[error("`{0}` cannot be used: {1}")]
    Failed(String, String),
    /// This value cannot be kept as a secret.
    #[error("{0}")]
    Unfit(String),
}
