//! Stands in for the built-in HTTP client in builds without the feature `http`; an embedder may pass a client of its own.

use std::io::{self, Read};
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
        _: impl Fn() -> io::Result<TcpStream> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let reason = "this build has no HTTP client; build metier with the Cargo feature `http`";
        Err(io::Error::new(io::ErrorKind::Unsupported, reason))
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
