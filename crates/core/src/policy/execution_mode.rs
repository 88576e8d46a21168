//! Where scripts of the embedded languages run.

use std::fmt;
use std::str::FromStr;

use crate::error::{ErrorKind, SkillError};

/// Where Lua, Rhai and WebAssembly run. Other runtimes ignore it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExecutionMode {
    /// In this process. The fastest; a stopped run ends as soon as its language checks the cancel token.
    #[default]
    InProcess,
    /// In a sandboxed worker process, which is killed at the deadline or when the run is cancelled, whatever the script does, and
    /// replaced for the next run. Needs Linux, the Cargo feature `sandboxed`, and a program whose `main` begins with
    /// `helper_main`; otherwise runs fail with `sandbox-unavailable`.
    Worker,
}

/// In the order of the enum.
const NAMES: [(ExecutionMode, &str); 2] =
    [(ExecutionMode::InProcess, "in-process"), (ExecutionMode::Worker, "worker")];

impl ExecutionMode {
    /// All modes.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.into_iter().map(|(mode, _)| mode)
    }

    /// The name, as in `--execution worker`.
    pub const fn name(self) -> &'static str {
        NAMES[self as usize].1
    }
}

impl FromStr for ExecutionMode {
    type Err = SkillError;

    /// Parses the name; any other text is a `usage` error.
    fn from_str(text: &str) -> Result<Self, SkillError> {
        let named = NAMES.into_iter().find(|(_, name)| *name == text);
        named.map(|(mode, _)| mode).ok_or_else(|| {
            let known = NAMES.map(|(_, name)| name).join(" or ");
            SkillError::new(
                ErrorKind::Usage,
                format!("invalid value {text:?} for where scripts run; expected {known}"),
            )
        })
    }
}

impl fmt::Display for ExecutionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
