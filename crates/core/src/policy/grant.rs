//! Who granted a permission to a run.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::policy::{Permission, Timestamp};

/// Who granted a permission to a run. In JSON the key `origin` has its name in lower case, beside the fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "origin", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum GrantOrigin {
    /// The caller, for this run.
    Caller,
    /// The user, in an earlier answer that the trust store remembers.
    Remembered {
        /// When it was granted.
        since: Timestamp,
        /// Whether it was granted for all projects.
        everywhere: bool,
        /// What recorded it, such as a command.
        by: String,
    },
    /// The approver, during the run.
    Approver,
    /// The user, in a configuration file.
    Configuration {
        /// The file.
        #[serde(serialize_with = "as_shown_path")]
        file: PathBuf,
    },
}

/// A permission that was granted to a run, and who did it. In JSON: `{permission, origin}` and the fields of the origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GrantReport {
    /// The permission.
    pub permission: Permission,
    /// Who granted it.
    #[serde(flatten)]
    pub origin: GrantOrigin,
}

impl GrantReport {
    /// A permission that this origin granted.
    pub fn new(permission: Permission, origin: GrantOrigin) -> Self {
        Self { permission, origin }
    }
}

/// Not every path is text, and no report may fail for that.
fn as_shown_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_a_grant_names_its_origin_beside_the_permission() {
        let since: Timestamp = "2026-11-24T08:30:00Z".parse().unwrap();
        let remembered = GrantOrigin::Remembered { since, everywhere: false, by: "metier allow".into() };
        let file = GrantOrigin::Configuration { file: "/home/me/config.toml".into() };
        for (origin, expected) in [
            (GrantOrigin::Caller, r#"{"permission":"write:out","origin":"caller"}"#),
            (
                remembered,
                r#"{"permission":"write:out","origin":"remembered","since":"2026-11-24T08:30:00Z","everywhere":false,"by":"metier allow"}"#,
            ),
            (file, r#"{"permission":"write:out","origin":"configuration","file":"/home/me/config.toml"}"#),
        ] {
            let report = GrantReport::new("write:out".parse().unwrap(), origin);
            assert_eq!(serde_json::to_string(&report).unwrap(), expected);
        }
    }
}
