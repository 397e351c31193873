//! Connections to HTTP servers: only into the kind of network a person agreed to, with TLS that says
//! what is wrong.
#![expect(clippy::disallowed_methods, reason = "a connection that does not come must end")]

use crate::model::http::{AddressClass, HttpUrl};
use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, CertificateError, ClientConfig, RootCertStore};

/// How long one address may take to answer.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long the names and keys of TLS may take.
const TLS_WITHIN: Duration = Duration::from_secs(10);

/// Why there is no connection. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct ConnectError(String);

/// Every address of a host, and the one class they share.
///
/// # Errors
/// The name is not known, or its addresses lie in networks of different kinds.
pub(super) async fn class_of(url: &HttpUrl) -> Result<AddressClass, String> {
    let (host, port) = url.host_and_port();
    let addresses = resolve(&host, port).await.map_err(|error| error.0)?;
    let mut classes: Vec<AddressClass> =
        addresses.iter().map(|address| AddressClass::of(address.ip())).collect();
    classes.sort_unstable();
    classes.dedup();
    match classes.as_slice() {
        [class] => Ok(*class),
        _ => Err(format!(
            "`{host}` has addresses in networks of different kinds, which is how a name is turned against its owner"
        )),
    }
}

/// Connects to servers whose addresses are of one class.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    class: AddressClass,
}

impl Connector {
    pub(super) fn new(class: AddressClass) -> Connector {
        Connector { class }
    }

    async fn connect(self, uri: Uri) -> Result<TokioIo<Stream>, ConnectError> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let encrypted = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if encrypted { 443 } else { 80 });
        let addresses = resolve(&host, port).await?;
        let allowed: Vec<SocketAddr> = addresses
            .iter()
            .copied()
            .filter(|address| AddressClass::of(address.ip()) == self.class)
            .collect();
        if allowed.is_empty() {
            let is = addresses.first().map_or(self.class, |address| AddressClass::of(address.ip()));
            return Err(ConnectError(format!(
                "`{host}` lies in {is}, and you agreed to reach it in {}; add the source again if that is right",
                self.class
            )));
        }
        let tcp = open(&host, &allowed).await?;
        let _ = tcp.set_nodelay(true);
        let stream = if encrypted {
            Stream::Tls(Box::new(handshake(&host, tcp).await?))
        } else {
            Stream::Plain(tcp)
        };
        Ok(TokioIo::new(stream))
    }
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let found = tokio::net::lookup_host((host, port)).await;
    let addresses: Vec<SocketAddr> =
        found.map_err(|_| ConnectError(format!("the name `{host}` is not known")))?.collect();
    if addresses.is_empty() {
        return Err(ConnectError(format!("the name `{host}` has no address")));
    }
    Ok(addresses)
}

async fn open(host: &str, addresses: &[SocketAddr]) -> Result<TcpStream, ConnectError> {
    let mut last = ConnectError(format!("`{host}` has no address"));
    for address in addresses {
        last = match tokio::time::timeout(CONNECT_WITHIN, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                ConnectError(format!("nothing listens at {address}"))
            }
            Ok(Err(error)) => ConnectError(format!("{address} cannot be reached: {error}")),
            Err(_) => {
                let seconds = CONNECT_WITHIN.as_secs();
                ConnectError(format!("{address} did not answer within {seconds} s"))
            }
        };
    }
    Err(last)
}

async fn handshake(host: &str, tcp: TcpStream) -> Result<TlsStream<TcpStream>, ConnectError> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| ConnectError(format!("`{host}` is no name that TLS can check")))?;
    let connector = TlsConnector::from(configuration()?);
    match tokio::time::timeout(TLS_WITHIN, connector.connect(name, tcp)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(ConnectError(format!("TLS with `{host}` failed: {}", told(&error)))),
        Err(_) => {
            let seconds = TLS_WITHIN.as_secs();
            Err(ConnectError(format!("TLS with `{host}` was not agreed within {seconds} s")))
        }
    }
}

/// What TLS trusts: what this machine trusts. Read at the first encrypted connection.
fn configuration() -> Result<Arc<ClientConfig>, ConnectError> {
    static CONFIGURATION: OnceLock<Result<Arc<ClientConfig>, ConnectError>> = OnceLock::new();
    CONFIGURATION
        .get_or_init(|| {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                let why = "this machine has no trusted certificates (on Linux: the package `ca-certificates`)";
                return Err(ConnectError(why.to_owned()));
            }
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let builder = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| ConnectError(error.to_string()))?;
            Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
        })
        .clone()
}

/// What a failed handshake means, for a person.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "few of very many foreign cases have better words"
)]
fn told(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(inner) = inner else {
        let hung_up = error.kind() == std::io::ErrorKind::UnexpectedEof;
        return if hung_up {
            "the server hung up; is it `http://`?".to_owned()
        } else {
            error.to_string()
        };
    };
    match inner {
        rustls::Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet; is this machine's clock right?".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name".to_owned()
            }
            CertificateError::UnknownIssuer => {
                "its certificate is signed by nobody this machine trusts (self-signed, or a company's own authority that is not installed here)".to_owned()
            }
            CertificateError::BadSignature => {
                "its certificate was not signed by whom it names".to_owned()
            }
            CertificateError::Revoked => "its certificate was revoked".to_owned(),
            other => format!("its certificate is not valid: {other}"),
        },
        rustls::Error::InvalidMessage(_) => {
            "what answers there does not speak TLS; is it `http://`?".to_owned()
        }
        other => other.to_string(),
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Stream>, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// Bytes to and from a server.
#[derive(Debug)]
pub(super) enum Stream {
    /// As they are.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(inner) => Pin::new(inner).poll_read(cx, buffer),
            Stream::Tls(inner) => Pin::new(inner).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(inner) => Pin::new(inner).poll_write(cx, bytes),
            Stream::Tls(inner) => Pin::new(inner).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(inner) => Pin::new(inner).poll_flush(cx),
            Stream::Tls(inner) => Pin::new(inner).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(inner) => Pin::new(inner).poll_shutdown(cx),
            Stream::Tls(inner) => Pin::new(inner).poll_shutdown(cx),
        }
    }
}
