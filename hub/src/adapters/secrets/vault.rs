//! Where secret values are kept: the keychain of the system, or, where there is none, a file that only
//! this user can read. Everything here blocks.
#![expect(clippy::disallowed_types, reason = "the fallback is a file, locked while it is changed")]

use crate::adapters::whole::{self, FILE_MODE};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use keyring::{Entry, Error};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use zeroize::Zeroizing;

/// The service that every item of every hub is kept under.
const SERVICE: &str = "capabilities.sh";
/// What every variable of the fallback file begins with.
const PREFIX: &str = "CAPABILITIES_";

/// Why the vault gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum VaultError {
    /// The keychain is there and locked.
    #[error("the keychain is locked; unlock it, for instance by logging in to the desktop")]
    Locked,
    /// Something else failed.
    #[error("{0}")]
    Failed(String),
}

/// The keychain, with a file as fallback.
#[derive(Debug)]
pub(super) struct Vault {
    /// `.env`, beside the hub's folder.
    file: PathBuf,
    said: AtomicBool,
}

/// Where values go on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Keychain,
    File,
}

impl Vault {
    /// A vault whose fallback is `file`.
    pub(super) fn new(file: PathBuf) -> Vault {
        Vault { file, said: AtomicBool::new(false) }
    }

    /// The bytes kept as `item`; made by `make` and kept when there are none. Two processes that ask at
    /// once get the same.
    pub(super) fn get_or_make(
        &self,
        item: &str,
        make: impl FnOnce() -> Result<Zeroizing<Vec<u8>>, String>,
    ) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        let place = self.place()?;
        if let Some(known) = self.get(place, item)? {
            return Ok(known);
        }
        let _lock = self.lock()?;
        if let Some(known) = self.get(place, item)? {
            return Ok(known);
        }
        let made = make().map_err(VaultError::Failed)?;
        self.put(place, item, &made)?;
        // What is kept counts, not what was meant to be.
        self.get(place, item)?.ok_or_else(|| {
            VaultError::Failed("the keychain took a value and does not give it back".to_owned())
        })
    }

    /// Where values are kept on this machine, in a person's words.
    pub(super) fn whereabouts(&self) -> String {
        match Entry::store_status() {
            Ok(()) => "the system's keychain".to_owned(),
            Err(_) => format!(
                "{}, which only you can read; there is no keychain here",
                self.file.display()
            ),
        }
    }

    fn place(&self) -> Result<Place, VaultError> {
        match Entry::store_status() {
            Ok(()) => Ok(Place::Keychain),
            Err(_) => {
                if !self.said.swap(true, Ordering::Relaxed) {
                    tracing::warn!(file = %self.file.display(), "there is no keychain here; secrets are kept in a file that only you can read");
                }
                Ok(Place::File)
            }
        }
    }

    fn get(&self, place: Place, item: &str) -> Result<Option<Zeroizing<Vec<u8>>>, VaultError> {
        match place {
            Place::Keychain => match entry(item)?.get_secret() {
                Ok(value) => Ok(Some(Zeroizing::new(value))),
                Err(Error::NoEntry) => Ok(None),
                Err(error) => Err(closed(&error)),
            },
            Place::File => {
                let text = self.text()?;
                let name = variable(item);
                let found = text.lines().find_map(|line| {
                    line.split_once('=').filter(|(known, _)| *known == name).map(|(_, value)| value)
                });
                let Some(value) = found else { return Ok(None) };
                let bytes = STANDARD.decode(value.trim());
                let file = self.file.display();
                bytes.map(|bytes| Some(Zeroizing::new(bytes))).map_err(|_| {
                    VaultError::Failed(format!("{file}: `{name}` is damaged; remove that line"))
                })
            }
        }
    }

    fn put(&self, place: Place, item: &str, value: &[u8]) -> Result<(), VaultError> {
        match place {
            Place::Keychain => entry(item)?.set_secret(value).map_err(|error| closed(&error)),
            Place::File => {
                let name = variable(item);
                let before = self.text()?;
                let mut text = Zeroizing::new(String::new());
                for line in before.lines().filter(|line| !line.starts_with(&format!("{name}="))) {
                    text.push_str(line);
                    text.push('\n');
                }
                text.push_str(&format!("{name}={}\n", STANDARD.encode(value)));
                let replaced = whole::replace(&self.file, text.as_bytes());
                replaced.map_err(|error| VaultError::Failed(error.to_string()))
            }
        }
    }

    fn text(&self) -> Result<Zeroizing<String>, VaultError> {
        let bytes = whole::read(&self.file);
        let bytes = bytes.map_err(|error| VaultError::Failed(error.to_string()))?;
        let text = String::from_utf8(bytes.unwrap_or_default())
            .map_err(|_| VaultError::Failed(format!("{} is not text", self.file.display())))?;
        Ok(Zeroizing::new(text))
    }

    /// Held while a value is made; the file stays.
    fn lock(&self) -> Result<File, VaultError> {
        let path = self.file.with_extension("lock");
        let failed = |error: std::io::Error| {
            VaultError::Failed(format!("{} cannot be locked: {error}", path.display()))
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(&path)
            .map_err(failed)?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        Ok(file)
    }
}

fn entry(item: &str) -> Result<Entry, VaultError> {
    Entry::new(SERVICE, item).map_err(|error| closed(&error))
}

fn closed(error: &Error) -> VaultError {
    if let Error::NoStorageAccess(_) = error {
        return VaultError::Locked;
    }
    VaultError::Failed(format!("the keychain failed: {error}"))
}

/// The name of an item in the fallback file.
fn variable(item: &str) -> String {
    let letters = item.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    format!("{PREFIX}{}", letters.collect::<String>().to_uppercase())
}
