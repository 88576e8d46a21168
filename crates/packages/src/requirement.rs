//! One requirement of a Python package: a name, extras, versions and a marker ([PEP 508](https://peps.python.org/pep-0508/)), and the
//! hashes that an author wrote beside it. Everything that names a place is refused.

use metier_core::excerpt::shorten;

/// A requirement that names a package and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    /// As it is passed on, such as `rich[jupyter]>=13,<14; python_version < "3.13"`.
    pub(super) text: String,
    /// The name in the form in which registries compare names.
    pub(super) name: String,
    /// `sha256:…`, in lower case: the files that the author accepts; every file if there are none.
    pub(super) hashes: Vec<String>,
}

/// Maximum characters of a text in an error.
const MAX_SHOWN_CHARS: usize = 80;
/// Maximum characters of a requirement without its hashes.
const MAX_CHARS: usize = 1_000;
const MAX_HASHES: usize = 500;

impl Requirement {
    /// Parses a requirement without comments; otherwise what is wrong with it: the rest of a sentence.
    pub(super) fn parse(line: &str) -> Result<Self, String> {
        if line.starts_with('-') {
            let option = line.split([' ', '=', '\t']).next().unwrap_or(line);
            return Err(format!("the option {} is not used", option.escape_debug()));
        }
        let (text, options) = match line.find(" --") {
            Some(at) => line.split_at(at),
            None => (line, ""),
        };
        let hashes = options.split_whitespace().map(parse_hash).collect::<Result<Vec<_>, _>>()?;
        if hashes.len() > MAX_HASHES {
            return Err(format!("a requirement has more than {MAX_HASHES} hashes"));
        }
        let text = text.trim();
        if text.chars().count() > MAX_CHARS {
            return Err(format!("a requirement has more than {MAX_CHARS} characters"));
        }
        refuse_places(text)?;
        // Other programs end a line at more characters than the line feed.
        if let Some(odd) =
            text.chars().find(|c| c.is_control() && *c != '\t' || c.is_whitespace() && !c.is_ascii())
        {
            return Err(format!("a requirement has the character {}", odd.escape_unicode()));
        }
        let name = check_form(text)?;
        Ok(Self { text: text.to_owned(), name: normalize_name(name), hashes })
    }
}

/// A name in the form in which registries compare names.
pub(super) fn normalize_name(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

fn parse_hash(option: &str) -> Result<String, String> {
    let Some(hash) = option.strip_prefix("--hash=") else {
        let name = option.split('=').next().unwrap_or(option);
        return Err(format!("the option {} is not used", name.escape_debug()));
    };
    let digits = hash.strip_prefix("sha256:").unwrap_or_default();
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(format!("the hash {} is none of sha256", hash.escape_debug()));
    }
    Ok(hash.to_ascii_lowercase())
}

/// Addresses, repositories and paths, by what they look like: each has its own sentence.
fn refuse_places(text: &str) -> Result<(), String> {
    const REPOSITORIES: [&str; 4] = ["git+", "hg+", "svn+", "bzr+"];
    const ARCHIVES: [&str; 14] = [
        ".whl",
        ".tar.gz",
        ".zip",
        ".tar.bz2",
        ".tgz",
        ".egg",
        ".tar",
        ".tbz",
        ".tar.xz",
        ".txz",
        ".tlz",
        ".tar.lz",
        ".tar.lzma",
        ".tar.zst",
    ];
    let (requirement, _) = text.split_once(';').unwrap_or((text, ""));
    let place = requirement.split_once('@').map_or(requirement, |(_, place)| place).trim();
    let shown = escaped_excerpt(place);
    if REPOSITORIES.iter().any(|start| place.starts_with(start)) || place.starts_with("git@") {
        return Err(format!("{shown} is a source in a repository, which is not used"));
    }
    if place.contains("://") {
        return Err(format!("{shown} is an address, which is not used"));
    }
    if place.starts_with(['.', '/', '~', '\\']) || place.contains(['/', '\\']) || place.starts_with("file:") {
        return Err(format!("{shown} is a path, which is not used"));
    }
    if requirement.contains('@') {
        return Err(format!("{shown} is an address, which is not used"));
    }
    let (named, _) = requirement.split_once('[').unwrap_or((requirement, ""));
    let lower = named.to_ascii_lowercase();
    if ARCHIVES.iter().any(|end| lower.trim_end().ends_with(end)) {
        return Err(format!("{shown} is a file, which is not used"));
    }
    Ok(())
}

/// The name of a requirement of the right form.
fn check_form(text: &str) -> Result<&str, String> {
    let invalid = || format!("{} is not a requirement", escaped_excerpt(text));
    let end = text.find(|c: char| !is_name_char(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let is_edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if !is_edge(name.chars().next()) || !is_edge(name.chars().next_back()) {
        return Err(invalid());
    }
    let mut rest = rest.trim_start();
    if let Some(after) = rest.strip_prefix('[') {
        let (extras, after) = after.split_once(']').ok_or_else(invalid)?;
        let is_extra = |extra: &str| !extra.is_empty() && extra.chars().all(is_name_char);
        if !extras.trim().is_empty() && !extras.split(',').all(|extra| is_extra(extra.trim())) {
            return Err(invalid());
        }
        rest = after.trim_start();
    }
    let (versions, marker) = match rest.split_once(';') {
        Some((versions, marker)) => (versions.trim(), Some(marker.trim())),
        None => (rest.trim(), None),
    };
    let versions = versions
        .strip_prefix('(')
        .map_or(Some(versions), |inner| inner.strip_suffix(')'))
        .ok_or_else(invalid)?;
    let is_written = versions.is_empty() || versions.split(',').all(|one| is_version(one.trim()));
    let is_marker_char = |c: char| c.is_ascii_alphanumeric() || " \t'\"()<>=!~.,_-+*".contains(c);
    let has_marker = marker.is_none_or(|marker| !marker.is_empty() && marker.chars().all(is_marker_char));
    if is_written && has_marker { Ok(name) } else { Err(invalid()) }
}

/// Whether this is an operator with a version.
fn is_version(text: &str) -> bool {
    const OPERATORS: [&str; 8] = ["===", "==", "~=", "!=", "<=", ">=", "<", ">"];
    let is_version_char = |c: char| c.is_ascii_alphanumeric() || ".*+!-_".contains(c);
    OPERATORS.iter().find_map(|operator| text.strip_prefix(operator)).is_some_and(|version| {
        let version = version.trim();
        !version.is_empty() && version.chars().all(is_version_char)
    })
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-".contains(c)
}

/// A text of a skill's file, for an error.
pub(super) fn escaped_excerpt(text: &str) -> String {
    shorten(text, MAX_SHOWN_CHARS).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_versions_extras_and_markers_are_passed_on_as_they_are() {
        for (line, name) in [
            ("requests", "requests"),
            ("requests==2.32.3", "requests"),
            ("Foo.Bar_baz >= 1.0, != 1.5.*", "foo-bar-baz"),
            ("rich[jupyter,all]>=13,<14; python_version < \"3.13\"", "rich"),
            ("x (>=1)", "x"),
            ("x[]", "x"),
            ("a===1.0+local!2", "a"),
            ("a; sys_platform == 'linux' and (extra == 'x')", "a"),
        ] {
            let parsed = Requirement::parse(line).unwrap();
            assert_eq!((parsed.text.as_str(), parsed.name.as_str()), (line, name));
        }
        let hash = "AB".repeat(32);
        let parsed = Requirement::parse(&format!("six==1.16.0 --hash=sha256:{hash}")).unwrap();
        assert_eq!(parsed.text, "six==1.16.0");
        assert_eq!(parsed.hashes, [format!("sha256:{}", hash.to_lowercase())]);
    }

    #[test]
    fn everything_that_names_a_place_or_an_option_is_refused_by_its_name() {
        for (line, words) in [
            ("-r other.txt", "the option -r is not used"),
            ("--index-url=https://evil.example/simple", "the option --index-url is not used"),
            ("--extra-index-url https://evil.example", "the option --extra-index-url is not used"),
            ("-e .", "the option -e is not used"),
            ("six --global-option=x", "the option --global-option is not used"),
            ("six --hash=md5:aa", "the hash md5:aa is none of sha256"),
            ("six @ https://evil.example/six.whl", "https://evil.example/six.whl is an address"),
            ("six@file:///tmp/six.whl", "file:///tmp/six.whl is an address"),
            ("six @ file:six", "file:six is a path"),
            ("git+https://evil.example/six", "is a source in a repository"),
            ("six @ git+ssh://git@evil.example/six", "is a source in a repository"),
            ("six @ git@evil.example:six", "is a source in a repository"),
            ("https://evil.example/six.whl", "is an address"),
            ("./six", "./six is a path"),
            ("/tmp/six", "/tmp/six is a path"),
            ("~/six", "~/six is a path"),
            ("vendor/six", "vendor/six is a path"),
            ("six.whl", "six.whl is a file"),
            ("six-1.0.tar.gz", "six-1.0.tar.gz is a file"),
            ("six @ elsewhere", "elsewhere is an address"),
            ("six.whl[x]", "six.whl[x] is a file"),
            ("six-1.0.tar", "is a file"),
            ("six-1.0.tar.xz", "is a file"),
            ("six\r>=1", "has the character \\u{d}"),
            ("six\n>=1", "has the character \\u{a}"),
            ("six\u{85}==1", "has the character"),
            ("six\u{2028}==1", "has the character"),
            ("six@./x", "is a path"),
            ("six @ C:\\x", "is a path"),
            ("file:six", "is a path"),
            ("--hash=sha256:x", "the option --hash is not used"),
        ] {
            let reason = Requirement::parse(line).unwrap_err();
            assert!(reason.contains(words), "{line}: {reason}");
        }
        for line in [
            "",
            "six six",
            "six==",
            "six ${X}",
            "six==1`id`",
            "[x]",
            "-",
            "six;",
            "six[a",
            "six(>=1",
            "é",
            "six,",
        ] {
            assert!(Requirement::parse(line).is_err(), "{line}");
        }
        assert!(Requirement::parse(&format!("a=={}", "1".repeat(2_000))).is_err());
    }
}
