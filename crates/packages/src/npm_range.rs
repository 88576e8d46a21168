//! A range of versions or a tag of npm, read as npm reads it ([npm-package-arg](https://github.com/npm/npm-package-arg),
//! [semver](https://github.com/npm/node-semver#ranges)), so that nothing passes for one that npm takes for a path or an address.

/// Maximum characters of a range.
const MAX_CHARS: usize = 200;

/// Fails with the reason if npm would read it as something else than a range or a tag, or not at all.
pub(super) fn check(text: &str) -> Result<(), &'static str> {
    let is_char = |c: char| c.is_ascii_alphanumeric() || " .^~<>=|*+-".contains(c);
    if text.len() > MAX_CHARS || !text.chars().all(is_char) {
        return Err("an address, a path or a repository is not used");
    }
    let text = text.trim();
    if text.starts_with('.') || is_file_of_npm(text) {
        return Err("npm takes it for a path, which is not used");
    }
    // A word without operators may also be a tag.
    let is_tag = !text.contains([' ', '^', '<', '>', '=', '|', '+']);
    if is_tag || text.split("||").all(is_alternative) {
        return Ok(());
    }
    Err("it is neither a range of versions nor a tag")
}

/// Whether npm takes a word for an archive by its end: `.tgz`, `.tar`, `.tar.gz`, where the second dot may be any character.
pub(super) fn is_file_of_npm(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let is_tar_gz = lower
        .strip_suffix("gz")
        .and_then(|start| start.char_indices().next_back().map(|(at, _)| &start[..at]))
        .is_some_and(|start| start.strip_suffix(".tar").is_some());
    [".tgz", ".tar"].iter().any(|end| lower.ends_with(end)) || is_tar_gz
}

/// Versions with operators between spaces, or `1.2 - 2.3`; nothing is any version.
fn is_alternative(text: &str) -> bool {
    if let Some((from, to)) = text.split_once(" - ") {
        return is_version(from.trim()) && is_version(to.trim());
    }
    let mut rest = text.trim();
    while !rest.is_empty() {
        const OPERATORS: [&str; 8] = [">=", "<=", "~>", ">", "<", "~", "^", "="];
        let operator =
            OPERATORS.iter().find(|operator| rest.starts_with(**operator)).map_or(0, |found| found.len());
        rest = rest[operator..].trim_start();
        let end = rest.find(' ').unwrap_or(rest.len());
        if !is_version(&rest[..end]) {
            return false;
        }
        rest = rest[end..].trim_start();
    }
    true
}

/// `1`, `v1.2`, `=1.2.3-rc.1+build`, `1.x`, `*`.
fn is_version(text: &str) -> bool {
    let text = text.trim_start_matches(['v', '=']);
    let mut parts = text.splitn(3, '.');
    let is_number = |part: &str| {
        matches!(part, "x" | "X" | "*")
            || !part.is_empty() && part.len() <= 16 && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let (major, minor, patch) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let Some(patch) = patch else {
        return is_number(major) && minor.is_none_or(is_number);
    };
    let end = patch.find(|c: char| !c.is_ascii_digit() && !"xX*".contains(c)).unwrap_or(patch.len());
    let is_suffix = |c: char| c.is_ascii_alphanumeric() || ".+-".contains(c);
    is_number(major)
        && minor.is_some_and(is_number)
        && is_number(&patch[..end])
        && patch[end..].chars().all(is_suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_tags_pass() {
        for range in [
            "",
            "*",
            "x",
            "latest",
            "next-13",
            "1",
            "v1.2",
            "1.2.3",
            "^1.2.3",
            "~1.2",
            "~>1.2",
            ">=1",
            ">= 1.0 < 2",
            "<2.0.0-rc.1",
            "1.0 - 2.0",
            "^1 || ^2",
            "|| 2",
            "1.x",
            "1.2.*",
            "=1.2.3",
            ">=v1.2.3",
            "1.2.3+build.5",
            "^1.2.3-beta.1",
            "1.2.3beta",
            " ^1.0.0 ",
            ">=1.2.3 <1.2.5 || >2",
        ] {
            assert_eq!(check(range), Ok(()), "{range}");
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        for range in [
            "=>1",
            "^^1",
            "1 2 latest",
            ">=",
            "|",
            "1 |2",
            "a b",
            "^latest",
            ">=1<2",
            "+",
            "..",
            ".x",
            "a.tgz",
            "a.TAR",
            "a.tarxgz",
            "1.2.3 - ",
            "a:b",
            "a/b",
            "a@b",
            "~/x",
            "\u{e9}",
        ] {
            assert!(check(range).is_err(), "{range}");
        }
    }
}
