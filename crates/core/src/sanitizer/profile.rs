//! Further changes that a contract or a configuration requests of what a model reads.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::{ErrorKind, SkillError};

/// What is changed besides secrets and characters that nobody sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SanitizeProfile {
    /// As Curia documents it: tags that imitate a role are taken out, the texts of a value have at most 10,000 characters together, and
    /// the sentence of an error stands in `<tool_error>`.
    Curia,
}

impl SanitizeProfile {
    /// Its name in contracts and configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Curia => "curia",
        }
    }
}

impl fmt::Display for SanitizeProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for SanitizeProfile {
    type Err = SkillError;

    fn from_str(name: &str) -> Result<Self, SkillError> {
        match name {
            "curia" => Ok(Self::Curia),
            _ => Err(SkillError::new(ErrorKind::Usage, format!("invalid value {name:?}; expected curia"))),
        }
    }
}

impl Serialize for SanitizeProfile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
