//! The built-in HTTP client: one connection per request, and redirects checked by the same rules as the request itself.
//!
//! The path of a request: `connect` looks the host up, checks the addresses and connects, `send` sends and reads over that
//! `transport`, `request` makes the next request of a redirect. `timeout` bounds every wait.

mod connect;
mod request;
mod run_authority;
mod secure_host;
mod send;
mod timeout;
mod transport;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use ureq::tls::RootCerts;

use self::connect::{Resolver, connect};
use self::request::OutgoingRequest;
pub use self::run_authority::{OpenedConnection, RunAuthority};
pub use self::secure_host::SecureHost;
use self::secure_host::root_certs;
use self::send::{SendOutcome, send};
use self::timeout::{BlockingThreadLimit, RequestTimeout};
use super::RootCertificates;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{HttpClient, HttpRequest, HttpResponse, SkillContext};
use crate::policy::{Access, RunPermissions};

/// A client for the public internet, over HTTP/1.1.
///
/// A host is looked up once, each of its addresses is judged, and one of those is connected to. Loopback, private,
/// link-local and every other special address is refused unless the run holds a permission that names it, such as
/// `net:127.0.0.1`; `localhost` also opens to `net:localhost`. Up to five redirects are followed, each held to the
/// permissions and addresses of its own host; none leads from https to http, and only harmless headers go along to
/// another origin.
///
/// Certificates are verified. What goes to an `http` URL is sent in the clear: whoever is on the way can read it and
/// change the answer.
///
/// There is no proxy, no cookie, no compression, and no connection or session that outlives its request. A request ends
/// with its own timeout, and at once when its run is stopped; a lookup or a connection under way is then left to end by
/// itself, unheard.
#[derive(Clone, Debug)]
pub struct WebClient {
    resolver: Resolver,
    roots: RootCerts,
    thread_limit: BlockingThreadLimit,
}

const MAX_REDIRECTS: usize = 5;

/// The client of an engine that was given no other.
pub const DEFAULT_CLIENT: Option<fn() -> Arc<dyn HttpClient>> = Some(|| Arc::new(WebClient::new()));

/// The error where a run has no client.
pub(in crate::host) fn missing_client_error(host: &str) -> SkillError {
    let sentence = format!("failed to reach {host}: this run has no client for the web");
    SkillError::new(ErrorKind::Unavailable, sentence)
}

impl WebClient {
    /// A client that looks names up as the system does, and trusts the authorities that Mozilla trusts.
    pub fn new() -> Self {
        Self {
            resolver: Resolver::default(),
            roots: RootCerts::WebPki,
            thread_limit: BlockingThreadLimit::default(),
        }
    }

    /// Looks names up with this function instead. What it answers is judged like any other address.
    pub fn resolver(self, lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self { resolver: Resolver::from_fn(lookup), ..self }
    }

    /// Trusts the authorities in this PEM text, and no others; `usage` if it contains none.
    pub fn root_certificates(self, pem: &str) -> Result<Self> {
        let roots = root_certs(&RootCertificates::from_pem(pem))
            .map_err(|error| SkillError::new(ErrorKind::Usage, error.to_string()))?;
        Ok(Self { roots, ..self })
    }
}

impl Default for WebClient {
    fn default() -> Self {
        Self::new()
    }
}

impl HttpClient for WebClient {
    fn send(&self, ctx: &SkillContext, request: HttpRequest) -> Result<HttpResponse> {
        let timeout = RequestTimeout::new(ctx, request.timeout, &self.thread_limit);
        let (most, base) = (request.max_bytes, request.base_url.clone());
        let mut outgoing = OutgoingRequest::from_script(request)?;
        let mut attempt = format!("failed to reach {}", outgoing.url.host());
        for _ in 0..=MAX_REDIRECTS {
            ctx.permissions().require(&Access::url(outgoing.url.host(), outgoing.url.port()), &attempt)?;
            let filled = outgoing.with_secrets(ctx)?;
            let stream = connect(&outgoing.url, ctx.permissions(), &self.resolver, &timeout)?;
            match send(&filled, stream, &self.roots, &timeout, most)? {
                SendOutcome::Response(response) => return Ok(response),
                SendOutcome::Redirect(status, reference) => {
                    let from = outgoing.url.host().to_owned();
                    outgoing = outgoing.follow_redirect(status, &reference)?;
                    outgoing.check_secrets(ctx)?;
                    attempt = format!("failed to follow the redirect of {from} to {}", outgoing.url.host());
                    if let Some(base) = &base {
                        outgoing.url.require_below(base, &attempt)?;
                    }
                }
            }
        }
        let sentence = format!("{attempt}: it is the {}th in a row", MAX_REDIRECTS + 1);
        Err(SkillError::new(ErrorKind::Io, sentence))
    }

    fn fills_secrets(&self) -> bool {
        true
    }
}
