//! Random identifiers: of the hub, of sources and of runs.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Letters of an id: one vowel at most, so that an id is hardly ever a word.
const LETTERS: &[u8; 32] = b"0123456789bcdfghjklmnpqrstvwxyze";

/// Random bytes behind one id.
pub const ID_BYTES: usize = 10;

/// Text that is not an id of the wanted kind.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind} id")]
pub struct IdError {
    kind: &'static str,
    text: String,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Makes an id from random bytes.
            #[must_use]
            pub fn from_random(bytes: [u8; ID_BYTES]) -> Self {
                $name(format!("{}{}", $prefix, letters(bytes)))
            }

            /// The id as text; safe as a file name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let well_formed = text
                    .strip_prefix($prefix)
                    .is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|b| LETTERS.contains(&b)));
                if well_formed {
                    Ok($name(text.to_owned()))
                } else {
                    let text = text.chars().take(64).flat_map(char::escape_debug).collect();
                    Err(IdError { kind: $kind, text })
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// One hub: one store.
    HubId, "hub_", "hub"
);
id!(
    /// One source, for as long as its origin or command stays what a person consented to.
    SourceId, "src_", "source"
);
id!(
    /// One run. How the model and the person refer to it.
    RunId, "run_", "run"
);

/// Five bits a letter.
fn letters(bytes: [u8; ID_BYTES]) -> String {
    let mut bits = 0u32;
    let mut held = 0;
    let mut text = String::with_capacity(16);
    for byte in bytes {
        bits = bits << 8 | u32::from(byte);
        held += 8;
        while held >= 5 {
            held -= 5;
            let letter = LETTERS.get((bits >> held & 31) as usize).copied().unwrap_or(b'0');
            text.push(char::from(letter));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_and_nothing_else_parses() {
        let id = RunId::from_random([0xff; 10]);
        assert_eq!(id.as_str().parse::<RunId>().unwrap(), id);
        assert_eq!(RunId::from_random([0; 10]).as_str(), "run_0000000000000000");
        for bad in
            ["", "run_", "src_0000000000000000", "run_../../../../etc/p", "run_000000000000000A"]
        {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
        insta::assert_snapshot!("run_\u{202e}x".parse::<RunId>().unwrap_err().to_string(), @r"`run_\u{202e}x` is not a run id");
    }
}
