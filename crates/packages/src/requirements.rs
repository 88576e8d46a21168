//! The packages that one script needs, as its skill declares them: beside nothing else, so that no line of it decides where they come
//! from.

use std::collections::BTreeMap;
use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::declarations::DeclaredRequirements;
use super::npm_manifest::{self, NpmManifest};
use super::requirement::{Requirement, normalize_name};
use super::requirements_file::{self, LineError, at_line, folders_above};
use super::toml_text;
use super::version_range::VersionRange;
use metier_core::byte_order_mark::without_mark;
use metier_core::error::{ErrorKind, Result, SkillError};

/// Stands for the file of the skill where a person adds packages.
const ADDED_SOURCE: &str = "the user";

/// Whose packages they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecosystem {
    /// Packages of `PyPI`, prepared by uv.
    Python,
    /// Packages of npm, prepared by npm.
    Npm,
}

/// The packages that a script needs, and where its skill says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirements {
    /// The path of the file in the skill.
    pub source: String,
    content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Python { requirements: Vec<Requirement>, requires_python: Option<String> },
    Npm(NpmManifest),
}

impl Requirements {
    /// The languages whose packages are prepared, by the names of the programs that run their scripts.
    pub fn ecosystem_of_program(program: &str) -> Option<Ecosystem> {
        let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        match plain {
            "python" => Some(Ecosystem::Python),
            "node" | "nodejs" => Some(Ecosystem::Npm),
            _ => None,
        }
    }

    /// Finds what a script needs: in its own block, or in the nearest file of its folder or one above, up to the skill's. `read` gives
    /// the content of a file of the skill, or nothing.
    pub fn of_script(
        ecosystem: Ecosystem,
        path: &str,
        source: &[u8],
        read: impl Fn(&str, u64) -> Result<Option<Vec<u8>>>,
    ) -> Result<Option<Self>> {
        let text_of = |name: &str| -> Result<Option<String>> {
            let Some(bytes) = read(name, requirements_file::MAX_BYTES)? else { return Ok(None) };
            let is_no_text = |_| at_line(name, LineError { line: 1, reason: "it is not UTF-8".into() });
            String::from_utf8(bytes).map(Some).map_err(is_no_text)
        };
        if ecosystem == Ecosystem::Npm {
            return npm_manifest::find(path, &read, text_of).map(|found| {
                found.map(|(source, manifest)| Self { source, content: Content::Npm(manifest) })
            });
        }
        if let Some(block) = script_block(source) {
            let found = block.and_then(|(line, text)| {
                let shifted = |error: LineError| LineError { line: error.line + line, ..error };
                let declared = toml_text::read_script_block(&text).map_err(shifted)?;
                Self::python(path, declared).map_err(shifted)
            });
            return found.map(Some).map_err(|error| at_line(path, error));
        }
        for folder in folders_above(path) {
            let name = format!("{folder}requirements.txt");
            if let Some(text) = text_of(&name)? {
                let requirements = requirements_file::parse(&text).map_err(|error| at_line(&name, error))?;
                let content = Content::Python { requirements, requires_python: None };
                return Ok(Some(Self { source: name, content }));
            }
            let name = format!("{folder}pyproject.toml");
            if let Some(text) = text_of(&name)? {
                let declared = toml_text::read_pyproject(&text).map_err(|error| at_line(&name, error))?;
                if let Some(declared) = declared {
                    return Self::python(&name, declared).map(Some).map_err(|error| at_line(&name, error));
                }
            }
        }
        Ok(None)
    }

    /// The packages of Python that a person adds; `usage` for anything but a package with versions.
    pub(crate) fn of_added_python<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let parse = |line: &str| Requirement::parse(line).map_err(|reason| unusable_addition(&reason));
        let requirements = lines.into_iter().map(parse).collect::<Result<_>>()?;
        let content = Content::Python { requirements, requires_python: None };
        Ok(Self { source: ADDED_SOURCE.to_owned(), content })
    }

    /// The same of npm: the names with their ranges.
    pub(crate) fn of_added_npm(ranges: &BTreeMap<String, String>) -> Result<Self> {
        let manifest = NpmManifest::of_ranges(ranges).map_err(|reason| unusable_addition(&reason))?;
        Ok(Self { source: ADDED_SOURCE.to_owned(), content: Content::Npm(manifest) })
    }

    fn python(source: &str, declared: DeclaredRequirements) -> Result<Self, LineError> {
        if declared.dependencies.len() > requirements_file::MAX_REQUIREMENTS {
            return Err(LineError { line: 1, reason: "there are too many dependencies".into() });
        }
        let parse = |(line, text): (usize, String)| {
            let parsed = Requirement::parse(&text).map_err(|reason| LineError { line, reason })?;
            Ok(parsed)
        };
        let requirements = declared.dependencies.into_iter().map(parse).collect::<Result<_, LineError>>()?;
        let content = Content::Python { requirements, requires_python: declared.requires_python };
        Ok(Self { source: source.to_owned(), content })
    }

    /// Where the packages come from.
    pub fn ecosystem(&self) -> Ecosystem {
        match self.content {
            Content::Python { .. } => Ecosystem::Python,
            Content::Npm(_) => Ecosystem::Npm,
        }
    }

    /// Whether nothing is needed.
    pub fn is_empty(&self) -> bool {
        match &self.content {
            Content::Python { requirements, .. } => requirements.is_empty(),
            Content::Npm(manifest) => manifest.is_empty(),
        }
    }

    /// `package.json` and its lock, for packages of npm.
    pub fn npm_manifest(&self) -> Option<&NpmManifest> {
        match &self.content {
            Content::Npm(manifest) => Some(manifest),
            Content::Python { .. } => None,
        }
    }

    /// Whether this package is among those that are named.
    pub(crate) fn declares(&self, package: &str) -> bool {
        match &self.content {
            Content::Python { requirements, .. } => {
                requirements.iter().any(|requirement| requirement.name == normalize_name(package))
            }
            Content::Npm(manifest) => manifest
                .names()
                .iter()
                .any(|name| name.rsplit_once('@').is_some_and(|(name, _)| name == package)),
        }
    }

    /// The packages as they are required, such as `requests>=2`.
    pub fn names(&self) -> Vec<String> {
        match &self.content {
            Content::Python { requirements, .. } => {
                requirements.iter().map(|requirement| requirement.text.clone()).collect()
            }
            Content::Npm(manifest) => manifest.names(),
        }
    }

    /// The requirements as the only lines of a file, without hashes.
    pub fn python_lines(&self) -> String {
        let Content::Python { requirements, .. } = &self.content else { return String::new() };
        requirements.iter().fold(String::new(), |text, requirement| text + requirement.text.as_str() + "\n")
    }

    /// Fails if this version of Python is none that is required.
    pub fn check_python(&self, version: &str) -> Result<()> {
        let Content::Python { requires_python: Some(range), .. } = &self.content else { return Ok(()) };
        match VersionRange::parse(range).and_then(|range| range.contains(version)) {
            Some(true) => Ok(()),
            Some(false) => {
                let sentence = format!(
                    "{} needs Python {range}, and the Python that would run it is {version}",
                    self.source
                );
                Err(SkillError::new(ErrorKind::Unavailable, sentence)
                    .with_help("put a Python of one of these versions first on PATH"))
            }
            None => {
                let sentence = format!("{}: requires-python is not a range of versions", self.source);
                Err(SkillError::new(ErrorKind::InvalidSkill, sentence))
            }
        }
    }

    /// A lock with hashes, restricted to the files that the author accepts; `invalid-skill` where the lock has none of them, or where a
    /// line of it is none that a lock has.
    pub fn restrict_lock(&self, lock: &str) -> Result<String> {
        let Content::Python { requirements, .. } = &self.content else { return Ok(lock.to_owned()) };
        let locked = requirements_file::parse(lock).map_err(|LineError { line, reason }| {
            SkillError::new(
                ErrorKind::Unavailable,
                format!("the lock of uv has an unusable line {line}: {reason}"),
            )
        })?;
        let mut text = String::new();
        for mut package in locked {
            let accepted: Vec<&String> = requirements
                .iter()
                .filter(|requirement| normalize_name(&requirement.name) == package.name)
                .flat_map(|requirement| &requirement.hashes)
                .collect();
            if !accepted.is_empty() {
                package.hashes.retain(|hash| accepted.contains(&hash));
            }
            if package.hashes.is_empty() {
                let sentence = format!(
                    "{} does not match the registry: no file of {} has a hash that it lists",
                    self.source, package.text
                );
                return Err(SkillError::new(ErrorKind::InvalidSkill, sentence)
                    .with_help("the file of the registry is not the one that the author saw; do not use it before you know why"));
            }
            let _ = write!(text, "{}", package.text);
            for hash in &package.hashes {
                let _ = write!(text, " --hash={hash}");
            }
            text.push('\n');
        }
        Ok(text)
    }

    /// What tells these requirements from others, wherever they are declared.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        let mut add = |text: &str| {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        };
        match &self.content {
            Content::Python { requirements, requires_python } => {
                add("python 1");
                add(requires_python.as_deref().unwrap_or_default());
                for requirement in requirements {
                    add(&requirement.text);
                    requirement.hashes.iter().for_each(|hash| add(hash));
                }
            }
            Content::Npm(manifest) => {
                add("npm 1");
                add(&manifest.package);
                add(manifest.lock.as_deref().unwrap_or_default());
            }
        }
        digest.finalize().into()
    }
}

fn unusable_addition(reason: &str) -> SkillError {
    SkillError::new(ErrorKind::Usage, format!("the package cannot be added: {reason}"))
        .with_help("name a package with versions, such as `NAME==1.0`, and one of npm `NAME@1.0`")
}

/// The text of the block `/// script` of a Python script, and how many lines stand before it.
pub(super) fn script_block(source: &[u8]) -> Option<Result<(usize, String), LineError>> {
    const MAX_SCRIPT: usize = 1 << 20;
    let text = String::from_utf8_lossy(&source[..source.len().min(MAX_SCRIPT)]);
    let lines: Vec<&str> = without_mark(&text).lines().map(str::trim_end).collect();
    let mut starts = (0..lines.len()).filter(|index| lines[*index] == "# /// script");
    let start = starts.next()?;
    let inner = lines[start + 1..].iter().take_while(|line| line.starts_with('#'));
    let block: Vec<&str> = inner.copied().collect();
    let error = |line, reason: &str| Some(Err(LineError { line, reason: reason.to_owned() }));
    // The last line of this form ends it, for TOML may have such lines in its comments.
    let Some(end) = block.iter().rposition(|line| *line == "# ///") else {
        return error(start + 1, "the block `/// script` is not closed by `///`");
    };
    if let Some(second) = starts.find(|second| *second > start + 1 + end) {
        return error(second + 1, "there are two blocks `/// script`");
    }
    let content = block[..end].iter().map(|line| match line.strip_prefix("# ") {
        Some(content) => content,
        None => &line[1..],
    });
    Some(Ok((start + 1, content.collect::<Vec<_>>().join("\n"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(path: &str, source: &str, files: &[(&str, &str)]) -> Result<Option<Requirements>> {
        let read = |name: &str, _: u64| {
            Ok(files.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_bytes().to_vec()))
        };
        Requirements::of_script(Ecosystem::Python, path, source.as_bytes(), read)
    }

    #[test]
    fn the_block_of_a_script_comes_before_the_files_above_it() {
        if cfg!(not(feature = "config")) {
            // Such a build reads no TOML.
            return;
        }
        let block = "#!/usr/bin/env python3\n# /// script\n# requires-python = \">=3.8\"\n# dependencies = [\n#   \"rich\",\n# ]\n# ///\nimport rich\n";
        let files = [("requirements.txt", "six\n"), ("scripts/requirements.txt", "attrs\n")];
        let found = find("scripts/a.py", block, &files).unwrap().unwrap();
        assert_eq!((found.source.as_str(), found.python_lines().as_str()), ("scripts/a.py", "rich\n"));
        let marked = format!("\u{feff}{}", block.trim_start_matches("#!/usr/bin/env python3\n"));
        assert_eq!(find("scripts/a.py", &marked, &files).unwrap().unwrap().python_lines(), "rich\n");
        assert!(found.check_python("3.11.7").is_ok() && found.check_python("3.7").is_err());
        let near = find("scripts/a.py", "import attrs", &files).unwrap().unwrap();
        assert_eq!(
            (near.source.as_str(), near.python_lines().as_str()),
            ("scripts/requirements.txt", "attrs\n")
        );
        let above = find("scripts/x/a.py", "", &files[..1]).unwrap().unwrap();
        assert_eq!(above.python_lines(), "six\n");
        let project = [("pyproject.toml", "[project]\ndependencies = [\"six\"]")];
        assert_eq!(find("a.py", "", &project).unwrap().unwrap().source, "pyproject.toml");
        assert_eq!(find("a.py", "", &[]).unwrap(), None);
    }

    #[test]
    fn an_error_in_a_block_has_the_line_of_the_script() {
        if cfg!(not(feature = "config")) {
            // Such a build reads no TOML.
            return;
        }
        for (source, line, words) in [
            (
                "#!x\n# /// script\n# dependencies = [\n#   \"a @ https://evil.example\",\n# ]\n# ///",
                4,
                "is an address",
            ),
            ("# /// script\n# dependencies = []\n# [tool.uv]\n# ///", 3, "[tool.uv]"),
            ("# /// script\n# dependencies = []\n", 1, "is not closed"),
            ("# /// script\n# ///\n\n# /// script\n# ///", 4, "two blocks"),
            ("# /// script\n# dependencies = [\n# ///", 2, "valid TOML"),
        ] {
            let error = find("a.py", source, &[]).unwrap_err();
            let at = error.location().and_then(|location| location.line);
            assert!(error.message().contains(words) && at == Some(line), "{source}: {error} {at:?}");
        }
    }

    #[test]
    fn a_lock_is_restricted_to_the_hashes_of_the_author() {
        let (one, two) = ("1".repeat(64), "2".repeat(64));
        let written = format!("six --hash=sha256:{one}\nrich");
        let found = find("a.py", "", &[("requirements.txt", &written)]).unwrap().unwrap();
        let lock = format!(
            "Six==1 \\\n    --hash=sha256:{one} \\\n    --hash=sha256:{two}\nrich==2 --hash=sha256:{two}\n"
        );
        let restricted = format!("Six==1 --hash=sha256:{one}\nrich==2 --hash=sha256:{two}\n");
        assert_eq!(found.restrict_lock(&lock).unwrap(), restricted);
        let other = format!("six==1 --hash=sha256:{two}\n");
        assert!(found.restrict_lock(&other).unwrap_err().message().contains("does not match"));
        assert!(found.restrict_lock("six==1\n").is_err(), "a lock without hashes");
        assert!(found.restrict_lock("--index-url https://evil.example\n").is_err());
    }

    #[test]
    fn the_same_requirements_have_one_digest_wherever_they_stand() {
        let of = |text: &str, path: &str| find("a/b.py", "", &[(path, text)]).unwrap().unwrap().digest();
        let plain = of("six\nrich\n", "requirements.txt");
        assert_eq!(plain, of("# comment\nsix\n\nrich", "a/requirements.txt"));
        for other in
            ["six\n", "sixrich\n", "rich\nsix\n", &format!("six --hash=sha256:{}\nrich", "1".repeat(64))]
        {
            assert_ne!(plain, of(other, "requirements.txt"), "{other}");
        }
    }
}
