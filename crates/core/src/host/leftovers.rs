//! What a run leaves in the folders that are thrown away after it: its home and its `/tmp`.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::error::{ErrorKind, SkillError};

/// A folder of a run that is thrown away after it. In JSON `home` or `tmp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LeftoverPlace {
    /// Its home folder, unless the skill keeps it.
    Home,
    /// Its folder for temporary files: `/tmp` with namespaces, and `TMPDIR`.
    Tmp,
}

/// A path in such a folder, written `tmp:report.svg` or `home:out/report.svg`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftoverPath {
    /// The folder.
    pub place: LeftoverPlace,
    /// The path below it, separated by `/`, without `.` and `..`.
    pub path: String,
}

/// A file that a run left in such a folder; caches of tools are no news.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Leftover {
    /// The folder.
    pub place: LeftoverPlace,
    /// The path below it. That of a folder only if it was copied, or cannot be read.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// The path in the project to which it was copied, because the caller wants that (`Invocation::keep`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_to: Option<String>,
}

/// The most files that one run reports.
pub const MAX_LEFTOVERS: usize = 64;

/// A file of that size that a run left, and that nobody has copied.
pub fn leftover(place: LeftoverPlace, path: String, bytes: u64) -> Leftover {
    Leftover { place, path, bytes, copied_to: None }
}

impl LeftoverPlace {
    /// As it is written: `home` or `tmp`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Tmp => "tmp",
        }
    }
}

impl LeftoverPath {
    /// The last name of the path.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Display for LeftoverPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.place.name(), self.path)
    }
}

impl FromStr for LeftoverPath {
    type Err = SkillError;

    /// `usage` for anything but `tmp:PATH` and `home:PATH` with a path below that folder.
    fn from_str(text: &str) -> Result<Self, SkillError> {
        const MAX_PATH_BYTES: usize = 4096;
        let place = |name: &str| {
            [LeftoverPlace::Home, LeftoverPlace::Tmp].into_iter().find(|place| place.name() == name)
        };
        let read = || {
            let (name, path) = text.split_once(':')?;
            let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
            let is_below = !path.starts_with('/') && !parts.is_empty() && !parts.contains(&"..");
            let is_path = path.len() <= MAX_PATH_BYTES && !path.contains('\0');
            (is_below && is_path).then_some(Self { place: place(name)?, path: parts.join("/") })
        };
        read().ok_or_else(|| {
            let sentence = format!(
                "invalid value {text:?}; expected tmp:PATH or home:PATH, with a path below that folder"
            );
            SkillError::new(ErrorKind::Usage, sentence)
                .with_help("write tmp:report.svg for what the script writes to /tmp/report.svg")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_folder_of_the_run_and_a_file_below_it() {
        for (text, place, path) in [
            ("tmp:report.svg", LeftoverPlace::Tmp, "report.svg"),
            ("home:out//deep/./a:b", LeftoverPlace::Home, "out/deep/a:b"),
            ("home:.config/x", LeftoverPlace::Home, ".config/x"),
        ] {
            assert_eq!(
                text.parse::<LeftoverPath>().unwrap(),
                LeftoverPath { place, path: path.into() },
                "{text}"
            );
        }
        for text in [
            "",
            "report.svg",
            "tmp",
            "tmp:",
            "tmp:.",
            "tmp:/etc/passwd",
            "tmp:../x",
            "home:a/../../b",
            "var:x",
            "tmp:a\0b",
            "TMP:x",
        ] {
            let error = text.parse::<LeftoverPath>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage, "{text:?}");
        }
    }
}
