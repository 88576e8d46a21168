//! What TOML says about packages, in builds that read no TOML.

#![allow(dead_code, reason = "without TOML nothing is read")]

use super::declarations::{DeclaredRequirements, UvSettings};
use super::requirements_file::LineError;

pub(super) fn read_script_block(_text: &str) -> Result<DeclaredRequirements, LineError> {
    unavailable()
}

pub(super) fn read_pyproject(_text: &str) -> Result<Option<DeclaredRequirements>, LineError> {
    unavailable()
}

pub(super) fn read_script_python(_text: &str) -> Option<String> {
    None
}

pub(super) fn read_project_python(_text: &str) -> Option<String> {
    None
}

pub(super) fn read_uv_settings(_text: &str) -> Result<UvSettings, LineError> {
    unavailable()
}

fn unavailable<T>() -> Result<T, LineError> {
    let reason = "this build reads no TOML; build metier with the Cargo feature `config`".to_owned();
    Err(LineError { line: 1, reason })
}
