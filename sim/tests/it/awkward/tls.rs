//! Certificates that hold, and each way in which one does not.

use crate::support::TestHub;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, Stream};

/// A certificate for `name` until `year`, by `issuer` or by itself; the port of a server that shows it.
fn server(name: &str, year: i32, issuer: Option<&CertifiedIssuer<'static, KeyPair>>) -> u16 {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(year, 1, 1);
    let certificate = match issuer {
        Some(issuer) => params.signed_by(&key, issuer).unwrap(),
        None => params.self_signed(&key).unwrap(),
    };
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let (mut connection, config) = (connection.unwrap(), Arc::clone(&config));
            std::thread::spawn(move || {
                let mut tls = ServerConnection::new(config).unwrap();
                let mut stream = Stream::new(&mut tls, &mut connection);
                // Whoever gets this far was convinced.
                if stream.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {
                    let _ = stream.write_all(b"HTTP/1.1 418 Teapot\r\ncontent-length: 0\r\n\r\n");
                }
            });
        }
    });
    port
}

/// What `add` says about an address, for a machine that trusts `roots`.
fn said(url: &str, roots: &Path) -> String {
    let hub = TestHub::new();
    let mut add = hub.command(["add", "--accept", "--namespace", "odd", url]);
    add.env("SSL_CERT_FILE", roots).env_remove("SSL_CERT_DIR");
    let added = hub.run_with(&add, "");
    let error = added.stderr.lines().find(|line| line.starts_with("error"));
    error.unwrap_or_else(|| panic!("{added:#?}")).to_owned()
}

#[test]
fn a_certificate_that_does_not_hold_is_refused_with_its_reason() {
    let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
    authority.distinguished_name.push(rcgen::DnType::CommonName, "An authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("roots.pem");
    std::fs::write(&roots, authority.pem()).unwrap();
    let empty = folder.path().join("none.pem");
    std::fs::write(&empty, "").unwrap();

    let mut table = Vec::new();
    for (what, port, roots) in [
        ("good", server("localhost", 2090, Some(&authority)), &roots),
        ("expired", server("localhost", 2021, Some(&authority)), &roots),
        ("another name", server("example.com", 2090, Some(&authority)), &roots),
        ("self-signed", server("localhost", 2090, None), &roots),
        ("nobody is trusted", server("localhost", 2090, Some(&authority)), &empty),
    ] {
        let text = said(&format!("https://localhost:{port}/mcp"), roots);
        table.push(format!("{what} → {text}"));
    }
    let good = server("localhost", 2090, Some(&authority));
    table
        .push(format!("not encrypted → {}", said(&format!("http://localhost:{good}/mcp"), &roots)));
    insta::assert_snapshot!(table.join("\n"));
}
