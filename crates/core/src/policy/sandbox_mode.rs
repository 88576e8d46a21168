//! How strictly the sandbox of a process is required before the process may start, and which sandbox level is used.

use std::fmt;
use std::str::FromStr;

use metier_sandbox::ParseLevelError;
use serde::{Serialize, Serializer};

use crate::error::{ErrorKind, SkillError};

/// How the caller requires the sandbox of external scripts. Embedded languages reach only the host API in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SandboxMode {
    /// Restrictions on files outside the project, on the network and on the lifetime of the whole process tree must be enforced;
    /// otherwise nothing starts: `sandbox-unavailable`.
    #[default]
    Required,
    /// Restrictions that this machine can enforce are enforced; the outcome lists them.
    BestEffort,
    /// A plain process with the user's own rights, whatever the grants.
    Off,
}

/// In the order of the enum.
const NAMES: [(SandboxMode, &str); 3] = [
    (SandboxMode::Required, "required"),
    (SandboxMode::BestEffort, "best-effort"),
    (SandboxMode::Off, "off"),
];

impl Serialize for SandboxMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl SandboxMode {
    /// All modes.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.into_iter().map(|(mode, _)| mode)
    }

    /// The name, as in `--sandbox best-effort`.
    pub const fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// The stricter one of two modes.
    pub fn stricter(self, other: Self) -> Self {
        if (self as u8) < other as u8 { self } else { other }
    }
}

impl FromStr for SandboxMode {
    type Err = SkillError;

    /// Parses the name; any other text is a `usage` error. `best_effort` is accepted as well.
    fn from_str(text: &str) -> Result<Self, SkillError> {
        let plain = text.replace('_', "-");
        let named = NAMES.into_iter().find(|(_, name)| *name == plain);
        named.map(|(mode, _)| mode).ok_or_else(|| {
            let sentence =
                format!("invalid value {text:?} for the sandbox; expected required, best-effort or off");
            SkillError::new(ErrorKind::Usage, sentence)
        })
    }
}

impl fmt::Display for SandboxMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<ParseLevelError> for SkillError {
    fn from(error: ParseLevelError) -> Self {
        Self::new(ErrorKind::Usage, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_is_written() {
        for mode in SandboxMode::all() {
            assert_eq!(mode.name().parse::<SandboxMode>().unwrap(), mode);
        }
        assert_eq!("best_effort".parse::<SandboxMode>().unwrap(), SandboxMode::BestEffort);
        assert_eq!("none".parse::<SandboxMode>().unwrap_err().kind(), ErrorKind::Usage);
    }
}
