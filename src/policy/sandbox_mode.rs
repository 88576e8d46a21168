//! How firmly a process must be held before it may start, and by what.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{ErrorKind, SkillError};

/// What the caller wants of the sandbox around external scripts. Embedded languages reach nothing but the host API anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SandboxMode {
    /// Files outside the project, the network and the end of the whole tree must be enforced, or nothing starts:
    /// `sandbox-unavailable`.
    #[default]
    Required,
    /// What this machine can enforce is enforced; the outcome says what that was.
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

impl SandboxMode {
    /// Every word there is.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.into_iter().map(|(isolation, _)| isolation)
    }

    /// The word, as in `--sandbox best-effort`.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }
}

impl FromStr for SandboxMode {
    type Err = SkillError;

    /// Reads the word; another one is a `usage` error. `best_effort` is read as well.
    fn from_str(text: &str) -> Result<Self, SkillError> {
        let plain = text.replace('_', "-");
        let named = NAMES.into_iter().find(|(_, name)| *name == plain);
        named.map(|(isolation, _)| isolation).ok_or_else(|| {
            let known = NAMES.map(|(_, name)| name).join(", ");
            SkillError::new(ErrorKind::Usage, format!("{text:?} says nothing about the sandbox"))
                .with_help(format!("say one of {known}"))
        })
    }
}

impl fmt::Display for SandboxMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The best sandbox to put up; where the machine has less, less is put up, and the outcome says what.
///
/// Lower ones are for comparisons, and for machines that resent namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SandboxLevel {
    /// Namespaces of its own, Landlock, seccomp.
    #[default]
    Namespaces,
    /// Landlock and seccomp.
    Landlock,
    /// The same, where the kernel cannot keep signals inside: a tree is killed generation by generation.
    LandlockUnscoped,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_is_written() {
        for isolation in SandboxMode::all() {
            assert_eq!(isolation.name().parse::<SandboxMode>().unwrap(), isolation);
        }
        assert_eq!("best_effort".parse::<SandboxMode>().unwrap(), SandboxMode::BestEffort);
        assert_eq!("none".parse::<SandboxMode>().unwrap_err().kind(), ErrorKind::Usage);
    }
}
