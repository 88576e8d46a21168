//! The versions of programs that skills need: a program is asked in a sandbox, and once as long as its file stays the same.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use semver::Version;

use crate::host::untrusted::UntrustedDirs;
use crate::runtimes::external::interpreter::path::{find_on_path, search_path};
use crate::runtimes::external::interpreter::version::{DEFAULT_ARGUMENTS, query_output};
use crate::runtimes::external::policy;
use crate::runtimes::external::services::ExternalServices;
use crate::runtimes::external::version_cache::Query;
use crate::runtimes::program_version::ProgramVersion;

/// The most time for one program.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Whether programs that only the user can change are started without a sandbox, in builds that have none.
const HAS_SANDBOX: bool = cfg!(all(feature = "sandboxed", target_os = "linux"));

/// The version of the first program of that name on `PATH`. With arguments it is asked with these; otherwise as most programs are.
pub(crate) fn program_version(
    services: &ExternalServices,
    project: &Path,
    name: &str,
    arguments: &[String],
) -> ProgramVersion {
    let program =
        Some(name).filter(|name| !name.contains('/')).and_then(|name| find_on_path(name, &search_path()));
    let Some(query) = program.and_then(|program| Query::new(program, arguments)) else {
        return ProgramVersion::Absent;
    };
    let untrusted = UntrustedDirs::new(services.folders().iter().map(PathBuf::as_path).chain([project]));
    services.version_cache.version(query, |query| ask(query, services, &untrusted))
}

/// Starts the program. One that somebody else may have changed is never started without a sandbox, and without one a skill has no
/// say in the arguments.
fn ask(query: &Query, services: &ExternalServices, untrusted: &UntrustedDirs) -> Option<Version> {
    if !HAS_SANDBOX && (untrusted.may_control(&query.program) || !query.arguments.is_empty()) {
        return None;
    }
    let deadline = Instant::now() + TIMEOUT;
    let asked = |arguments: &[String]| {
        let left = deadline.checked_duration_since(Instant::now())?;
        let sandbox =
            HAS_SANDBOX.then(|| (&*services.launcher, policy::version_policy(&query.program, untrusted)));
        let [stdout, stderr] = query_output(&query.program, arguments, left, sandbox)?;
        first_version(&stdout).or_else(|| first_version(&stderr))
    };
    if !query.arguments.is_empty() {
        return asked(&query.arguments);
    }
    DEFAULT_ARGUMENTS.iter().find_map(|argument| asked(&[(*argument).to_owned()]))
}

/// The first part of a text that looks like a version: numbers with dots between them, with what follows a `-` where it means a
/// version before a release; or else the first number of the first line.
fn first_version(text: &str) -> Option<Version> {
    let dotted = number_starts(text).find_map(|at| dotted_version(&text[at..]));
    dotted.or_else(|| {
        let line = text.lines().find(|line| !line.trim().is_empty())?;
        let at = number_starts(line).next()?;
        let (major, _) = leading_number(&line[at..])?;
        Some(Version::new(major, 0, 0))
    })
}

/// Where numbers begin that continue no other number.
fn number_starts(text: &str) -> impl Iterator<Item = usize> {
    let is_part = |before: Option<u8>| before.is_some_and(|byte| byte.is_ascii_digit() || byte == b'.');
    let bytes = text.as_bytes();
    (0..bytes.len()).filter(move |&at| {
        bytes[at].is_ascii_digit() && !is_part(at.checked_sub(1).map(|before| bytes[before]))
    })
}

fn leading_number(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// `1.2`, `1.2.3` or `1.2.3-rc.1` at the beginning of a text.
fn dotted_version(text: &str) -> Option<Version> {
    let (major, rest) = leading_number(text)?;
    let (minor, rest) = leading_number(rest.strip_prefix('.')?)?;
    let patch = rest.strip_prefix('.').and_then(leading_number);
    let (patch, rest) = patch.unwrap_or((0, rest));
    let mut version = Version::new(major, minor, patch);
    if let Some(rest) = rest.strip_prefix('-') {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-');
        let part = rest.split(|letter| !is_part(letter)).next().unwrap_or_default();
        let is_before_release =
            ["alpha", "beta", "rc", "pre", "dev", "nightly", "canary", "snapshot", "SNAPSHOT"]
                .iter()
                .any(|word| part.starts_with(word));
        if is_before_release {
            version.pre = semver::Prerelease::new(part).unwrap_or_default();
        }
    }
    Some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_program_is_the_first_token_that_looks_like_one() {
        for (output, version) in [
            ("git version 2.43.0", "2.43.0"),
            (
                "version.BuildInfo{Version:\"v3.12.0\", GitCommit:\"c9f554d\", GoVersion:\"go1.20.3\"}",
                "3.12.0",
            ),
            ("v3.11.9+g0a1b", "3.11.9"),
            ("Python 3.11", "3.11.0"),
            ("go version go1.21.5 linux/amd64", "1.21.5"),
            ("Version: ImageMagick 7.1.1-15 Q16-HDRI", "7.1.1"),
            ("GNU bash, version 5.2.15(1)-release", "5.2.15"),
            ("git version 2.39.2.windows.1", "2.39.2"),
            ("tool 3.0.0-rc.1", "3.0.0-rc.1"),
            ("jq-1.6", "1.6.0"),
            ("\nless 590 (PCRE2 regular expressions)\nCopyright (C) 1984-2021", "590.0.0"),
        ] {
            assert_eq!(
                first_version(output).map(|found| found.to_string()).as_deref(),
                Some(version),
                "{output}"
            );
        }
        for output in ["", "no version", "99999999999999999999999.1", "..."] {
            assert_eq!(first_version(output), None, "{output}");
        }
    }
}
