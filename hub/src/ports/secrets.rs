//! Secrets, as everyone but their own adapter may use them: to have text scrubbed, and to be told whether
//! text carries one.

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

    /// `text` with every secret, in every known encoding, replaced by `[secret]`.
    fn scrub(&self, text: &str) -> String;

    /// Scrubs every string, object key and number of a value.
    fn scrub_value(&self, value: &mut Value);

    /// Does `text` carry a secret in any known encoding?
    fn carries_secret(&self, text: &str) -> bool;
}

/// Why a secret cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretsError {
    /// A variable that the source is to get is not set here.
    #[error("the environment variable `{0}` is not set")]
    NotSet(String),
}
