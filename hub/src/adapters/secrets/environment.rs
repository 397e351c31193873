//! Secrets that a person's own environment holds: handed on to the sources that declare them.

use super::scrub::Scrubber;
use crate::model::source::{StdioCommand, Transport};
use crate::ports::secrets::{Secrets, SecretsError};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

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

/// Secrets from a fixed copy of the environment.
#[derive(Debug)]
pub struct EnvironmentSecrets {
    variables: BTreeMap<String, String>,
    scrubber: RwLock<Scrubber>,
}

impl EnvironmentSecrets {
    /// Secrets from these variables, read once at start.
    #[must_use]
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> EnvironmentSecrets {
        EnvironmentSecrets {
            variables: variables.into_iter().collect(),
            scrubber: RwLock::default(),
        }
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
