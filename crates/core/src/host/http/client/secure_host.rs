//! Requests to one host over TLS, for a caller that makes the connections itself and passes the bodies on while they come.

use std::fmt;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;

use http::{Request, Response};
use ureq::config::{AutoHeaderValue, Config};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::transport::{ConnectionDetails, Connector, RustlsConnector};
use ureq::{Agent, SendBody};

use super::transport::{FixedAddress, TcpTransport};
use crate::host::http::RootCertificates;

/// Maximum bytes of the status line and the headers of a response.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// A host that is reached over TLS, on one connection at a time, which is kept for the next request.
pub struct SecureHost(Agent);

/// Makes a connection to the host; its address is the caller's to judge.
type Connect = dyn Fn() -> io::Result<Arc<TcpStream>> + Send + Sync;

impl SecureHost {
    /// A host with a certificate of these authorities, to which this function connects.
    pub fn new(
        roots: &RootCertificates,
        connect: impl Fn() -> io::Result<Arc<TcpStream>> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let config = Config::builder()
            .proxy(None)
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(1)
            .user_agent(AutoHeaderValue::None)
            .accept(AutoHeaderValue::None)
            .accept_encoding(AutoHeaderValue::None)
            .max_response_header_size(MAX_HEADER_BYTES)
            .tls_config(TlsConfig::builder().root_certs(root_certs(roots)?).build())
            .build();
        let connector = CallerConnector(Box::new(connect)).chain(RustlsConnector::default());
        // Nothing is looked up here.
        let address = FixedAddress(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        Ok(Self(Agent::with_parts(config, connector, address)))
    }

    /// Sends a request, with what this reads as its body, and returns the response. Where the body ends is what the headers of the
    /// request say.
    pub fn send(
        &self,
        request: Request<()>,
        body: Option<&mut dyn Read>,
    ) -> io::Result<Response<Box<dyn Read + Send>>> {
        let sent = match body {
            Some(body) => self.0.run(request.map(|()| SendBody::from_reader(body))),
            None => self.0.run(request),
        };
        let (parts, body) = sent.map_err(ureq::Error::into_io)?.into_parts();
        Ok(Response::from_parts(parts, Box::new(body.into_reader())))
    }
}

impl fmt::Debug for SecureHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecureHost")
    }
}

/// The authorities as the TLS library takes them.
pub(super) fn root_certs(roots: &RootCertificates) -> io::Result<RootCerts> {
    let Some(pem) = roots.pem() else { return Ok(RootCerts::WebPki) };
    let items = parse_pem(pem.as_bytes()).flatten();
    let certificates: Vec<_> = items
        .filter_map(|item| if let PemItem::Certificate(found) = item { Some(found) } else { None })
        .collect();
    if certificates.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the text holds no certificate in PEM"));
    }
    Ok(RootCerts::Specific(Arc::new(certificates)))
}

struct CallerConnector(Box<Connect>);

impl Connector for CallerConnector {
    type Out = TcpTransport;

    fn connect(&self, _: &ConnectionDetails, _: Option<()>) -> Result<Option<TcpTransport>, ureq::Error> {
        Ok(Some(TcpTransport::without_timeout((self.0)()?)))
    }
}

impl fmt::Debug for CallerConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerConnector")
    }
}
