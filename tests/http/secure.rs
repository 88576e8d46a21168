//! TLS, with a server's certificate from an authority that only these tests trust.

use std::io::Write;
use std::sync::Arc;

use metier::error::ErrorKind::{Denied, Io, Usage};
use metier::host::{HttpClient, WebClient};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};

use crate::http::server::{Server, answer, read_request, redirect};
use crate::http::{get, refused, run, web};

pub const AUTHORITY: &str = include_str!("certificates/authority.pem");
const CERTIFICATE: &str = include_str!("certificates/server.pem");
const KEY: &str = include_str!("certificates/server.key.pem");

const NAMES: &[(&str, &str)] = &[("secure.test", "127.0.0.1"), ("other.test", "127.0.0.1")];
const GRANTS: &[&str] = &["net:secure.test", "net:other.test", "net:127.0.0.1"];

#[test]
fn an_answer_comes_through_a_handshake_with_a_trusted_authority() {
    let server = secure(answer("200 OK", &[], "secret"));
    let client = web(NAMES).root_certificates(AUTHORITY).unwrap();
    for host in ["secure.test", "127.0.0.1"] {
        let response = client.send(&run(GRANTS), get(url(&server, host))).unwrap();
        assert_eq!((response.url, response.body), (url(&server, host), b"secret".to_vec()));
    }
}

#[test]
fn a_certificate_that_proves_nothing_is_refused_before_anything_is_sent() {
    let server = secure(answer("200 OK", &[], "secret"));
    let stranger = web(NAMES).send(&run(GRANTS), get(url(&server, "secure.test")));
    refused(stranger, Io, &["failed to reach secure.test: no secure connection", "UnknownIssuer"]);
    let trusting = web(NAMES).root_certificates(AUTHORITY).unwrap();
    refused(trusting.send(&run(GRANTS), get(url(&server, "other.test"))), Io, &["no secure connection"]);
    assert!(server.requests().is_empty());
}

#[test]
fn what_speaks_no_tls_is_refused() {
    let server =
        Server::with_connections(|stream, _| drop(stream.write_all(answer("200 OK", &[], "x").as_bytes())));
    let trusting = web(NAMES).root_certificates(AUTHORITY).unwrap();
    refused(
        trusting.send(&run(GRANTS), get(url(&server, "secure.test"))),
        Io,
        &["failed to reach secure.test"],
    );
}

#[test]
fn a_redirect_never_gives_up_encryption() {
    let plain = Server::with_answer(answer("200 OK", &[], "x"));
    let server = secure(redirect(302, &plain.url("secure.test", "/")));
    let trusting = web(NAMES).root_certificates(AUTHORITY).unwrap();
    let result = trusting.send(&run(GRANTS), get(url(&server, "secure.test")));
    refused(result, Denied, &["redirect of secure.test to secure.test", "from https to http"]);
    assert!(plain.requests().is_empty());
}

#[test]
fn text_without_a_certificate_is_no_authority() {
    for text in ["", "hello", KEY] {
        assert_eq!(WebClient::new().root_certificates(text).unwrap_err().kind(), Usage, "{text}");
    }
}

pub fn url(server: &Server, host: &str) -> String {
    server.url(host, "/").replace("http:", "https:")
}

/// A server that gives this answer over TLS.
fn secure(answer: String) -> Server {
    secure_with(move |_| answer.clone())
}

/// A server that answers each request over TLS with what the function makes of it.
pub fn secure_with(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Server {
    let chain = vec![CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap());
    Server::with_connections(move |stream, requests| {
        let mut connection = ServerConnection::new(config.clone()).unwrap();
        let mut stream = Stream::new(&mut connection, stream);
        // A client that does not trust the certificate hangs up here.
        let Some(request) = read_request(&mut stream) else { return };
        requests.lock().unwrap().push(request.clone());
        drop(stream.write_all(answer(&request).as_bytes()));
        drop(stream.flush());
    })
}
