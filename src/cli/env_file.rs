//! Files of environment variables: a line `NAME=VALUE` each, with comments and quotes, and without expansion.

use std::io::Read;
use std::path::Path;

use metier::error::{ErrorKind, Result, SkillError};
use metier::policy::Permission;

/// Maximum bytes of a file.
const MAX_BYTES: u64 = 64 << 10;

/// Names that say with whom programs talk, and whom they trust: `--env` gives them, and a file, which may come with the project, does
/// not. A `*` stands for any end.
const ONLY_BY_NAME: [&str; 9] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_*",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
];

/// The variables of a file, in their order.
pub fn read(path: &Path) -> Result<Vec<(String, String)>> {
    let shown = path.display();
    let failed = |error| {
        let error = SkillError::io(format_args!("failed to read {shown}"), error);
        SkillError::new(ErrorKind::Usage, format!("--env-file: {}", error.message()))
    };
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    let invalid = |reason: &str| SkillError::new(ErrorKind::Usage, format!("--env-file {shown}{reason}"));
    if bytes.len() as u64 > MAX_BYTES {
        return Err(invalid(&format!(" is larger than {MAX_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| invalid(" is not UTF-8"))?;
    parse(&text).map_err(|(line, reason)| invalid(&format!(":{line}: {reason}")))
}

/// Whether a value is so common that replacing it everywhere would hide nothing and spoil all output.
pub fn is_common_value(value: &str) -> bool {
    value.len() < 4 || ["true", "false"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// The variables, or the line of the first mistake and what is wrong with it. No reason contains a value.
fn parse(text: &str) -> Result<Vec<(String, String)>, (usize, String)> {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut variables, mut line) = (Vec::new(), 1);
    while !rest.is_empty() {
        let end = rest.find('\n').map_or(rest.len(), |end| end + 1);
        let statement = rest[..end].trim();
        if statement.is_empty() || statement.starts_with('#') {
            rest = &rest[end..];
            line += 1;
            continue;
        }
        let fail = |reason: &str| (line, reason.to_owned());
        let equals = rest[..end].find('=').ok_or_else(|| fail("there is no `=`; write NAME=VALUE"))?;
        let name = rest[..equals].trim();
        let name = name.strip_prefix("export ").map_or(name, str::trim_start);
        check_name(name).map_err(|reason| fail(&reason))?;
        let (value, length) = parse_value(&rest[equals + 1..]).map_err(fail)?;
        if value.contains('\0') {
            return Err(fail("the value has a NUL character"));
        }
        let (statement, after) = rest.split_at(equals + 1 + length);
        variables.push((name.to_owned(), value));
        line += statement.matches('\n').count();
        rest = after;
    }
    Ok(variables)
}

fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || name.len() > 64 || !name.bytes().all(is_plain) {
        return Err("what is before `=` is no name of a variable".into());
    }
    let fits = |known: &&str| match known.strip_suffix('*') {
        Some(start) => name.to_ascii_uppercase().starts_with(start),
        None => name.eq_ignore_ascii_case(known),
    };
    if ONLY_BY_NAME.iter().any(fits) {
        return Err(format!("{name} decides with whom programs talk; give it with --env {name}"));
    }
    let reason = |error: SkillError| {
        error.message().split_once("is not a permission: ").map_or("", |(_, reason)| reason).to_owned()
    };
    Permission::env(name).map(drop).map_err(reason)
}

/// The value at the beginning of a text, and the length of all that belongs to it, up to the end of its line.
fn parse_value(text: &str) -> Result<(String, usize), &'static str> {
    let start = text.len() - text.trim_start_matches([' ', '\t']).len();
    let rest = &text[start..];
    let Some(quote @ ('"' | '\'')) = rest.chars().next() else {
        let end = rest.find('\n').unwrap_or(rest.len());
        let written = &rest[..end];
        let comment = written
            .char_indices()
            .find(|(at, c)| *c == '#' && (*at == 0 || written[..*at].ends_with([' ', '\t'])));
        let value = written[..comment.map_or(end, |(at, _)| at)].trim();
        return Ok((value.to_owned(), start + (end + 1).min(rest.len())));
    };
    let mut value = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == quote {
            let after = &rest[at + 1..];
            let end = after.find('\n').map_or(after.len(), |end| end + 1);
            let remainder = after[..end].trim();
            if !remainder.is_empty() && !remainder.starts_with('#') {
                return Err("something follows the closing quote");
            }
            return Ok((value, start + at + 1 + end));
        }
        match (c, quote) {
            ('\\', '"') => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, 't')) => value.push('\t'),
                Some((_, c @ ('\\' | '"' | '$' | '`'))) => value.push(c),
                Some((_, c)) => value.extend(['\\', c]),
                None => break,
            },
            _ => value.push(c),
        }
    }
    Err("a quote is not closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_plain_or_quoted_and_never_expanded() {
        let text = "\u{feff}# comment\n\nA=1\r\nexport B = two words # comment\nC=a#b\nD=\nE='$X \\n #'  # comment\n\
                    F=\"a\\n\\\"b\\\" $HOME ${X}\\q\"\nG=\"line 1\nline 2\"\nH=x=y\nI= # nothing\nA=2";
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "a#b"),
            ("D", ""),
            ("E", "$X \\n #"),
            ("F", "a\n\"b\" $HOME ${X}\\q"),
            ("G", "line 1\nline 2"),
            ("H", "x=y"),
            ("I", ""),
            ("A", "2"),
        ];
        assert_eq!(parse(text).unwrap(), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_mistake_is_told_by_its_line_and_without_a_value() {
        for (text, line, words) in [
            ("A=1\ns3cret", 2, "no `=`"),
            ("A=1\n\nB='s3cret\nmore", 3, "not closed"),
            ("A=\"s3cret\\", 1, "not closed"),
            ("A='x' s3cret", 1, "closing quote"),
            ("G=\"1\n2\"\ns3cret-x=1", 3, "no name"),
            ("=s3cret", 1, "no name"),
            ("1A=s3cret", 1, "begins with no digit"),
            ("A=s3cret\0", 1, "NUL"),
            ("PATH=s3cret", 1, "which programs are started"),
            ("LD_PRELOAD=s3cret", 1, "loader"),
            ("https_proxy=s3cret", 1, "--env https_proxy"),
            ("SSL_CERT_FILE=s3cret", 1, "--env SSL_CERT_FILE"),
        ] {
            let (at, reason) = parse(text).unwrap_err();
            assert!(
                at == line && reason.contains(words) && !reason.contains("s3cret"),
                "{text}: {at} {reason}"
            );
        }
    }

    #[test]
    fn a_file_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("env");
        std::fs::write(&path, format!("A={}", "x".repeat(70_000))).unwrap();
        assert!(read(&path).unwrap_err().message().contains("larger than 65536 bytes"));
        std::fs::write(&path, b"A=\xff").unwrap();
        assert!(read(&path).unwrap_err().message().contains("not UTF-8"));
        assert!(read(Path::new("/dev/zero")).unwrap_err().message().contains("larger"));
        assert!(read(folder.path()).is_err() && read(&folder.path().join("none")).is_err());
    }
}
