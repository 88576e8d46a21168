//! The versions of its interpreter with which a script runs: Node leaves out the types of TypeScript since 22.18 and 23.6, and a script
//! of Python may name versions.

use std::path::Path;

use semver::Version;

use metier_core::error::{ErrorKind, SkillError};
use metier_packages::RequiredPython;

/// The file extensions of scripts that Node runs since those versions.
const EXTENSIONS: [&str; 3] = ["ts", "mts", "cts"];

/// The first version of each line that does. Later lines do from their first version on.
const FIRST_VERSIONS: [(u64, u64); 2] = [(22, 18), (23, 6)];

/// The releases of Python 3 that are looked for by their own names, such as `python3.13`.
const PYTHON_RELEASES: std::ops::RangeInclusive<u64> = 8..=30;

/// What a script requires of the version of its interpreter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequiredVersion {
    is_typescript: bool,
    /// The versions that its skill names, if Python runs it.
    pub(crate) python: Option<RequiredPython>,
}

impl RequiredVersion {
    /// What the extension of a script requires.
    pub(crate) fn of_script(path: &str) -> Self {
        let is_typescript = path.rsplit_once('.').is_some_and(|(_, extension)| {
            EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known))
        });
        Self { is_typescript, python: None }
    }

    /// Whether the version of this program decides.
    pub(crate) fn concerns(&self, program: &Path) -> bool {
        self.python.is_some() || self.is_typescript && is_node(program)
    }

    /// Whether this version of a program that it concerns runs the script.
    pub fn accepts(&self, version: &Version) -> bool {
        match &self.python {
            Some(python) => python.versions.contains(&version.to_string()).unwrap_or(true),
            None => !is_too_old((version.major, version.minor)),
        }
    }

    /// Why this version of the program does not run the script.
    pub(crate) fn error(&self, script: &str, program: &Path, version: &Version) -> SkillError {
        let path = program.display();
        let Some(RequiredPython { versions, source }) = &self.python else {
            let sentence = format!(
                "{script} is TypeScript, which Node runs from version 22.18 on, and {path} is v{version}"
            );
            return SkillError::new(ErrorKind::Unavailable, sentence).with_help(
                "install Node 22.18 or later, deno, bun or tsx, and put its folder first on PATH",
            );
        };
        let name = program.file_name().unwrap_or_default().display();
        let sentence = format!("{script} needs Python {versions}, and {name} is {version} ({path})");
        SkillError::new(ErrorKind::Unavailable, sentence).with_help(format!(
            "install a Python that fits: a python3 or python3.N on PATH that does is used; {source} names the versions"
        ))
    }

    /// The names of the releases of Python that may fit, newest first.
    pub fn python_names(&self) -> impl Iterator<Item = String> {
        let versions = self.python.as_ref().map(|python| &python.versions);
        let may_fit = move |minor: &u64| {
            let contains = |release: String| versions.and_then(|versions| versions.contains(&release));
            contains(format!("3.{minor}.0")) == Some(true) || contains(format!("3.{minor}.99")) == Some(true)
        };
        PYTHON_RELEASES.rev().filter(may_fit).map(|minor| format!("python3.{minor}"))
    }
}

fn is_node(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name == "node" || name == "nodejs")
}

fn is_too_old(version: (u64, u64)) -> bool {
    let of_line = FIRST_VERSIONS.into_iter().find(|(line, _)| *line == version.0);
    version < of_line.unwrap_or(FIRST_VERSIONS[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_does_not_run_typescript_is_refused_with_its_version() {
        let required = RequiredVersion::of_script("scripts/a.mts");
        for old in ["20.20.2", "22.17.1", "23.5.0", "4.0.0"] {
            let version = Version::parse(old).unwrap();
            assert!(!required.accepts(&version), "{old}");
            let error = required.error("scripts/a.mts", Path::new("/usr/bin/node"), &version);
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.message().ends_with(&format!("and /usr/bin/node is v{old}")), "{error}");
            assert!(error.help().unwrap().contains("22.18"));
        }
        for new in ["22.18.0", "23.6.0", "24.0.0", "100.1.2"] {
            assert!(required.accepts(&Version::parse(new).unwrap()), "{new}");
        }
    }

    #[test]
    fn only_typescript_in_node_depends_on_the_version() {
        let concerns = |script, program| RequiredVersion::of_script(script).concerns(Path::new(program));
        assert!(concerns("scripts/a.ts", "/usr/bin/node") && concerns("a.CTS", "nodejs"));
        assert!(!concerns("a.js", "/usr/bin/node") && !concerns("a.ts", "/usr/bin/deno"));
        assert!(!concerns("ts", "/usr/bin/node") && !concerns("a.tsx", "/usr/bin/node"));
    }
}
