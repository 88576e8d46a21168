//! Finds a version in what a program prints.

use semver::Version;

/// The first part of a text that looks like a version: numbers with dots between them, with what follows a `-` where it means a
/// version before a release; or else the first number of the first line.
pub(crate) fn first_version(text: &str) -> Option<Version> {
    let dotted = number_starts(text).find_map(|at| dotted_version(&text[at..]));
    dotted.or_else(|| {
        let line = text.lines().find(|line| !line.trim().is_empty())?;
        let at = number_starts(line).next()?;
        let (major, _) = leading_number(&line[at..])?;
        Some(Version::new(major, 0, 0))
    })
}

/// The same for what a program that failed says, which is as likely about its failure: only numbers with dots that stand alone or behind
/// a `v`, and no address such as `127.0.0.1:8080`.
pub(crate) fn dotted_version_in(text: &str) -> Option<Version> {
    let is_alone = |at: &usize| {
        let before = text[..*at].trim_end_matches(['v', 'V']);
        !before.ends_with(|letter: char| letter.is_alphanumeric() || matches!(letter, '/' | '-' | '_'))
    };
    let is_address = |at: usize| {
        let end = text[at..].find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let number = &text[at..end.map_or(text.len(), |end| at + end)];
        number.trim_end_matches('.').matches('.').count() > 2
    };
    number_starts(text)
        .filter(is_alone)
        .filter(|at| !is_address(*at))
        .find_map(|at| dotted_version(&text[at..]))
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

    #[test]
    fn of_a_failure_only_a_version_that_stands_alone_counts() {
        for (output, version) in [
            (
                "Client Version: v1.30.2\nThe connection to the server localhost:8080 was refused",
                Some("1.30.2"),
            ),
            ("tool 1.2", Some("1.2.0")),
            ("1.2.3", Some("1.2.3")),
            ("GitVersion:\"v1.28.2\"", Some("1.28.2")),
            ("dial tcp 127.0.0.1:8080: connection refused", None),
            ("pyenv: python3.12: command not found", None),
            ("error in /opt/node-18.2.0/lib: unknown option", None),
            ("usage: ssh [-46AaCf]", None),
            ("error 2", None),
        ] {
            let found = dotted_version_in(output).map(|found| found.to_string());
            assert_eq!(found.as_deref(), version, "{output}");
        }
    }
}
