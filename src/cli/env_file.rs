//! Files of environment variables: a line `NAME=VALUE` each, with comments and quotes, and without expansion.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use metier::error::{ErrorKind, Result, SkillError};
use metier::policy::Permission;
use metier_core::byte_order_mark::without_mark;

/// Maximum bytes of a file.
const MAX_BYTES: u64 = 64 << 10;

/// Names that say through whom programs talk, and whom they trust: `--env` gives them, and a file, which may come with the project,
/// does not. Each is the whole name, or its end after a `_`; where a `*` follows, a part of it.
const ONLY_BY_NAME: [&str; 18] = [
    "PROXY",
    "PROXY_*",
    "PROXIES",
    "SSL_CERT_*",
    "SSLCERT*",
    "CA_BUNDLE",
    "CA_CERT*",
    "CACERT*",
    "CA_FILE",
    "CAFILE",
    "CA_PATH",
    "CAPATH",
    "CAINFO",
    "CA_DIR",
    "EXTRA_CA_CERTS",
    "ROOT_CERT*",
    "SSLROOTCERT",
    "TLS_CA_*",
];

/// Names of files by which programs decide what to start, or with which machine to talk.
const ONLY_BY_WHOLE_NAME: [&str; 8] = [
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "DENO_CERT",
    "DOCKER_CONFIG",
    "DOCKER_HOST",
    "KUBECONFIG",
    "PGSSLROOTCERT",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
];

/// The variables of a file, in their order. What is named as a file of the project may not lead out of it: whoever made the project
/// could choose which file of the user a script is given.
pub fn read(path: &Path, project: &Path) -> Result<Vec<(String, String)>> {
    if let (true, Ok(project), Ok(target)) =
        (is_named_in(path, project), project.canonicalize(), path.canonicalize())
        && !target.starts_with(&project)
    {
        let target = target.to_string_lossy().escape_debug().to_string();
        let sentence = format!("--env-file {} leads out of the project, to {target}", path.display());
        let help = "if a script may have what is in that file, name that file itself";
        return Err(SkillError::new(ErrorKind::Usage, sentence).with_help(help));
    }
    read_variables(path)
}

/// Whether a path is in a folder as it is written, whatever links in it lead to.
fn is_named_in(path: &Path, folder: &Path) -> bool {
    let written = |path: &Path| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut parts = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        parts
    };
    let path = written(path);
    let real = folder.canonicalize().unwrap_or_default();
    path.starts_with(written(folder)) || (real.is_absolute() && path.starts_with(real))
}

fn read_variables(path: &Path) -> Result<Vec<(String, String)>> {
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
    let mut rest = without_mark(text);
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
        return Err("what is before `=` is not a name of a variable".into());
    }
    let capitals = format!("_{}", name.to_ascii_uppercase());
    let fits = |known: &&str| match known.strip_suffix('*') {
        Some(part) => capitals.contains(&format!("_{part}")),
        None => capitals.ends_with(&format!("_{known}")),
    };
    let is_whole = |known: &&str| name.eq_ignore_ascii_case(known);
    if ONLY_BY_NAME.iter().any(fits) || ONLY_BY_WHOLE_NAME.iter().any(is_whole) {
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
    fn a_mistake_is_reported_by_its_line_and_without_a_value() {
        for (text, line, words) in [
            ("A=1\ns3cret", 2, "no `=`"),
            ("A=1\n\nB='s3cret\nmore", 3, "not closed"),
            ("A=\"s3cret\\", 1, "not closed"),
            ("A='x' s3cret", 1, "closing quote"),
            ("G=\"1\n2\"\ns3cret-x=1", 3, "not a name"),
            ("=s3cret", 1, "not a name"),
            ("1A=s3cret", 1, "begins with no digit"),
            ("A=s3cret\0", 1, "NUL"),
            ("PATH=s3cret", 1, "which programs are started"),
            ("LD_PRELOAD=s3cret", 1, "loader"),
            ("https_proxy=s3cret", 1, "--env https_proxy"),
            ("SSL_CERT_FILE=s3cret", 1, "--env SSL_CERT_FILE"),
            ("TAR_OPTIONS=s3cret", 1, "programs are started"),
        ] {
            let (at, reason) = parse(text).unwrap_err();
            assert!(
                at == line && reason.contains(words) && !reason.contains("s3cret"),
                "{text}: {at} {reason}"
            );
        }
    }

    #[test]
    fn proxies_and_certificates_are_given_by_name_only_whatever_they_are_called() {
        for name in "HTTP_PROXY https_proxy NO_PROXY SOCKS_PROXY CARGO_HTTP_PROXY GRPC_PROXY grpc_proxy RSYNC_PROXY GLOBAL_AGENT_HTTP_PROXY \
                     CARGO_HTTP_CAINFO CARGO_HTTP_PROXY_CAINFO AWS_CA_BUNDLE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE HTTPLIB2_CA_CERTS \
                     NIX_SSL_CERT_FILE SSL_CERT_DIR DENO_CERT DENO_TLS_CA_STORE NODE_EXTRA_CA_CERTS PGSSLROOTCERT MYSQL_SSL_CA_FILE \
                     KUBECONFIG docker_host PROXY_URL GRPC_DEFAULT_SSL_ROOTS_FILE_PATH VAULT_CACERT"
            .split_whitespace()
        {
            let (_, reason) = parse(&format!("{name}=s3cret")).unwrap_err();
            assert!(reason.contains(&format!("--env {name}")), "{name}: {reason}");
        }
        for name in ["PROXYMAN", "CONCERT", "API_URL", "DB_HOST", "CERTAIN", "LOCAL", "PORT", "APPROXY"] {
            assert!(parse(&format!("{name}=x")).is_ok(), "{name}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_file_of_the_project_is_no_link_out_of_it() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let (project, outside) = (folder.path().join("project"), folder.path().join("outside"));
        std::fs::create_dir_all(project.join("sub")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("env"), "A=1").unwrap();
        std::fs::write(project.join("sub/env"), "A=1").unwrap();
        symlink(outside.join("env"), project.join("link")).unwrap();
        symlink("../../outside/env", project.join("sub/link")).unwrap();
        symlink("../outside", project.join("folder")).unwrap();
        symlink("link", project.join("link to a link")).unwrap();
        symlink("sub/env", project.join("inner")).unwrap();
        symlink(&project, folder.path().join("alias")).unwrap();
        for path in
            ["link", "sub/link", "sub/../link", "folder/env", "folder/../outside/env", "link to a link"]
        {
            for start in [&project, &folder.path().join("alias")] {
                let error = read(&start.join(path), start).unwrap_err();
                assert!(error.message().contains("leads out of the project"), "{path}: {error}");
            }
        }
        for path in ["sub/env", "inner", "../outside/env"] {
            assert_eq!(read(&project.join(path), &project).unwrap().len(), 1, "{path}");
        }
        assert_eq!(read(&outside.join("env"), &project).unwrap().len(), 1);
    }

    #[test]
    fn a_file_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("env");
        std::fs::write(&path, format!("A={}", "x".repeat(70_000))).unwrap();
        assert!(read_variables(&path).unwrap_err().message().contains("larger than 65536 bytes"));
        std::fs::write(&path, b"A=\xff").unwrap();
        assert!(read_variables(&path).unwrap_err().message().contains("not UTF-8"));
        assert!(read_variables(Path::new("/dev/zero")).unwrap_err().message().contains("larger"));
        assert!(
            read_variables(folder.path()).is_err() && read_variables(&folder.path().join("none")).is_err()
        );
    }
}
