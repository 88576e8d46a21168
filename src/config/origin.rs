//! Where a value of the configuration comes from.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Where a value of the configuration comes from.
///
/// In JSON: `{kind, file, line, name}`, without the parts that it does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ValueOrigin {
    /// Nobody set it.
    Default,
    /// The configuration file of the user.
    User {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u32,
    },
    /// The configuration file of the project.
    Project {
        /// The file, relative to the project.
        file: PathBuf,
        /// The line, from 1.
        line: u32,
    },
    /// An environment variable.
    Environment {
        /// Its name.
        name: String,
    },
    /// The program that embeds metier.
    Program,
    /// An option of the command line.
    Flag {
        /// Its name.
        name: String,
    },
}

impl ValueOrigin {
    /// Whether it is the file of the project.
    pub fn is_project(&self) -> bool {
        matches!(self, Self::Project { .. })
    }

    /// Of two values for one key the one with the higher rank counts.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::User { .. } => 1,
            Self::Project { .. } => 2,
            Self::Environment { .. } => 3,
            Self::Program => 4,
            Self::Flag { .. } => 5,
        }
    }
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::User { file, line } | Self::Project { file, line } => {
                write!(f, "{}:{line}", file.display())
            }
            Self::Environment { name } => write!(f, "environment variable {name}"),
            Self::Program => f.write_str("program"),
            Self::Flag { name } => f.write_str(name),
        }
    }
}
