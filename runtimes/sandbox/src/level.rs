//! The sandbox levels.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The highest sandbox level to use; if the machine supports less, a lower level is used, and the report says so.
///
/// Lower levels are for comparisons, and for machines where namespaces cause problems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SandboxLevel {
    /// Namespaces of its own, Landlock, seccomp.
    #[default]
    Namespaces,
    /// Landlock and seccomp.
    Landlock,
    /// Landlock and seccomp, without signal restrictions in the kernel: a tree is killed generation by generation.
    LandlockUnscoped,
}

/// In the order of the enum.
const NAMES: [(SandboxLevel, &str); 3] = [
    (SandboxLevel::Namespaces, "namespaces"),
    (SandboxLevel::Landlock, "landlock"),
    (SandboxLevel::LandlockUnscoped, "landlock-unscoped"),
];

impl SandboxLevel {
    /// The name, as in a configuration.
    pub const fn name(self) -> &'static str {
        NAMES[self as usize].1
    }
}

impl FromStr for SandboxLevel {
    type Err = ParseLevelError;

    /// Parses the name.
    fn from_str(text: &str) -> Result<Self, ParseLevelError> {
        let named = NAMES.into_iter().find(|(_, name)| *name == text);
        named.map(|(level, _)| level).ok_or_else(|| ParseLevelError(text.to_owned()))
    }
}

/// A text that names no [`SandboxLevel`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseLevelError(String);

impl fmt::Display for ParseLevelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = NAMES.map(|(_, name)| name).join(", ");
        write!(f, "invalid value {:?} for the sandbox level; expected one of {known}", self.0)
    }
}

impl Error for ParseLevelError {}
