//! One request and its answer, over one connection.

use std::io::{self, Read};
use std::net::TcpStream;

use ureq::config::Config;
use ureq::http::{Method, Response, header};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::transport::{Connector, RustlsConnector};
use ureq::{Agent, Body};

use super::headers::received;
use super::hop::Hop;
use super::patience::Patience;
use super::wire::{Connected, Settled, shut_when_stopped};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::HttpResponse;
use crate::host::memory::{Held, is_own, through_io};

/// What came back.
pub(super) enum Answer {
    /// The answer itself.
    Whole(HttpResponse),
    /// A redirect: its status, and the reference where it leads.
    Elsewhere(u16, String),
}

const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

/// Bytes of the status line and the headers of an answer.
const MOST_HEADER_BYTES: usize = 64 << 10;

/// Bytes of a body that are read at a time.
const PART: u64 = 64 << 10;

const USER_AGENT: &str = concat!("metier/", env!("CARGO_PKG_VERSION"));

/// Sends the request over this connection and reads the answer, at most so many bytes of its body. The connection ends with it.
pub(super) fn exchange(
    hop: &Hop,
    stream: TcpStream,
    roots: &RootCerts,
    patience: &Patience,
    most: u64,
) -> Result<Answer> {
    let host = hop.url.host();
    let failed = |error: ureq::Error| patience.left().err().unwrap_or_else(|| failure(host, error));
    let _guard = shut_when_stopped(&stream, patience).map_err(|error| failed(error.into()))?;
    let agent = agent(stream, roots, patience).map_err(|error| failed(error.into()))?;
    let response = sent(&agent, hop).map_err(failed)?;
    if let Some(reference) = redirect(&response) {
        return Ok(Answer::Elsewhere(response.status().as_u16(), reference));
    }
    let (status, headers) = (response.status().as_u16(), received(&response));
    let mut held = patience.hold();
    let body = match body(response, most, &mut held) {
        Err(error) if is_own(&error) => return Err(own(host, error)),
        body => body.map_err(|error| failed(error.into()))?,
    };
    // The end of a body may be the end of a connection that was shut.
    patience.left()?;
    if body.len() as u64 > most {
        let sentence =
            format!("failed to reach {host}: its answer has more than the {most} bytes it may have");
        return Err(SkillError::new(ErrorKind::Output, sentence)
            .with_help("raise max_bytes, or ask for a part with the header range"));
    }
    Ok(Answer::Whole(HttpResponse { status, url: hop.url.uri().to_string(), headers, body }))
}

/// An agent with this connection and nothing else: it knows no proxy, keeps nothing, follows nothing.
fn agent(stream: TcpStream, roots: &RootCerts, patience: &Patience) -> io::Result<Agent> {
    let address = Settled(stream.peer_addr()?);
    let config = Config::builder()
        .proxy(None)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_connections(0)
        .user_agent(USER_AGENT)
        .max_response_header_size(MOST_HEADER_BYTES)
        .tls_config(TlsConfig::builder().root_certs(roots.clone()).build())
        .build();
    let connector = Connected::new(stream, patience.clone()).chain(RustlsConnector::default());
    Ok(Agent::with_parts(config, connector, address))
}

fn sent(agent: &Agent, hop: &Hop) -> Result<Response<Body>, ureq::Error> {
    let takes_body = [Method::POST, Method::PUT, Method::PATCH].contains(&hop.method);
    match &hop.body {
        None if !takes_body => agent.run(hop.request(())),
        body => agent.run(hop.request(body.as_deref().unwrap_or_default())),
    }
}

fn redirect(response: &Response<Body>) -> Option<String> {
    let location = response.headers().get(header::LOCATION)?;
    let is_redirect = REDIRECTS.contains(&response.status().as_u16());
    is_redirect.then(|| String::from_utf8_lossy(location.as_bytes()).into_owned())
}

/// The body, or one byte more than it may have, which tells that it is too large.
fn body(response: Response<Body>, most: u64, held: &mut Held) -> io::Result<Vec<u8>> {
    let mut reader = response.into_body().into_reader().take(most.saturating_add(1));
    let mut bytes = Vec::new();
    loop {
        // A vector that is full doubles, and for a moment there are both.
        held.grow(2 * PART).map_err(through_io)?;
        if reader.by_ref().take(PART).read_to_end(&mut bytes)? == 0 {
            return Ok(bytes);
        }
    }
}

/// Our own refusal, with what it was that failed.
fn own(host: &str, error: io::Error) -> SkillError {
    let error = error.downcast().unwrap_or_else(|error| SkillError::io("failed to read", error));
    let told = SkillError::new(error.kind(), format!("failed to reach {host}: {error}"));
    match error.help() {
        Some(help) => told.with_help(help),
        None => told,
    }
}

/// What went wrong, where neither the time nor the run's end explains it.
fn failure(host: &str, error: ureq::Error) -> SkillError {
    let attempt = format!("failed to reach {host}");
    let (kind, why) = match error {
        ureq::Error::Io(error) if error.kind() != io::ErrorKind::InvalidData => {
            return SkillError::io(attempt, error);
        }
        ureq::Error::Io(error) => (ErrorKind::Io, format!("no secure connection: {error}")),
        ureq::Error::Rustls(error) => (ErrorKind::Io, format!("no secure connection: {error}")),
        ureq::Error::Protocol(error) => (ErrorKind::Io, format!("its answer breaks HTTP: {error}")),
        ureq::Error::LargeResponseHeader(..) => {
            (ErrorKind::Output, format!("the headers of its answer have more than {MOST_HEADER_BYTES} bytes"))
        }
        other => (ErrorKind::Io, other.to_string()),
    };
    SkillError::new(kind, format!("{attempt}: {why}"))
}
