//! The versions of Python that a skill names for a script.

use super::requirements::script_block;
use super::requirements_file::{self, folders_above};
use super::toml_text;
use super::version_range::VersionRange;
use metier_core::error::Result;

/// The versions of Python that a script runs with, and the file of the skill that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredPython {
    /// The versions.
    pub versions: VersionRange,
    /// The path of the file in the skill.
    pub source: String,
}

impl RequiredPython {
    /// The `requires-python` of the script's own block `/// script`, or else of the nearest `pyproject.toml` in its folder or one above,
    /// up to the skill's. `read` gives the content of a file of the skill, or nothing. What cannot be read requires nothing: only the
    /// preparation of packages refuses it.
    pub fn of_script(
        path: &str,
        source: &[u8],
        read: impl Fn(&str, u64) -> Result<Option<Vec<u8>>>,
    ) -> Option<Self> {
        let required = |range: String, source: &str| {
            let versions = VersionRange::parse(&range).filter(|versions| !versions.is_empty())?;
            Some(Self { versions, source: source.to_owned() })
        };
        let of_line = || required(python_of_first_line(source)?, path);
        if let Some(block) = script_block(source) {
            let of_block = block.ok().and_then(|block| toml_text::read_script_python(&block.1));
            return of_block.and_then(|range| required(range, path)).or_else(of_line);
        }
        if let Some(required) = of_line() {
            return Some(required);
        }
        folders_above(path).find_map(|folder| {
            let name = format!("{folder}pyproject.toml");
            let text = String::from_utf8(read(&name, requirements_file::MAX_BYTES).ok()??).ok()?;
            required(toml_text::read_project_python(&text)?, &name)
        })
    }
}

/// The versions that `uv` is told in the first line of a script: `#!/usr/bin/env -S uv run --python 3.12 --script`.
fn python_of_first_line(source: &[u8]) -> Option<String> {
    const MAX_LINE_BYTES: usize = 4096;
    let line = source.split(|byte| *byte == b'\n').next().filter(|line| line.len() <= MAX_LINE_BYTES)?;
    let mut words = std::str::from_utf8(line).ok()?.strip_prefix("#!")?.split_whitespace();
    words.find(|word| word.rsplit('/').next() == Some("uv"))?;
    let mut version = None;
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some(("--python", value)) => version = Some(value),
            None if matches!(word, "--python" | "-p") => version = words.next(),
            _ => {}
        }
    }
    let version = version?.trim_matches(['"', '\'']);
    let parts: Vec<&str> = version.split('.').collect();
    let is_release =
        parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    match parts.len() {
        1 | 2 if is_release => Some(format!("=={version}.*")),
        3 if is_release => Some(format!("=={version}")),
        _ => version.starts_with(['=', '>', '<', '~', '!']).then(|| version.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(path: &str, source: &str, files: &[(&str, &str)]) -> Option<(String, String)> {
        let read = |name: &str, _: u64| {
            Ok(files.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_bytes().to_vec()))
        };
        let found = RequiredPython::of_script(path, source.as_bytes(), read)?;
        Some((found.versions.to_string(), found.source))
    }

    #[test]
    fn the_first_line_names_a_version_for_uv() {
        for (line, versions) in [
            ("#!/usr/bin/env -S uv run --python 3.12 --script", Some("==3.12.*")),
            ("#!/usr/bin/env -S uv run --script -p 3.11.4", Some("==3.11.4")),
            ("#!/usr/bin/env -S uv run --python=>=3.10", Some(">=3.10")),
            ("#!/usr/bin/env -S uv run --script", None),
            ("#!/usr/bin/env -S uv run --python pypy", None),
            ("#!/usr/bin/env -S python3 -p 3.12", None),
        ] {
            let found =
                required("scripts/x.py", &format!("{line}\nprint()\n"), &[]).map(|(versions, _)| versions);
            assert_eq!(found.as_deref(), versions, "{line}");
        }
    }

    #[test]
    fn a_block_or_else_the_nearest_project_names_the_versions() {
        let block = |lines: &str| format!("# /// script\n{lines}# ///\n");
        let projects = [
            ("pyproject.toml", "[project]\nname = 'x'\nrequires-python = '>=3.12'"),
            ("scripts/pyproject.toml", "[tool.ruff]\nline-length = 100"),
            (
                "scripts/a/pyproject.toml",
                "[project]\nrequires-python = '==3.11.*'\ndynamic = ['dependencies']",
            ),
        ];
        let found = |versions: &str, source: &str| Some((versions.to_owned(), source.to_owned()));
        for (path, source, expected) in [
            ("scripts/x.py", block("# requires-python = \">=3.13\"\n"), found(">=3.13", "scripts/x.py")),
            ("scripts/x.py", block("# dependencies = []\n"), None),
            (
                "scripts/x.py",
                format!("\u{feff}{}", block("# requires-python = \">=3.13\"\n")),
                found(">=3.13", "scripts/x.py"),
            ),
            (
                "scripts/x.py",
                block("# requires-python = \">=3.13\"\n").replace('\n', "\r\n"),
                found(">=3.13", "scripts/x.py"),
            ),
            (
                "scripts/x.py",
                block("# requires-python = \">=3.9\"\n# [tool.uv]\n"),
                found(">=3.9", "scripts/x.py"),
            ),
            ("scripts/x.py", block("# requires-python = \"^3.9\"\n"), None),
            ("scripts/x.py", block("# requires-python = \">=3.13 || >=3.11\"\n"), None),
            ("scripts/x.py", block("# requires-python = 3\n"), None),
            ("scripts/x.py", block("# requires-python = \"\"\n"), None),
            ("scripts/x.py", "# /// script\n# requires-python = '>=3.9'\n".to_owned(), None),
            ("scripts/x.py", String::new(), found(">=3.12", "pyproject.toml")),
            ("scripts/a/x.py", String::new(), found("==3.11.*", "scripts/a/pyproject.toml")),
        ] {
            // Builds without that feature read no TOML.
            let expected = expected.filter(|_| cfg!(feature = "config"));
            assert_eq!(required(path, &source, &projects), expected, "{path} {source}");
        }
        assert_eq!(required("x.py", "", &[("pyproject.toml", "project = [")]), None);
        assert_eq!(required("x.py", "", &[]), None);
        let marked = [("pyproject.toml", "\u{feff}[project]\nname = 'x'\nrequires-python = '>=3.12'")];
        assert_eq!(required("x.py", "", &marked).is_some(), cfg!(feature = "config"));
    }
}
