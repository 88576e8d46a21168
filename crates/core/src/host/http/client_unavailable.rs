//! Stands in for the built-in HTTP client in builds without the feature `http`; an embedder may pass a client of its own.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use http::{Request, Response};

use super::RootCertificates;
use crate::error::{ErrorKind, SkillError};
use crate::host::HttpClient;

/// The client of an engine that was given no other: none.
pub const DEFAULT_CLIENT: Option<fn() -> Arc<dyn HttpClient>> = None;

/// The error where a run has no client.
pub(in crate::host) fn missing_client_error(host: &str) -> SkillError {
    let sentence = format!("failed to reach {host}: this build has no HTTP client");
    SkillError::new(ErrorKind::Unavailable, sentence).with_help(
        "build metier with the Cargo feature `http`, or give the engine a client with `EngineBuilder::http`",
    )
}

/// Cannot be made.
#[derive(Debug)]
pub struct SecureHost(std::convert::Infallible);

impl SecureHost {
    /// Fails: nothing here speaks TLS.
    pub fn new(
        _: &RootCertificates,
        _: impl Fn() -> io::Result<Arc<TcpStream>> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Err(unsupported())
    }

    /// Is never called.
    pub fn send(
        &self,
        _: Request<()>,
        _: Option<&mut dyn Read>,
    ) -> io::Result<Response<Box<dyn Read + Send>>> {
        match self.0 {}
    }
}

/// Cannot be made.
#[derive(Debug)]
pub struct RunAuthority(std::convert::Infallible);

impl RunAuthority {
    /// Fails: nothing here makes certificates.
    pub fn new(_: &[String]) -> io::Result<Self> {
        Err(unsupported())
    }

    /// Is never called.
    pub fn pem(&self) -> &str {
        match self.0 {}
    }

    /// Is never called.
    pub fn accept(&self, _: &str, _: Arc<TcpStream>) -> io::Result<OpenedConnection> {
        match self.0 {}
    }
}

/// Is never made.
#[derive(Debug)]
pub struct OpenedConnection(std::convert::Infallible);

impl OpenedConnection {
    /// Is never called.
    pub fn socket(&self) -> &TcpStream {
        match self.0 {}
    }

    /// Is never called.
    pub fn end(&mut self) -> io::Result<()> {
        match self.0 {}
    }
}

impl Read for OpenedConnection {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }
}

impl Write for OpenedConnection {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match self.0 {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0 {}
    }
}

fn unsupported() -> io::Error {
    let reason = "this build has no HTTP client; build metier with the Cargo feature `http`";
    io::Error::new(io::ErrorKind::Unsupported, reason)
}
