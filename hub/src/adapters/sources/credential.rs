//! A connection's secrets: asked for when a request leaves or a process starts, and gone after it.

use crate::model::connection::{Destination, Place, UsedConnection};
use crate::model::source::SourceRecord;
use crate::ports::secrets::{SecretText, Secrets, SecretsError};
use futures::future::BoxFuture;
use std::sync::Arc;

/// What comes of asking: each place with what goes there.
type Released = Result<Vec<(Place, SecretText)>, SecretsError>;

/// The way to a connection's secrets; holds none of them.
#[derive(Clone)]
pub(super) struct Credential(Option<Arc<dyn Fn() -> BoxFuture<'static, Released> + Send + Sync>>);

impl Credential {
    /// Of one connection of a source, released for where that source is, and for nothing else.
    pub(super) fn of<S: Secrets>(
        secrets: &Arc<S>,
        record: &SourceRecord,
        connection: Option<&UsedConnection>,
    ) -> Credential {
        let Some(connection) = connection else { return Credential(None) };
        let destination = Destination::of(&record.transport);
        let fits = |place: &Place| place.fits(&record.transport);
        let references: Arc<[_]> =
            connection.references(&record.id).filter(|reference| fits(&reference.place)).collect();
        let secrets = Arc::clone(secrets);
        Credential(Some(Arc::new(move || {
            let (secrets, destination) = (Arc::clone(&secrets), destination.clone());
            let references = Arc::clone(&references);
            Box::pin(async move {
                let mut released = Vec::new();
                for reference in references.iter() {
                    let value = secrets.release(reference, &destination).await?;
                    released.push((reference.place.clone(), value));
                }
                Ok(released)
            })
        })))
    }

    /// Every secret, for one use.
    pub(super) async fn release(&self) -> Released {
        match &self.0 {
            Some(ask) => ask().await,
            None => Ok(Vec::new()),
        }
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Credential(…)" } else { "Credential(none)" })
    }
}
