//! Where a server over HTTP is: one address, and the kind of network it may lie in.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use url::{Host, Url};

/// The exact address of a server over HTTP, as a person agrees to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpEndpoint {
    /// Where messages go.
    pub url: HttpUrl,
    /// The kind of network its addresses lay in when the person agreed; another is refused later.
    pub reaches: AddressClass,
}

/// The kind of network an address lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressClass {
    /// This machine.
    Loopback,
    /// A network that the internet does not reach: at home, at work, in a cluster, link-local.
    Private,
    /// The internet.
    Public,
}

impl AddressClass {
    /// The class of one address. What has no meaning on the internet is private.
    #[must_use]
    pub fn of(address: IpAddr) -> AddressClass {
        match address {
            IpAddr::V4(address) => AddressClass::of_v4(address),
            IpAddr::V6(address) => AddressClass::of_v6(address),
        }
    }

    fn of_v4(address: Ipv4Addr) -> AddressClass {
        let [a, b, c, _] = address.octets();
        let private = address.is_private()
            || address.is_link_local()
            || address.is_multicast()
            || address.is_broadcast()
            || address.is_documentation()
            || a == 0
            || a >= 240
            || (a == 100 && (64..128).contains(&b))
            || (a == 192 && b == 0 && c == 0)
            || (a == 198 && (18..20).contains(&b));
        // What is no address at all leads to this machine, too.
        if address.is_loopback() || address.is_unspecified() {
            AddressClass::Loopback
        } else if private {
            AddressClass::Private
        } else {
            AddressClass::Public
        }
    }

    fn of_v6(address: Ipv6Addr) -> AddressClass {
        if let Some(inner) = address.to_ipv4_mapped() {
            return AddressClass::of_v4(inner);
        }
        let [first, second, ..] = address.segments();
        if address.is_loopback() || address.is_unspecified() {
            AddressClass::Loopback
        } else if first & 0xe000 != 0x2000 || (first == 0x2001 && second == 0xdb8) {
            // Only 2000::/3 is given out for the internet.
            AddressClass::Private
        } else if first == 0x2002 || (first == 0x2001 && second == 0) {
            // Tunnels carry an address inside that nothing here looks at.
            AddressClass::Private
        } else {
            AddressClass::Public
        }
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressClass::Loopback => "this machine",
            AddressClass::Private => "a private network",
            AddressClass::Public => "the internet",
        })
    }
}

/// An address over HTTP. Its query may be a credential: kept, sent, and never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HttpUrl(Url);

/// Why a text is no such address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HttpUrlError {
    /// It does not parse.
    #[error("it is not an address such as `https://mcp.example.com/mcp`")]
    Malformed,
    /// Another scheme.
    #[error("only `http://` and `https://` addresses can be added")]
    Scheme,
    /// Name or password before the host.
    #[error("it carries a name or password, which every log on the way would keep")]
    Credentials,
}

impl FromStr for HttpUrl {
    type Err = HttpUrlError;

    fn from_str(text: &str) -> Result<Self, HttpUrlError> {
        let mut url = Url::parse(text.trim()).map_err(|_| HttpUrlError::Malformed)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(HttpUrlError::Scheme);
        }
        if url.host().is_none() {
            return Err(HttpUrlError::Malformed);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(HttpUrlError::Credentials);
        }
        url.set_fragment(None);
        Ok(HttpUrl(url))
    }
}

impl HttpUrl {
    /// The whole address, with its query; for sending only.
    #[must_use]
    pub fn secret_text(&self) -> &str {
        self.0.as_str()
    }

    /// The whole address with parameters added to its query; for sending only.
    #[must_use]
    pub fn with_query<'a>(&self, more: impl Iterator<Item = (&'a str, &'a str)>) -> String {
        let mut more = more.peekable();
        if more.peek().is_none() {
            return self.secret_text().to_owned();
        }
        let mut url = self.0.clone();
        url.query_pairs_mut().extend_pairs(more);
        url.into()
    }

    /// Scheme, host and port.
    #[must_use]
    pub fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    /// The address with its query hidden.
    #[must_use]
    pub fn shown(&self) -> String {
        let query = if self.0.query().is_some() { "?…" } else { "" };
        format!("{}{}{query}", self.origin(), self.0.path())
    }

    /// Is it encrypted on its way?
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Its host without brackets, and its port.
    #[must_use]
    pub fn host_and_port(&self) -> (String, u16) {
        let host = match self.0.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => String::new(),
        };
        (host, self.0.port_or_known_default().unwrap_or(443))
    }

    /// Where `reference` leads from here, as a `Location` header or an `endpoint` event names it.
    ///
    /// # Errors
    /// It is no address over HTTP.
    pub fn join(&self, reference: &str) -> Result<HttpUrl, HttpUrlError> {
        let joined = self.0.join(reference).map_err(|_| HttpUrlError::Malformed)?;
        joined.as_str().parse()
    }

    /// Has it a query?
    #[must_use]
    pub fn has_query(&self) -> bool {
        self.0.query().is_some()
    }

    /// Values in its query that look like credentials, decoded: by the name before them, or because
    /// nobody types such a thing. The others are ordinary words that answers may contain.
    #[must_use]
    pub fn query_secrets(&self) -> Vec<String> {
        let telling = |name: &str| {
            let name = name.to_ascii_lowercase();
            SECRET_NAMES.iter().any(|word| name.contains(word))
        };
        let random = |value: &str| {
            value.len() >= RANDOM_BYTES_MIN
                && value.bytes().any(|byte| byte.is_ascii_digit())
                && value.bytes().any(|byte| byte.is_ascii_alphabetic())
        };
        let pairs = self.0.query_pairs().filter(|(name, value)| telling(name) || random(value));
        pairs.map(|(_, value)| value.into_owned()).collect()
    }
}

/// Words in the name of a query parameter that make its value a secret.
const SECRET_NAMES: &[&str] = &["key", "token", "secret", "auth", "pass", "sig", "cred"];
/// Bytes from which on a value of letters and digits counts as random.
const RANDOM_BYTES_MIN: usize = 16;

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl TryFrom<String> for HttpUrl {
    type Error = HttpUrlError;

    fn try_from(text: String) -> Result<Self, HttpUrlError> {
        text.parse()
    }
}

impl From<HttpUrl> for String {
    fn from(url: HttpUrl) -> String {
        url.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_has_one_class() {
        let check = |class: AddressClass, addresses: &[&str]| {
            for address in addresses {
                assert_eq!(AddressClass::of(address.parse().unwrap()), class, "{address}");
            }
        };
        check(
            AddressClass::Loopback,
            &[
                "127.0.0.1",
                "127.8.8.8",
                "::1",
                "::ffff:127.0.0.1",
                "0.0.0.0",
                "::",
                "::ffff:0.0.0.0",
            ],
        );
        check(
            AddressClass::Private,
            &[
                "10.0.0.1",
                "172.16.9.1",
                "192.168.1.1",
                "169.254.169.254",
                "100.64.0.1",
                "0.0.0.1",
                "224.0.0.1",
                "255.255.255.255",
                "fc00::1",
                "fe80::1",
                "ff02::1",
                "2001:db8::1",
                "::ffff:10.0.0.1",
                "64:ff9b::a00:1",
                "2002:a00:1::",
            ],
        );
        check(AddressClass::Public, &["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111"]);
    }

    #[test]
    fn an_address_keeps_its_query_and_never_shows_it() {
        let url: HttpUrl = "https://mcp.example.com/v1/mcp?key=s3cret%20word#part".parse().unwrap();
        assert_eq!(url.secret_text(), "https://mcp.example.com/v1/mcp?key=s3cret%20word");
        assert_eq!(url.shown(), "https://mcp.example.com/v1/mcp?…");
        assert_eq!(format!("{url:?}"), url.shown());
        assert_eq!(url.query_secrets(), ["s3cret word"]);
        let mixed =
            "https://example.com/?tools=issues,repos&v=2026-11-25&s=4f9a77c0d1e2b3a4&apiKey=abc";
        let mixed: HttpUrl = mixed.parse().unwrap();
        assert_eq!(mixed.query_secrets(), ["4f9a77c0d1e2b3a4", "abc"]);
        let here: HttpUrl = "http://[::1]:8080".parse().unwrap();
        assert_eq!(
            (here.shown().as_str(), here.host_and_port()),
            ("http://[::1]:8080/", ("::1".to_owned(), 8080))
        );
        assert_eq!(
            here.join("/messages?id=7").unwrap().secret_text(),
            "http://[::1]:8080/messages?id=7"
        );
    }

    #[test]
    fn what_is_no_address_over_http_is_refused() {
        for (text, error) in [
            ("mcp.example.com", HttpUrlError::Malformed),
            ("https://", HttpUrlError::Malformed),
            ("ftp://example.com/x", HttpUrlError::Scheme),
            ("file:///etc/passwd", HttpUrlError::Scheme),
            ("https://user:pass@example.com/", HttpUrlError::Credentials),
        ] {
            assert_eq!(text.parse::<HttpUrl>(), Err(error), "{text}");
        }
    }
}
