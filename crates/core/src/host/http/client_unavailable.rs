//! Stands in for the built-in HTTP client in builds without the feature `http`; an embedder may pass a client of its own.

use std::sync::Arc;

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
