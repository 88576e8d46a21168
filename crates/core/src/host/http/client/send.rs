//! Sends one request over one connection and reads its response.

use std::io::{self, Read};
use std::net::TcpStream;

use http::{Method, Response, header};
use ureq::config::Config;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::transport::{Connector, RustlsConnector};
use ureq::{Agent, Body};

use super::request::{OutgoingRequest, response_headers};
use super::timeout::RequestTimeout;
use super::transport::{FixedAddress, SingleConnector, shutdown_on_stop};
use crate::error::{ErrorContext, ErrorKind, Result, SkillError};
use crate::host::HttpResponse;
use crate::host::io_error::{into_io_error, is_skill_error};
use crate::host::memory::HostMemoryReservation;

/// The result of a request.
pub(super) enum SendOutcome {
    /// The response itself.
    Response(HttpResponse),
    /// A redirect: its status, and the reference where it leads.
    Redirect(u16, String),
}

const REDIRECT_STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

/// Maximum bytes of the status line and the headers of a response.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// Bytes of a body that are read at a time.
const READ_CHUNK_BYTES: u64 = 64 << 10;

const USER_AGENT: &str = concat!("metier/", env!("CARGO_PKG_VERSION"));

/// Sends the request over this connection and reads the answer, at most so many bytes of its body. The connection ends with it.
pub(super) fn send(
    outgoing: &OutgoingRequest,
    stream: TcpStream,
    roots: &RootCerts,
    timeout: &RequestTimeout,
    most: u64,
) -> Result<SendOutcome> {
    let host = outgoing.url.host();
    let failed =
        |error: ureq::Error| timeout.remaining().err().unwrap_or_else(|| transport_error(host, error));
    let _guard = shutdown_on_stop(&stream, timeout).map_err(|error| failed(error.into()))?;
    let agent = agent(stream, roots, timeout).map_err(|error| failed(error.into()))?;
    let response = run_request(&agent, outgoing).map_err(failed)?;
    if let Some(reference) = redirect_location(&response) {
        return Ok(SendOutcome::Redirect(response.status().as_u16(), reference));
    }
    let (status, headers) = (response.status().as_u16(), response_headers(&response));
    let mut held = timeout.empty_reservation();
    let body = match read_body(response, most, &mut held) {
        Err(error) if is_skill_error(&error) => return Err(with_host(host, error)),
        body => body.map_err(|error| failed(error.into()))?,
    };
    // The end of a body may be the end of a connection that was shut.
    timeout.remaining()?;
    if body.len() as u64 > most {
        let sentence = format!("failed to reach {host}: its response has more than {most} bytes");
        return Err(SkillError::new(ErrorKind::Output, sentence)
            .with_help("raise max_bytes, or ask for a part with the header range"));
    }
    Ok(SendOutcome::Response(HttpResponse { status, url: outgoing.url.uri().to_string(), headers, body }))
}

/// An agent with this connection and nothing else: it knows no proxy, keeps nothing, follows nothing.
fn agent(stream: TcpStream, roots: &RootCerts, timeout: &RequestTimeout) -> io::Result<Agent> {
    let address = FixedAddress(stream.peer_addr()?);
    let config = Config::builder()
        .proxy(None)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_connections(0)
        .user_agent(USER_AGENT)
        .max_response_header_size(MAX_HEADER_BYTES)
        .tls_config(TlsConfig::builder().root_certs(roots.clone()).build())
        .build();
    let connector = SingleConnector::new(stream, timeout.clone()).chain(RustlsConnector::default());
    Ok(Agent::with_parts(config, connector, address))
}

fn run_request(agent: &Agent, outgoing: &OutgoingRequest) -> Result<Response<Body>, ureq::Error> {
    let takes_body = [Method::POST, Method::PUT, Method::PATCH].contains(&outgoing.method);
    match &outgoing.body {
        None if !takes_body => agent.run(outgoing.to_http(())),
        body => agent.run(outgoing.to_http(body.as_deref().unwrap_or_default())),
    }
}

fn redirect_location(response: &Response<Body>) -> Option<String> {
    let location = response.headers().get(header::LOCATION)?;
    let is_redirect = REDIRECT_STATUSES.contains(&response.status().as_u16());
    is_redirect.then(|| String::from_utf8_lossy(location.as_bytes()).into_owned())
}

/// The body, or one byte more than it may have, which tells that it is too large.
fn read_body(response: Response<Body>, most: u64, held: &mut HostMemoryReservation) -> io::Result<Vec<u8>> {
    let mut reader = response.into_body().into_reader().take(most.saturating_add(1));
    let mut bytes = Vec::new();
    loop {
        // A vector that is full doubles, and for a moment there are both.
        held.grow(2 * READ_CHUNK_BYTES).map_err(into_io_error)?;
        if reader.by_ref().take(READ_CHUNK_BYTES).read_to_end(&mut bytes)? == 0 {
            return Ok(bytes);
        }
    }
}

/// Our own refusal, with what it was that failed.
fn with_host(host: &str, error: io::Error) -> SkillError {
    let error = error.downcast().unwrap_or_else(|error| SkillError::io("failed to read", error));
    error.with_message(format!("failed to reach {host}: {error}"))
}

/// What went wrong, where neither the time nor the run's end explains it.
fn transport_error(host: &str, error: ureq::Error) -> SkillError {
    let attempt = format!("failed to reach {host}");
    let (kind, why) = match error {
        ureq::Error::Io(error) if error.kind() != io::ErrorKind::InvalidData => {
            return SkillError::io(attempt, error);
        }
        ureq::Error::Io(error) => (ErrorKind::Io, format!("no secure connection: {error}")),
        ureq::Error::Rustls(error) => (ErrorKind::Io, format!("no secure connection: {error}")),
        ureq::Error::Protocol(error) => (ErrorKind::Io, format!("its response is not valid HTTP: {error}")),
        ureq::Error::LargeResponseHeader(..) => (
            ErrorKind::Output,
            format!("the headers of its response have more than {MAX_HEADER_BYTES} bytes"),
        ),
        other => (ErrorKind::Io, other.to_string()),
    };
    SkillError::new(kind, format!("{attempt}: {why}"))
}
