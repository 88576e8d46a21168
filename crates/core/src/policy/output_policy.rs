//! What happens when a process exceeds its output cap.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::{ErrorKind, SkillError};

/// What happens when an output stream of a process reaches the cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutputPolicy {
    /// The process is killed, and the run fails with `output`.
    #[default]
    Kill,
    /// The process continues; output beyond the cap is counted and discarded. The kept part of standard output is then treated as
    /// text, even if it began as JSON, and is the value.
    Truncate,
}

/// In the order of the enum.
const NAMES: [(OutputPolicy, &str); 2] = [(OutputPolicy::Kill, "kill"), (OutputPolicy::Truncate, "truncate")];

impl Serialize for OutputPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl OutputPolicy {
    /// All policies.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.into_iter().map(|(policy, _)| policy)
    }

    /// The name, as in `--on-output truncate`.
    pub const fn name(self) -> &'static str {
        NAMES[self as usize].1
    }
}

impl FromStr for OutputPolicy {
    type Err = SkillError;

    /// Parses the name; any other text is a `usage` error.
    fn from_str(text: &str) -> Result<Self, SkillError> {
        let named = NAMES.into_iter().find(|(_, name)| *name == text);
        named.map(|(policy, _)| policy).ok_or_else(|| {
            let known = NAMES.map(|(_, name)| name).join(" or ");
            let sentence = format!("invalid value {text:?} for too much output; expected {known}");
            SkillError::new(ErrorKind::Usage, sentence)
        })
    }
}

impl fmt::Display for OutputPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_is_written() {
        for policy in OutputPolicy::all() {
            assert_eq!(policy.name().parse::<OutputPolicy>().unwrap(), policy);
        }
        assert_eq!("drop".parse::<OutputPolicy>().unwrap_err().kind(), ErrorKind::Usage);
    }
}
