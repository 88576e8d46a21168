//! Where a secret of a run comes from, for records.

use std::fmt;

/// Where a secret comes from. As text it names the place and nothing of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretOrigin {
    /// The provider of the program.
    Provider,
    /// The variable that the skill declares for it.
    DeclaredVariable,
    /// What the configuration names: a variable, a file or a program.
    Configuration(String),
}

impl fmt::Display for SecretOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Provider => f.write_str("provider"),
            Self::DeclaredVariable => f.write_str("declared variable"),
            Self::Configuration(place) => f.write_str(place),
        }
    }
}
