//! A root: a folder in which skills are looked for, and its scope.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

/// The scope of a root; the order is the order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// Named by the caller.
    Explicit,
    /// In the project.
    Project,
    /// Of the user.
    User,
    /// Inside the program that embeds metier.
    Embedded,
    /// Builtin, inside metier.
    Builtin,
}

impl Scope {
    /// The name in qualified names and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Explicit => "explicit",
            Self::Project => "project",
            Self::User => "user",
            Self::Embedded => "embedded",
            Self::Builtin => "builtin",
        }
    }

    /// The scope that a full qualified name begins with.
    pub(super) fn from_qualified_name(name: &str) -> Option<Self> {
        let scopes = [Self::Explicit, Self::Project, Self::User, Self::Embedded, Self::Builtin];
        let (first, _) = name.split_once('/')?;
        scopes.into_iter().find(|scope| scope.name() == first)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A folder of skills.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Root {
    /// Its scope.
    pub scope: Scope,
    /// Its label in qualified names, as in `project/.agents:name`.
    pub label: String,
    /// The folder; it need not exist.
    pub path: PathBuf,
}

impl Root {
    /// A root with that scope and label in that folder.
    pub fn new(scope: Scope, label: impl Into<String>, place: impl Into<PathBuf>) -> Self {
        Self { scope, label: label.into(), path: place.into() }
    }
}
