//! Where secret values are kept: the keychain of the system, or, where there is none, a file that only
//! this user can read. Everything here blocks.
#![expect(clippy::disallowed_types, reason = "the fallback is a file, locked while it is changed")]

use crate::adapters::whole::{self, FILE_MODE};
use crate::model::digest::Digest;
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
    /// The keychain is there and locked, or the person refused to open it.
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

    /// The bytes kept as `item`, to use them.
    pub(super) fn get(&self, item: &str) -> Result<Option<Zeroizing<Vec<u8>>>, VaultError> {
        let place = self.place();
        let found = self.get_at(place, item)?;
        if found.is_some() && place == Place::File {
            self.say();
        }
        Ok(found)
    }

    /// The bytes kept as `item` in the fallback file, to take them out of text. A keychain gives its items to
    /// nobody else; a file can be read by any source that reads files.
    pub(super) fn peek(&self, item: &str) -> Result<Option<Zeroizing<Vec<u8>>>, VaultError> {
        match self.place() {
            Place::Keychain => Ok(None),
            Place::File => self.get_at(Place::File, item),
        }
    }

    /// Keeps bytes as `item`, in place of what was there.
    pub(super) fn put(&self, item: &str, value: &[u8]) -> Result<(), VaultError> {
        let _lock = self.lock()?;
        self.put_at(self.place(), item, value)
    }

    /// Removes `item`.
    pub(super) fn remove(&self, item: &str) -> Result<(), VaultError> {
        match self.place() {
            Place::Keychain => match entry(item)?.delete_credential() {
                Ok(()) | Err(Error::NoEntry) => Ok(()),
                Err(error) => Err(closed(&error)),
            },
            Place::File => {
                let _lock = self.lock()?;
                let before = self.text()?;
                let left = without(&before, &variable(item));
                if left.len() == before.len() { Ok(()) } else { self.write(&left) }
            }
        }
    }

    /// The bytes kept as `item`; made by `make` and kept when there are none. Two processes that ask at
    /// once get the same.
    pub(super) fn get_or_make(
        &self,
        item: &str,
        make: impl FnOnce() -> Result<Zeroizing<Vec<u8>>, String>,
    ) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        let place = self.place();
        if let Some(known) = self.get(item)? {
            return Ok(known);
        }
        let _lock = self.lock()?;
        if let Some(known) = self.get_at(place, item)? {
            return Ok(known);
        }
        let made = make().map_err(VaultError::Failed)?;
        self.put_at(place, item, &made)?;
        // What is kept counts, not what was meant to be.
        self.get_at(place, item)?.ok_or_else(|| {
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

    fn place(&self) -> Place {
        match Entry::store_status() {
            Ok(()) => Place::Keychain,
            Err(_) => Place::File,
        }
    }

    /// Says where secrets are, once they are used from there.
    fn say(&self) {
        if !self.said.swap(true, Ordering::Relaxed) {
            tracing::warn!(file = %self.file.display(), "there is no keychain here; secrets are kept in a file that only you can read");
        }
    }

    fn get_at(&self, place: Place, item: &str) -> Result<Option<Zeroizing<Vec<u8>>>, VaultError> {
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

    fn put_at(&self, place: Place, item: &str, value: &[u8]) -> Result<(), VaultError> {
        match place {
            Place::Keychain => entry(item)?.set_secret(value).map_err(|error| closed(&error)),
            Place::File => {
                self.say();
                let name = variable(item);
                let mut text = without(&self.text()?, &name);
                let encoded = Zeroizing::new(STANDARD.encode(value));
                text.extend([name.as_str(), "=", encoded.as_str(), "\n"]);
                self.write(&text)
            }
        }
    }

    fn write(&self, text: &str) -> Result<(), VaultError> {
        let replaced = whole::replace(&self.file, text.as_bytes());
        replaced.map_err(|error| VaultError::Failed(error.to_string()))
    }

    fn text(&self) -> Result<Zeroizing<String>, VaultError> {
        let bytes = whole::read(&self.file);
        let bytes = bytes.map_err(|error| VaultError::Failed(error.to_string()))?;
        let text = String::from_utf8(bytes.unwrap_or_default())
            .map_err(|_| VaultError::Failed(format!("{} is not text", self.file.display())))?;
        Ok(Zeroizing::new(text))
    }

    /// Held while a value is made or the file is changed; the lock's file stays.
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

/// The fallback file's text without one of its variables.
fn without(text: &str, name: &str) -> Zeroizing<String> {
    let is_it = |line: &str| line.split_once('=').is_some_and(|(known, _)| known == name);
    let mut left = Zeroizing::new(String::with_capacity(text.len() + 1024));
    for line in text.lines().filter(|line| !is_it(line)) {
        left.extend([line, "\n"]);
    }
    left
}

/// The name of an item in the fallback file: readable, and with a digest, since different items may read
/// alike in the letters a variable has.
fn variable(item: &str) -> String {
    let letters = item.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let digest = Digest::of(item.as_bytes()).short();
    format!("{PREFIX}{}_{digest}", letters.collect::<String>()).to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_that_read_alike_are_kept_apart() {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::new(folder.path().join(".env"));
        let items = ["h/s/a-b/bearer", "h/s/a_b/bearer", "h/s/A_B/bearer"];
        for item in items {
            vault.put_at(Place::File, item, item.as_bytes()).unwrap();
        }
        for item in items {
            let kept = vault.get_at(Place::File, item).unwrap().unwrap();
            assert_eq!(kept.as_slice(), item.as_bytes());
        }
        assert_eq!(vault.get_at(Place::File, "h/s/a.b/bearer"), Ok(None));
        vault.write(&format!("{}=***\n", variable("x"))).unwrap();
        assert!(matches!(vault.get_at(Place::File, "x"), Err(VaultError::Failed(_))));
    }
}
