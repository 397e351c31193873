//! Connections: credentials entered, listed and removed, and learned so that they are taken out of text. Only
//! a person's command comes here with a value; it passes through unread.

use super::hub::{Hub, HubError, LOCK_WAIT};
use crate::model::connection::{Connection, Destination, Place, Reference, UsedConnection};
use crate::model::error::{ErrorCode, Failure};
use crate::model::facts::Facts;
use crate::model::ids::HubId;
use crate::model::names::ConnectionName;
use crate::model::source::SourceRecord;
use crate::model::time::WallMs;
use crate::ports::Ports;
use crate::ports::clock::Clock as _;
use crate::ports::secrets::{SecretText, Secrets as _, SecretsError};
use crate::ports::sources::Route;
use crate::ports::store::{LockName, Store as _, StoreError};

/// What became of a credential that was entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entered {
    /// Is its connection the one that calls use when they name none?
    pub default: bool,
    /// Places of the connection that it took the place of.
    pub replaced: Vec<Place>,
}

/// A connection as a person is shown it: never with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownConnection {
    /// What it is called.
    pub name: ConnectionName,
    /// Where its secrets go, and when one was entered last.
    pub connection: Connection,
    /// Do calls use it that name none?
    pub default: bool,
    /// When a call used it last, as far as is known.
    pub last_used: Option<WallMs>,
}

impl<P: Ports> Hub<P> {
    /// Keeps a credential that a person entered for one connection of a source. It is released for the
    /// source's origin or command as it is at this moment, and for nothing else.
    ///
    /// # Errors
    /// The source is gone or changed, or the value could not be kept; nothing changed.
    pub async fn enter_credential(
        &self,
        record: &SourceRecord,
        name: &ConnectionName,
        place: Place,
        value: SecretText,
    ) -> Result<Entered, HubError> {
        let store = self.ports().store();
        let hub = store.settings().await?.id;
        let _lock = store.lock(LockName::Hub, LOCK_WAIT).await?;
        if !store.sources().await?.into_iter().flatten().any(|source| source == *record) {
            return Err(HubError::NoSource(record.namespace.to_string()));
        }
        let mut connections = store.connections(&record.id).await?;
        let reference = |place: &Place| reference(&hub, record, name, place);
        let destination = Destination::of(&record.transport);
        // First the value, then what refers to it: a reference without a value would stop calls that work.
        self.ports().secrets().keep(&reference(&place), &destination, value).await?;
        let replaced = connections.enter(name, place, self.ports().clock().wall());
        store.write_connections(&record.id, &connections).await?;
        for place in &replaced {
            self.ports().secrets().forget(&reference(place)).await?;
        }
        Ok(Entered { default: connections.default.as_ref() == Some(name), replaced })
    }

    /// The connections of a source, by name.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn connections(
        &self,
        record: &SourceRecord,
    ) -> Result<Vec<ShownConnection>, HubError> {
        let store = self.ports().store();
        let connections = store.connections(&record.id).await?;
        let used = store.last_used(&record.id).await;
        let default = connections.default;
        let shown = connections.connections.into_iter().map(|(name, connection)| {
            let (default, last_used) = (default.as_ref() == Some(&name), used.get(&name).copied());
            ShownConnection { name, connection, default, last_used }
        });
        Ok(shown.collect())
    }

    /// Removes a connection with its secrets.
    ///
    /// # Errors
    /// There is none, or a secret may still be there; removing it again is safe.
    pub async fn remove_connection(
        &self,
        record: &SourceRecord,
        name: &ConnectionName,
    ) -> Result<(), HubError> {
        let store = self.ports().store();
        let hub = store.settings().await?.id;
        let _lock = store.lock(LockName::Hub, LOCK_WAIT).await?;
        let mut connections = store.connections(&record.id).await?;
        let known = connections.connections.get(name).ok_or_else(|| no_connection(record, name))?;
        // First the values: what refers to them is how they are found again.
        for place in &known.places {
            self.ports().secrets().forget(&reference(&hub, record, name, place)).await?;
        }
        connections.remove(name);
        store.write_connections(&record.id, &connections).await?;
        Ok(())
    }

    /// Makes a connection the one that calls use when they name none.
    ///
    /// # Errors
    /// There is none of this name.
    pub async fn set_default_connection(
        &self,
        record: &SourceRecord,
        name: &ConnectionName,
    ) -> Result<(), HubError> {
        let store = self.ports().store();
        let _lock = store.lock(LockName::Hub, LOCK_WAIT).await?;
        let mut connections = store.connections(&record.id).await?;
        if !connections.connections.contains_key(name) {
            return Err(no_connection(record, name));
        }
        connections.default = Some(name.clone());
        store.write_connections(&record.id, &connections).await?;
        Ok(())
    }

    /// Removes every secret of a source; for whoever removes the source itself.
    pub(super) async fn forget_secrets(&self, record: &SourceRecord) -> Result<(), HubError> {
        let store = self.ports().store();
        let hub = store.settings().await?.id;
        let connections = match store.connections(&record.id).await {
            Ok(connections) => connections,
            // What does not parse names no secret. The source can be removed all the same.
            Err(StoreError::Malformed { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for (name, connection) in &connections.connections {
            for place in &connection.places {
                self.ports().secrets().forget(&reference(&hub, record, name, place)).await?;
            }
        }
        Ok(())
    }

    /// Learns every secret of the hub, so that it is found in whatever comes back.
    pub(super) async fn learn_secrets(&self, facts: &Facts) -> Result<(), SecretsError> {
        let Some(hub) = &facts.hub else { return Ok(()) };
        let mut references = Vec::new();
        for source in facts.sources.values() {
            for (name, connection) in &source.connections.connections {
                references.extend(connection.places.iter().map(|place| {
                    (reference(hub, &source.record, name, place), connection.entered)
                }));
            }
        }
        self.ports().secrets().learn(hub, references).await
    }

    /// The way to a source for a person's own commands: over its default connection.
    pub(super) async fn default_route(&self, record: &SourceRecord) -> Result<Route, StoreError> {
        let store = self.ports().store();
        let connections = store.connections(&record.id).await?;
        let hub = store.settings().await?.id;
        let connection = connections.default.as_ref().and_then(|name| connections.used(&hub, name));
        Ok(Route { record: record.clone(), connection })
    }
}

/// The way to a source over one of its connections, if it is still there.
pub(super) fn route(
    facts: &Facts,
    record: &SourceRecord,
    connection: Option<&ConnectionName>,
) -> Option<Route> {
    let source = facts.sources.get(&record.id)?;
    let used: Option<UsedConnection> = match connection {
        Some(name) => Some(source.used(facts.hub.as_ref(), name)?),
        None => None,
    };
    Some(Route { record: record.clone(), connection: used })
}

fn reference(
    hub: &HubId,
    record: &SourceRecord,
    name: &ConnectionName,
    place: &Place,
) -> Reference {
    Reference {
        hub: hub.clone(),
        source: record.id.clone(),
        connection: name.clone(),
        place: place.clone(),
    }
}

fn no_connection(record: &SourceRecord, name: &ConnectionName) -> HubError {
    HubError::NoConnection { namespace: record.namespace.to_string(), name: name.to_string() }
}

/// The code of a secret that cannot be had.
#[must_use]
pub fn secret_code(error: &SecretsError) -> ErrorCode {
    match error {
        SecretsError::NotSet(_) => ErrorCode::SourceUnavailable,
        SecretsError::Missing(_) => ErrorCode::CredentialMissing,
        SecretsError::Elsewhere(_) => ErrorCode::CredentialElsewhere,
        SecretsError::Locked(_) => ErrorCode::KeychainLocked,
        SecretsError::Closed(_)
        | SecretsError::Slow(..)
        | SecretsError::Failed(..)
        | SecretsError::Unfit(_) => ErrorCode::KeychainUnavailable,
    }
}

/// A secret that cannot be had, as why a run cannot begin.
pub(super) fn secret_failure(error: &SecretsError) -> Failure {
    Failure::new(secret_code(error), error.to_string())
}

/// What a person does about a secret that cannot be had.
pub(super) fn secret_hint(error: &SecretsError) -> String {
    match error {
        SecretsError::NotSet(name) => format!("set `{name}` where the hub is started"),
        SecretsError::Missing(_) | SecretsError::Elsewhere(_) => {
            "enter the credential with `capabilities hub auth <namespace>`".to_owned()
        }
        SecretsError::Locked(_) => {
            "unlock the keychain, for instance by logging in to the desktop, and try again"
                .to_owned()
        }
        SecretsError::Closed(_) | SecretsError::Slow(..) | SecretsError::Failed(..) => {
            "`capabilities hub doctor` looks at the keychain".to_owned()
        }
        SecretsError::Unfit(_) => "nothing was kept; enter it again".to_owned(),
    }
}
