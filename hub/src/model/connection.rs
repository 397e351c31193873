//! A source's connections: named credentials, as references to secrets and never as values.

use super::digest::Digest;
use super::ids::{HubId, SourceId};
use super::names::ConnectionName;
use super::source::Transport;
use super::time::WallMs;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Version of the connections file this build writes.
pub const CONNECTIONS_VERSION: u32 = 1;
/// Bytes a secret value must have: a shorter one would be found everywhere when it is taken out of text.
pub const SECRET_BYTES_MIN: usize = 6;
/// Bytes a secret value may have.
pub const SECRET_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the name of a header, a query parameter or a variable.
const PLACE_BYTES_MAX: usize = 128;

/// `connections/<source id>.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connections {
    /// Format.
    #[serde(default = "version_default")]
    pub version: u32,
    /// By name.
    #[serde(default)]
    pub connections: BTreeMap<ConnectionName, Connection>,
    /// The one a call uses that names none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub default: Option<ConnectionName>,
}

fn version_default() -> u32 {
    CONNECTIONS_VERSION
}

impl Default for Connections {
    fn default() -> Self {
        let connections = BTreeMap::new();
        Connections { version: CONNECTIONS_VERSION, connections, default: None }
    }
}

/// One connection: where its secrets go, and since when.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connection {
    /// Where each of its secrets goes in a request, or in a process's environment.
    pub places: BTreeSet<Place>,
    /// When a secret of it was entered last; an open connection made before is opened anew.
    pub entered: WallMs,
}

/// Where a secret goes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Place {
    /// `Authorization: Bearer <value>`.
    Bearer,
    /// `Authorization: Basic <value in base64>`; the value is `user:password`.
    Basic,
    /// The whole value of a header, by lower-case name.
    Header(String),
    /// A parameter in the query of the address.
    Query(String),
    /// A variable of a local server's environment.
    Env(String),
}

/// Why a text names no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// The part before the colon is unknown.
    #[error("it is none of `bearer`, `basic`, `header:<name>`, `query:<name>` and `env:<NAME>`")]
    Kind,
    /// The name has a character that such names do not have, or is empty or too long.
    #[error("`{0}` cannot be the name of a {1}")]
    Name(String, &'static str),
    /// The header is the protocol's own, or says who is spoken to.
    #[error("the header `{0}` belongs to the protocol and carries no credential")]
    Reserved(String),
}

/// Headers that the hub or HTTP itself fills in.
const RESERVED: &[&str] = &[
    "host",
    "connection",
    "content-length",
    "content-type",
    "transfer-encoding",
    "accept",
    "user-agent",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "last-event-id",
    "origin",
];

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let (kind, name) = match text.split_once(':') {
            Some((kind, name)) => (kind, Some(name)),
            None => (text, None),
        };
        let named = |what, fits: fn(char) -> bool| {
            let name = name.unwrap_or_default();
            if name.is_empty() || name.len() > PLACE_BYTES_MAX || !name.chars().all(fits) {
                return Err(PlaceError::Name(name.escape_debug().to_string(), what));
            }
            Ok(name.to_owned())
        };
        match (kind, name) {
            ("bearer", None) => Ok(Place::Bearer),
            ("basic", None) => Ok(Place::Basic),
            ("header", Some(_)) => {
                let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
                let name = named("header", token)?.to_ascii_lowercase();
                if RESERVED.contains(&name.as_str()) || name.starts_with("mcp-") {
                    return Err(PlaceError::Reserved(name));
                }
                Ok(Place::Header(name))
            }
            ("query", Some(_)) => {
                Ok(Place::Query(named("query parameter", |c| c.is_ascii_graphic())?))
            }
            ("env", Some(_)) => {
                let name = named("variable", |c| c.is_ascii_alphanumeric() || c == '_')?;
                if name.starts_with(|c: char| c.is_ascii_digit()) {
                    return Err(PlaceError::Name(name, "variable"));
                }
                Ok(Place::Env(name))
            }
            _ => Err(PlaceError::Kind),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Bearer => f.write_str("bearer"),
            Place::Basic => f.write_str("basic"),
            Place::Header(name) => write!(f, "header:{name}"),
            Place::Query(name) => write!(f, "query:{name}"),
            Place::Env(name) => write!(f, "env:{name}"),
        }
    }
}

impl TryFrom<String> for Place {
    type Error = PlaceError;

    fn try_from(text: String) -> Result<Self, PlaceError> {
        text.parse()
    }
}

impl From<Place> for String {
    fn from(place: Place) -> String {
        place.to_string()
    }
}

impl Place {
    /// Can a secret go there on the way to such a source?
    #[must_use]
    pub fn fits(&self, transport: &Transport) -> bool {
        match (self, transport) {
            (Place::Env(_), Transport::Stdio(_)) => true,
            (
                Place::Bearer | Place::Basic | Place::Header(_) | Place::Query(_),
                Transport::Http(_),
            ) => true,
            (Place::Env(_), Transport::Http(_)) => false,
            (_, Transport::Stdio(_)) => false,
        }
    }

    /// Would both stand in the same place of a request?
    #[must_use]
    pub fn excludes(&self, other: &Place) -> bool {
        let authorization = |place: &Place| match place {
            Place::Bearer | Place::Basic => true,
            Place::Header(name) => name == "authorization",
            Place::Query(_) | Place::Env(_) => false,
        };
        self == other || authorization(self) && authorization(other)
    }

    /// The place in a person's words, with the value left out.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Place::Bearer => "as the header `Authorization: Bearer …`".to_owned(),
            Place::Basic => "as the header `Authorization: Basic …`".to_owned(),
            Place::Header(name) => format!("as the header `{name}: …`"),
            Place::Query(name) => format!("as `{name}=…` in the query of the address"),
            Place::Env(name) => format!("as the variable `{name}`"),
        }
    }
}

/// Names one secret of one hub. The value is kept under it, together with what it was entered for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Which hub.
    pub hub: HubId,
    /// Which source.
    pub source: SourceId,
    /// Which connection of it.
    pub connection: ConnectionName,
    /// Which secret of that.
    pub place: Place,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.hub, self.source, self.connection, self.place)
    }
}

/// The only thing that a secret goes to: the origin, or the exact command, that it was entered for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Destination(String);

impl Destination {
    /// Where secrets of such a source go.
    #[must_use]
    pub fn of(transport: &Transport) -> Destination {
        Destination(match transport {
            Transport::Stdio(_) => format!("command {}", transport.digest()),
            Transport::Http(endpoint) => endpoint.url.origin(),
        })
    }
}

/// A connection as calls use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedConnection {
    /// Which hub it belongs to.
    pub hub: HubId,
    /// What it is called.
    pub name: ConnectionName,
    /// As stored.
    pub connection: Connection,
}

impl UsedConnection {
    /// Every secret of it, for a source.
    pub fn references<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> impl Iterator<Item = Reference> + use<'a> {
        self.connection.places.iter().map(move |place| Reference {
            hub: self.hub.clone(),
            source: source.clone(),
            connection: self.name.clone(),
            place: place.clone(),
        })
    }

    /// Another digest means another credential: an open connection made with one is not used with the other.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let text = serde_json::to_string(&(&self.hub, &self.name, &self.connection));
        Digest::of(text.unwrap_or_default().as_bytes())
    }
}

impl Connections {
    /// The connection of this name as calls use it.
    #[must_use]
    pub fn used(&self, hub: &HubId, name: &ConnectionName) -> Option<UsedConnection> {
        let connection = self.connections.get(name)?.clone();
        Some(UsedConnection { hub: hub.clone(), name: name.clone(), connection })
    }

    /// Notes that a secret was entered. The first connection becomes the default.
    pub fn enter(&mut self, name: &ConnectionName, place: Place, wall: WallMs) -> Vec<Place> {
        let connection = self.connections.entry(name.clone()).or_default();
        let (gone, kept) = std::mem::take(&mut connection.places)
            .into_iter()
            .partition::<Vec<Place>, _>(|known| known.excludes(&place) && *known != place);
        connection.places = kept.into_iter().collect();
        connection.places.insert(place);
        // Later than before, whatever the clock says: whoever holds an older one must notice.
        connection.entered = WallMs(wall.0.max(connection.entered.0.saturating_add(1)));
        self.default.get_or_insert_with(|| name.clone());
        gone
    }

    /// Takes a connection out; the places its secrets went to.
    pub fn remove(&mut self, name: &ConnectionName) -> Option<Connection> {
        let removed = self.connections.remove(name)?;
        if self.default.as_ref() == Some(name) {
            self.default = None;
        }
        Some(removed)
    }

    /// Is the default one of them?
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.default.as_ref().is_none_or(|name| self.connections.contains_key(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written() {
        for text in ["bearer", "basic", "header:x-api-key", "query:key", "env:API_TOKEN"] {
            let place: Place = text.parse().unwrap();
            assert_eq!(place.to_string(), text);
            assert_eq!(serde_json::to_string(&place).unwrap(), format!("\"{text}\""));
        }
        assert_eq!("header:X-Api-Key".parse(), Ok(Place::Header("x-api-key".to_owned())));
        for bad in [
            "",
            "bearer:",
            "header",
            "header:",
            "header:a b",
            "header:a\r\nb",
            "header:Host",
            "header:mcp-session-id",
            "header:Content-Length",
            "query:",
            "query:a\u{e9}",
            "env:1A",
            "env:A-B",
            "env:",
            "cookie:x",
        ] {
            assert!(bad.parse::<Place>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_stands_in_one_header_replaces_each_other() {
        let mut all = Connections::default();
        let work: ConnectionName = "work".parse().unwrap();
        assert_eq!(all.enter(&work, Place::Bearer, WallMs(5)), []);
        assert_eq!(all.enter(&work, Place::Query("k".to_owned()), WallMs(3)), []);
        assert_eq!(
            all.connections[&work].entered,
            WallMs(6),
            "a clock that goes back is not heard"
        );
        assert_eq!(all.enter(&work, Place::Basic, WallMs(9)), [Place::Bearer]);
        assert_eq!(
            all.enter(&work, Place::Header("authorization".to_owned()), WallMs(9)),
            [Place::Basic]
        );
        assert_eq!(all.connections[&work].places.len(), 2);
        assert_eq!(all.default, Some(work.clone()));
        assert!(
            all.remove(&work).is_some() && all.default.is_none() && all.remove(&work).is_none()
        );
    }
}
