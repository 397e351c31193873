//! Bearer tokens of the HTTP endpoint: a file that only this user can read, with one token or several named
//! ones. It is read again whenever it changes, so that a removed token is refused at once.

use crate::adapters::whole::{self, FILE_MODE};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use zeroize::Zeroizing;

/// Random bytes of a token that the hub makes.
const TOKEN_BYTES: usize = 32;
/// Characters a token must have: less can be guessed.
const TOKEN_CHARS_MIN: usize = 16;
/// What a token without a name is called.
const UNNAMED: &str = "default";
/// What tokens made here begin with: none is ever taken for a flag.
const BEGINS: &str = "cap_";

/// The tokens of one hub.
#[derive(Debug)]
pub(super) struct Tokens {
    file: PathBuf,
    known: Mutex<Option<(Stamp, Vec<Token>)>>,
}

/// One token: only its digest stays in memory.
#[derive(Debug, Clone)]
struct Token {
    name: String,
    digest: [u8; 32],
}

/// What tells one state of the file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Tokens {
    /// The tokens in `file`, which need not be there.
    pub(super) fn new(file: PathBuf) -> Tokens {
        Tokens { file, known: Mutex::default() }
    }

    /// Makes a token if there is none, and checks the file.
    pub(super) fn prepare(&self) -> Result<(), String> {
        if whole::read(&self.file).map_err(|error| error.to_string())?.is_none() {
            let mut bytes = Zeroizing::new([0; TOKEN_BYTES]);
            getrandom::fill(bytes.as_mut()).map_err(|error| error.to_string())?;
            let encoded = Zeroizing::new(URL_SAFE_NO_PAD.encode(*bytes));
            let line = Zeroizing::new(format!("{BEGINS}{}\n", encoded.as_str()));
            whole::replace(&self.file, line.as_bytes()).map_err(|error| error.to_string())?;
        }
        let meta = std::fs::metadata(&self.file).map_err(|error| self.at(&error))?;
        if meta.mode() & 0o077 != 0 {
            let file = self.file.display();
            return Err(format!("{file} is open to other users: chmod {FILE_MODE:o} {file}"));
        }
        self.read().map(|_| ())
    }

    /// The name of a token, or nothing if it is none of them. Takes as long for any text of one length.
    pub(super) fn name_of(&self, given: &str) -> Option<String> {
        let given: [u8; 32] = Sha256::digest(given.as_bytes()).into();
        let mut found = None;
        for token in self.tokens().ok()? {
            let differs =
                token.digest.iter().zip(&given).fold(0, |differs, (a, b)| differs | (a ^ b));
            if differs == 0 {
                found = Some(token.name);
            }
        }
        found
    }

    /// Every token itself, for whoever takes them out of text.
    pub(super) fn values(&self) -> Vec<Zeroizing<String>> {
        self.read().unwrap_or_default().into_iter().map(|(_, token)| token).collect()
    }

    fn tokens(&self) -> Result<Vec<Token>, String> {
        let stamp = stamp(&self.file).map_err(|error| self.at(&error))?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seen, tokens)) = known.as_ref().filter(|(seen, _)| *seen == stamp) {
            debug_assert_eq!(*seen, stamp);
            return Ok(tokens.clone());
        }
        let tokens: Vec<Token> = self
            .read()?
            .into_iter()
            .map(|(name, token)| Token { name, digest: Sha256::digest(token.as_bytes()).into() })
            .collect();
        *known = Some((stamp, tokens.clone()));
        Ok(tokens)
    }

    /// Names and tokens, a line each: a token alone, or a name before it.
    fn read(&self) -> Result<Vec<(String, Zeroizing<String>)>, String> {
        let bytes = whole::read(&self.file).map_err(|error| error.to_string())?;
        let bytes = Zeroizing::new(bytes.unwrap_or_default());
        let file = self.file.display();
        let text = std::str::from_utf8(&bytes).map_err(|_| format!("{file} is not text"))?;
        let mut tokens: Vec<(String, Zeroizing<String>)> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let (name, token) = match (words.next(), words.next(), words.next()) {
                (Some(token), None, _) => (UNNAMED, token),
                (Some(name), Some(token), None) => (name, token),
                _ => return Err(format!("{file} line {}: write a name and a token", at + 1)),
            };
            if token.len() < TOKEN_CHARS_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(format!(
                    "{file} line {}: a token has at least {TOKEN_CHARS_MIN} characters, and none that needs quotes",
                    at + 1
                ));
            }
            if tokens.iter().any(|(known, _)| known == name) {
                return Err(format!("{file} line {}: the name `{name}` is given twice", at + 1));
            }
            tokens.push((name.to_owned(), Zeroizing::new(token.to_owned())));
        }
        if tokens.is_empty() {
            return Err(format!("{file} holds no token: remove it, and one is made"));
        }
        Ok(tokens)
    }

    fn at(&self, error: &std::io::Error) -> String {
        format!("{}: {error}", self.file.display())
    }
}

fn stamp(file: &Path) -> std::io::Result<Stamp> {
    let meta = std::fs::metadata(file)?;
    let changed = (meta.ctime(), meta.ctime_nsec());
    Ok(Stamp { inode: meta.ino(), bytes: meta.len(), changed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_a_removed_one_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::new(folder.path().join("http-token"));
        assert_eq!(tokens.name_of("cap_anything"), None);
        tokens.prepare().unwrap();
        let made = tokens.values().pop().unwrap();
        assert!(made.starts_with(BEGINS) && made.len() > 40);
        tokens.prepare().unwrap();
        assert_eq!(tokens.name_of(&made).as_deref(), Some(UNNAMED));
        assert_eq!(tokens.name_of(&made[1..]), None);
        let text = "# two\nlaptop 0123456789abcdef\nci  fedcba9876543210\n";
        whole::replace(&folder.path().join("http-token"), text.as_bytes()).unwrap();
        assert_eq!(tokens.name_of(&made), None);
        assert_eq!(tokens.name_of("fedcba9876543210").as_deref(), Some("ci"));
    }

    #[test]
    fn a_file_that_is_no_list_of_tokens_says_where() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::new(folder.path().join("http-token"));
        for (text, expected) in [
            ("", "holds no token"),
            ("short\n", "line 1: a token has at least"),
            ("a 0123456789abcdef\na 0123456789abcdeg\n", "line 2: the name `a` is given twice"),
            ("a b 0123456789abcdef\n", "line 1: write a name and a token"),
        ] {
            whole::replace(&folder.path().join("http-token"), text.as_bytes()).unwrap();
            let why = tokens.prepare().unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}
