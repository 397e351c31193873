//! Secrets, as everyone but their own adapter may use them: to have text scrubbed, and to be told whether
//! text carries one.

use crate::model::ids::HubId;
use crate::model::source::{StdioCommand, Transport};
use serde_json::Value;

/// Secrets, and the scrubber that knows them.
pub trait Secrets: Send + Sync + 'static {
    /// Learns the values a source is to get, so that they are scrubbed from here on, whether it is ever
    /// started or not.
    fn know(&self, transport: &Transport);

    /// The environment a source's child gets: a small safe one, the plain settings, and the passed-on
    /// variables. From here on every passed-on value is scrubbed from everything.
    ///
    /// # Errors
    /// A passed-on variable is not set. Nothing was started.
    fn environment(&self, command: &StdioCommand) -> Result<Vec<(String, String)>, SecretsError>;

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

/// Why a secret cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretsError {
    /// A variable that the source is to get is not set here.
    #[error("the environment variable `{0}` is not set")]
    NotSet(String),
    /// The place where secrets are kept does not answer, or is locked.
    #[error("{0}")]
    Closed(String),
}
