//! Why a sandboxed script may have failed: matches its error output with what the sandbox denied.
//!
//! The system says `Operation not permitted` and no more. A hint says what the sandbox certainly denies, and which grant would
//! change it; whether that made the script fail, only its author can know.

use std::path::{Component, Path, PathBuf};

use crate::error::Hint;
use crate::executor::DefiningFiles;
use crate::host::{NetworkReport, RefusedConnection, SkillContext};
use crate::policy::{Access, Permission};
use crate::runtimes::external::error_line::error_line;
use crate::runtimes::external::interpreter::path::{is_executable_file, search_path};
use crate::runtimes::external::system_paths::is_system_path;
use crate::runtimes::sandbox::PRIVATE_TMP;

/// Error texts of a denied operation.
struct DenialPattern {
    /// In lower case; any row of them, with all texts of the row.
    error_texts: &'static [&'static [&'static str]],
    /// The grant that would allow it.
    access: fn() -> Access,
    /// What the sandbox denies.
    explanation: &'static str,
}

/// The help of an error, and what mends it, if the host program can.
pub(super) type Help = (String, Option<Hint>);

/// The first match counts.
const DENIAL_PATTERNS: [DenialPattern; 8] = [
    DenialPattern {
        error_texts: &[&["/dev/shm"], &["semlock"], &["shm_open"], &["shared_memory"]],
        access: Access::shm,
        explanation: "the sandbox has no memory that programs share by name (/dev/shm)",
    },
    DenialPattern {
        error_texts: &[
            &["pseudo-terminal"],
            &["pty devices"],
            &["openpty"],
            &["forkpty"],
            &["/dev/ptmx"],
            &["/dev/pts"],
            &["open terminal failed"],
        ],
        access: Access::exec_unsandboxed,
        explanation: "a script in a sandbox has no terminal and can make none",
    },
    DenialPattern {
        error_texts: &[&["inotify"], &["syscall: 'watch'"], &["eperm: operation not permitted, watch"]],
        access: Access::exec_unsandboxed,
        explanation: "a script in a sandbox cannot have the system watch files (inotify), but may look at them again and again",
    },
    DenialPattern {
        error_texts: &[
            &["flock", "function not implemented"],
            &["flock", "errno 38"],
            &["enosys", "flock"],
            &["cannot lock", "function not implemented"],
        ],
        access: || Access::write("it"),
        explanation: "a script that may write nothing of the project cannot lock whole files (flock)",
    },
    DenialPattern {
        error_texts: &[
            &["listen eperm: operation not permitted /"],
            &["connect eperm /"],
            &["dial unix"],
            &["listen unix"],
            &["af_unix", "operation not permitted"],
            &["error connecting to /", "operation not permitted"],
            &["no agent running"],
            &["multiprocessing/managers.py", "eoferror"],
            &["multiprocessing/connection.py", "operation not permitted"],
        ],
        access: Access::exec_unsandboxed,
        explanation: "a script in a sandbox has no local sockets with a path (AF_UNIX); pipes and `socketpair` connect its own processes",
    },
    DenialPattern {
        error_texts: &[
            &["docker daemon"],
            &["docker.sock"],
            &["d-bus", "bus"],
            &["connection to server on socket"],
            &["unix:///"],
            &["/run/", ".sock"],
        ],
        access: Access::exec_unsandboxed,
        explanation: "the sandbox reaches no service of this machine through a local socket, with or without the network",
    },
    DenialPattern {
        error_texts: NETWORK_TEXTS,
        access: Access::network,
        explanation: "the sandbox allows no network",
    },
    // If the network is allowed, other kinds of sockets remain.
    DenialPattern {
        error_texts: &[&["operation not permitted", "socket"]],
        access: Access::exec_unsandboxed,
        explanation: "the sandbox opens sockets of the internet only, no local ones with a path (AF_UNIX)",
    },
];

/// How programs report that there is no network.
const NETWORK_TEXTS: &[&[&str]] = &[
    &["could not resolve host"],
    &["couldn't resolve host"],
    &["couldn't connect to server"],
    &["name resolution"],
    &["name or service not known"],
    &["gaierror"],
    &["eai_again"],
    &["getaddrinfo enotfound"],
    &["code: 'enotfound'"],
    &["failed to establish a new connection"],
    &["urlopen error"],
    &["/dev/tcp/"],
    &["/dev/udp/"],
    &["connect eperm"],
    &["listen eperm"],
    &["bind eperm"],
    &["operation not permitted", "socket"],
    &["operation not permitted", "connect"],
    &["operation not permitted", "dial tcp"],
    &["uv_interface_addresses"],
];

/// How systems and languages report that access to a file was denied.
const FILE_DENIED_TEXTS: [&str; 4] = ["permission denied", "eacces", "read-only file system", "erofs"];

/// How many bytes at the end of the error output are searched.
const MAX_SEARCHED_BYTES: usize = 64 << 10;

/// The hint for a script that failed with this error output, which holds no secret; `None` if the sandbox denied nothing that it
/// mentions. `can_name_hosts` says whether a script here could reach single hosts.
pub(super) fn denial_hint(
    ctx: &SkillContext,
    project: &Path,
    stderr: &str,
    (network, can_name_hosts): (Option<&NetworkReport>, bool),
) -> Option<Help> {
    let start = stderr.len().saturating_sub(MAX_SEARCHED_BYTES);
    let start = (start..stderr.len()).find(|at| stderr.is_char_boundary(*at)).unwrap_or(stderr.len());
    let text = &stderr[start..];
    let small = text.to_lowercase();
    error_line(text)
        .and_then(|line| read_only_file(line).or_else(|| failed_mkdir(line, project)))
        .and_then(|file| project_file_hint(ctx, project, file))
        .or_else(|| network.and_then(|network| hosts_hint(ctx, &small, network)))
        .or_else(|| named_host_hint(ctx, text).filter(|_| can_name_hosts && network.is_none()))
        .or_else(|| pattern_hint(ctx, &small, network.is_some()))
        .or_else(|| denied_file_hint(ctx, project, text))
        .or_else(|| missing_program_hint(text))
}

/// The last program that was not found, if it is on the user's `PATH` at a place that the sandbox does not show.
fn missing_program_hint(text: &str) -> Option<Help> {
    let name = text.lines().rev().find_map(missing_program)?;
    let is_there = |folder: PathBuf| Some(folder.join(name)).filter(|path| is_executable_file(path));
    let path = search_path().into_iter().find_map(is_there).filter(|path| !is_system_path(path))?;
    let text = format!(
        "{} is outside of the system's folders, where a script in a sandbox finds interpreters only; install {name} for the \
         whole system, or grant exec:unsandboxed",
        path.display()
    );
    Some((text, Some(Hint::Grant("exec:unsandboxed".into()))))
}

/// The program that a line reports as missing, in the texts of shells, `env`, Python and Node.
fn missing_program(line: &str) -> Option<&str> {
    let before = |words: &str| line.strip_suffix(words)?.rsplit([' ', ':']).next();
    let after = |words: &str| line.split_once(words).map(|(_, name)| name);
    let name = before(": command not found")
        .or_else(|| before(": not found"))
        .or_else(|| after("env: ")?.strip_suffix(": No such file or directory"))
        .or_else(|| after("FileNotFoundError: [Errno 2] No such file or directory: "))
        .or_else(|| after("Error: spawn ")?.strip_suffix(" ENOENT"))?;
    let name = name.trim_matches(['\'', '"', '‘', '’', '`']);
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._+-".contains(letter);
    ((1..=64).contains(&name.len()) && name.chars().all(is_name) && !name.starts_with('.')).then_some(name)
}

/// How programs report a connection that a network with granted hosts only does not have, besides those of `NETWORK_TEXTS`.
const UNREACHABLE_TEXTS: &[&[&str]] = &[
    &["network is unreachable"],
    &["enetunreach"],
    &["connection refused"],
    &["econnrefused"],
    &["connection reset"],
    &["econnreset"],
    &["fetch failed"],
    &["failed to connect"],
    &["could not connect"],
];

/// The hint for a script that reaches granted hosts only and failed with an error of the network: what it tried, and which grant
/// would open that.
fn hosts_hint(ctx: &SkillContext, text: &str, network: &NetworkReport) -> Option<Help> {
    let is_about_network = matches_any(text, NETWORK_TEXTS) || matches_any(text, UNREACHABLE_TEXTS);
    // A name without a dot may be any other word.
    let is_named = |refused: &&RefusedConnection| {
        refused.host.contains('.') && contains_word(text, &refused.host.to_lowercase())
    };
    let named = network.refused.iter().rev().find(is_named);
    let refused = named.or_else(|| network.refused.last().filter(|_| is_about_network));
    if let Some(refused) = refused {
        let Some(permission) = &refused.permission else {
            return Some((format!("the script tried {refused}, and was refused: {}", refused.reason), None));
        };
        let need = permission.parse::<Permission>().ok()?.as_access();
        let (help, hint) = permission_hint(ctx, &need)?;
        let reason = &refused.reason;
        return Some((format!("the script tried {refused}: {reason}; if the script needs it, {help}"), hint));
    }
    is_about_network.then(|| {
        let hosts = network.hosts.join(", ");
        let text = format!(
            "the script reaches only the hosts that are granted ({hosts}), at the ports 80 and 443 unless the grant names one; the \
             permission net:HOST opens another host, and net:HOST:PORT another port"
        );
        (text, None)
    })
}

/// The hint for a script without network that says which host it did not reach.
fn named_host_hint(ctx: &SkillContext, text: &str) -> Option<Help> {
    let (host, port) = text.lines().rev().find_map(unreached_host)?;
    let (help, hint) = permission_hint(ctx, &Access::connection(host.to_ascii_lowercase(), port))?;
    Some((format!("the sandbox allows no network; if the script needs {host}, {help}"), hint))
}

/// The host, and its port, that a line says could not be looked up or connected to.
fn unreached_host(line: &str) -> Option<(&str, u16)> {
    const HTTPS: u16 = 443;
    /// What stands before the name in the texts of Node, curl, git, wget, Go and `requests`.
    const BEFORE: [&str; 7] = [
        "getaddrinfo EAI_AGAIN ",
        "getaddrinfo ENOTFOUND ",
        "ould not resolve host: ",
        "unable to resolve host address ",
        "dial tcp: lookup ",
        "HTTPSConnectionPool(host=",
        "HTTPConnectionPool(host=",
    ];
    let rest = BEFORE.iter().find_map(|words| line.split_once(words).map(|(_, rest)| rest))?;
    let rest = rest.trim_start_matches(['\'', '"', '‘', '`']);
    let is_part = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
    let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let host = rest[..end].trim_end_matches('.');
    let port = rest[end..].strip_prefix("', port=").and_then(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    });
    // A name without a dot may be any other word.
    (host.contains('.') && host.len() <= 253).then_some((host, port.unwrap_or(HTTPS)))
}

fn matches_any(text: &str, rows: &[&[&str]]) -> bool {
    rows.iter().any(|row| row.iter().all(|part| contains_word(text, part)))
}

/// `has_hosts` says whether the script reached granted hosts, to which the texts of the network do not apply.
fn pattern_hint(ctx: &SkillContext, text: &str, has_hosts: bool) -> Option<Help> {
    let applies = |sign: &&DenialPattern| !has_hosts || (sign.access)() != Access::network();
    let sign = DENIAL_PATTERNS
        .iter()
        .filter(|sign| applies(sign) && matches_any(text, sign.error_texts))
        .find(|sign| !ctx.permissions().allows(&(sign.access)()))?;
    let (help, hint) = permission_hint(ctx, &(sign.access)())?;
    Some((format!("{}; if the script needs it, {help}", sign.explanation), hint))
}

/// Whether the text contains these words, not as the end of a longer word: `enotfound` is no part of `ModuleNotFoundError`.
fn contains_word(text: &str, words: &str) -> bool {
    find_word(text, words).is_some()
}

fn find_word(text: &str, words: &str) -> Option<usize> {
    let begins_word = |at: usize| {
        let inside = |c: char| c.is_alphanumeric();
        !(words.starts_with(inside) && text[..at].ends_with(inside))
    };
    text.match_indices(words).map(|(at, _)| at).find(|at| begins_word(*at))
}

/// The last file that was denied, and whether the sandbox could be the reason.
fn denied_file_hint(ctx: &SkillContext, project: &Path, text: &str) -> Option<Help> {
    // Node names the code of an error once more below it.
    let is_field = |line: &&str| line.trim_start().starts_with("code: ");
    let written = error_line(text)
        .and_then(denied_file)
        .or_else(|| text.lines().rev().filter(|line| !is_field(line)).find_map(denied_file))
        .or_else(|| text.lines().rev().find_map(|line| covered_file(line, project)))?;
    if let Some(help) = project_file_hint(ctx, project, written) {
        return Some(help);
    }
    let path = normalize_lexically(&project.join(written));
    let shown = written.escape_debug();
    let is_system = is_system_path(&path);
    let reach = if is_system { "change nothing of the system" } else { "reach nothing there" };
    let advice =
        if is_system { "write to the project, or to $HOME" } else { "copy what it needs into the project" };
    let is_own = path.starts_with(std::env::temp_dir()) && path.to_string_lossy().contains("/metier-");
    (!is_own).then(|| {
        let text = format!("{shown} lies outside of the project, and scripts in a sandbox {reach}; {advice}");
        (text, None)
    })
}

/// The hint about a file that was denied, if it lies in the project or beside the script.
fn project_file_hint(ctx: &SkillContext, project: &Path, written: &str) -> Option<Help> {
    let real = canonicalize_existing(&normalize_lexically(&project.join(written)));
    let shown = written.escape_debug();
    if let Some(help) = own_folder_hint(ctx, &real, &shown.to_string()) {
        return Some(help);
    }
    let inside = real.strip_prefix(project).ok()?;
    let need = Access::write(grantable_path(project, inside.to_str()?));
    if let Some((help, hint)) = secret_hint(ctx, inside.to_str()?) {
        let text = format!(
            "the sandbox keeps {shown}, where secrets may be, from this script; if it should read it, {help}"
        );
        return Some((text, hint));
    }
    if let Some((help, hint)) = permission_hint(ctx, &need) {
        let text = format!(
            "the sandbox lets this script read the project, not change {shown}; if it should, {help}"
        );
        return Some((text, hint));
    }
    // Granted, but denied anyway.
    let text = format!(
        "to change {shown} is granted, but a sandbox opens what exists when the run begins; create it before, or see \
         whose it is"
    );
    Some((text, None))
}

/// The folder that a line says could not be made because its parent is missing, if the parent is there: Node says so where it makes
/// folders one inside the other in a read-only place.
fn failed_mkdir<'a>(line: &'a str, project: &Path) -> Option<&'a str> {
    let (_, written) = line.split_once("ENOENT: no such file or directory, mkdir '")?;
    let written = written.strip_suffix('\'')?;
    let path = normalize_lexically(&project.join(written));
    let is_possible = path.parent().is_some_and(Path::is_dir) && path.symlink_metadata().is_err();
    is_possible.then_some(written)
}

/// The grant that would let a script write beside itself.
fn own_folder_hint(ctx: &SkillContext, path: &Path, shown: &str) -> Option<Help> {
    if ctx.extensions().get::<Option<DefiningFiles>>()?.is_none()
        || !path.starts_with(ctx.skill_files().ok()?.root())
    {
        return None;
    }
    let (help, hint) = permission_hint(ctx, &Access::own_folder())?;
    let text = format!(
        "the sandbox lets this script read the folder of its skill, not change {shown}; if it should, {help}"
    );
    Some((text, hint))
}

/// The path of the project that a grant has to name so that this one can be written: itself if it exists, otherwise the folder in
/// which it would be created, which is the whole of `.git` for what git creates there.
fn grantable_path(project: &Path, path: &str) -> String {
    let exists = |path: &str| project.join(path).symlink_metadata().is_ok();
    if exists(path) {
        return path.to_owned();
    }
    let parents = || std::iter::successors(Some(path), |path| Some(path.rsplit_once('/')?.0)).skip(1);
    let is_git_dir = |path: &&str| path.rsplit('/').next() == Some(".git");
    let folder = parents().find(is_git_dir).or_else(|| parents().find(|folder| exists(folder)));
    folder.unwrap_or(path).to_owned()
}

/// The grant that would show a script a secret of the project; `None` if the path is not a secret or is shown already. Version
/// control is not a secret.
fn secret_hint(ctx: &SkillContext, path: &str) -> Option<Help> {
    let is_history = path.split('/').any(|part| part.eq_ignore_ascii_case(".git"));
    let is_secret = ctx.permissions().protection().protects_read(path) && !is_history;
    if is_secret { permission_hint(ctx, &Access::read(path)) } else { None }
}

/// The file that a line says is not there, if it is there, outside of the project and in the `/tmp` that the script does not see.
fn covered_file<'a>(line: &'a str, project: &Path) -> Option<&'a str> {
    const MISSING_TEXTS: [&str; 2] = ["no such file or directory", "enoent"];
    let written = file_before(line, &MISSING_TEXTS)?;
    let path = std::fs::canonicalize(normalize_lexically(&project.join(written))).ok()?;
    let is_covered = path.starts_with(PRIVATE_TMP) && !path.starts_with(project);
    is_covered.then_some(written)
}

/// The file that a line says was denied.
fn denied_file(line: &str) -> Option<&str> {
    file_before(line, &FILE_DENIED_TEXTS)
}

/// The file in quotes that a line says lies in a read-only place: nothing but a file is ever refused so.
fn read_only_file(line: &str) -> Option<&str> {
    file_before(line, &FILE_DENIED_TEXTS[2..]).filter(|_| last_quoted(line).is_some())
}

/// The file that a line complains about: the last in quotes before the complaint, or after it, or the last word before it.
fn file_before<'a>(line: &'a str, complaints: &[&str]) -> Option<&'a str> {
    // Lower case keeps byte positions: the complaints are ASCII.
    let small = line.to_ascii_lowercase();
    let at = complaints.iter().find_map(|complaint| find_word(&small, complaint))?;
    let (before_it, after_it) = line.split_at(at);
    let quoted = last_quoted(before_it).or_else(|| last_quoted(after_it));
    let before = || before_it.trim_end().trim_end_matches(':').rsplit([' ', '\t']).next();
    // `[Errno 30]` stands before the complaint of Python where it names no file.
    let is_path = |path: &&str| !path.is_empty() && !path.contains('\0') && !path.ends_with(']');
    quoted.or_else(before).filter(is_path)
}

/// The last text in quotes: of two files, the one that should be written.
fn last_quoted(text: &str) -> Option<&str> {
    const QUOTES: [(char, char); 4] = [('\'', '\''), ('‘', '’'), ('"', '"'), ('`', '`')];
    QUOTES.into_iter().find_map(|(open, close)| {
        let (before, _) = text.rsplit_once(close)?;
        before.rsplit_once(open).map(|(_, inner)| inner)
    })
}

/// The grant that would allow it; `None` if it is allowed.
pub(super) fn permission_hint(ctx: &SkillContext, need: &Access) -> Option<Help> {
    let refusal = ctx.permissions().require(need, "").err()?;
    Some((refusal.help()?.to_owned(), refusal.hint().cloned()))
}

/// Resolves `.` and `..` without reading the disk.
fn normalize_lexically(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
        path
    })
}

/// Resolves the symlinks of a path whose end may not exist.
fn canonicalize_existing(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
    existing.map_or_else(
        || path.to_owned(),
        |(above, real)| path.strip_prefix(above).map_or_else(|_| path.to_owned(), |rest| real.join(rest)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_program_is_found_in_the_words_of_many_tools() {
        for line in [
            "scripts/run.bash: line 3: cargo: command not found",
            "sh: 1: cargo: not found",
            "env: ‘cargo’: No such file or directory",
            "/usr/bin/env: 'cargo': No such file or directory",
            "FileNotFoundError: [Errno 2] No such file or directory: 'cargo'",
            "Error: spawn cargo ENOENT",
        ] {
            assert_eq!(missing_program(line), Some("cargo"), "{line}");
        }
        for line in [
            "",
            ": command not found",
            "a: ../x: command not found",
            "FileNotFoundError: [Errno 2] No such file or directory: 'out/a'",
            "cat: cargo: No such file or directory",
            "all went well",
        ] {
            assert_eq!(missing_program(line), None, "{line}");
        }
    }

    #[test]
    fn the_unreached_host_is_found_in_the_words_of_many_tools() {
        for (line, host) in [
            ("Error: getaddrinfo EAI_AGAIN api.x.com", ("api.x.com", 443)),
            ("  [cause]: Error: getaddrinfo ENOTFOUND api.x.com", ("api.x.com", 443)),
            ("curl: (6) Could not resolve host: api.x.com", ("api.x.com", 443)),
            ("fatal: unable to access 'https://x.com/a/': Could not resolve host: x.com", ("x.com", 443)),
            ("wget: unable to resolve host address ‘x.com’", ("x.com", 443)),
            ("dial tcp: lookup api.x.com: Temporary failure in name resolution", ("api.x.com", 443)),
            ("HTTPSConnectionPool(host='api.x.com', port=8443): Max retries exceeded", ("api.x.com", 8443)),
            ("HTTPConnectionPool(host='api.x.com', port=80): Max retries exceeded", ("api.x.com", 80)),
        ] {
            assert_eq!(unreached_host(line), Some(host), "{line}");
        }
        for line in
            ["", "getaddrinfo EAI_AGAIN", "Could not resolve host: localhost", "socket.gaierror: [Errno -3]"]
        {
            assert_eq!(unreached_host(line), None, "{line}");
        }
    }

    #[test]
    fn the_refused_file_is_found_in_the_words_of_many_tools() {
        for (line, file) in [
            ("PermissionError: [Errno 13] Permission denied: 'out/a.txt'", "out/a.txt"),
            ("Error: EACCES: permission denied, open 'a b.txt'", "a b.txt"),
            ("scripts/run.bash: line 3: out.txt: Permission denied", "out.txt"),
            ("touch: cannot touch 'x': Read-only file system", "x"),
            ("mkdir: cannot create directory ‘deep’: Permission denied", "deep"),
            ("sh: 1: cannot create out: Permission denied", "out"),
            ("fatal: cannot copy '/usr/a' to '.git/a': Read-only file system", ".git/a"),
            ("PermissionError: [Errno 13] Permission denied: 'a.tmp' -> 'a'", "a"),
            ("Error: EROFS: read-only file system, copyfile 'a' -> 'b'", "b"),
            ("fatal: cannot mkdir .git: Permission denied", ".git"),
            ("error: could not lock config file .git/config: Permission denied", ".git/config"),
        ] {
            assert_eq!(denied_file(line), Some(file), "{line}");
        }
        for line in [
            "all went well",
            "x.ModulEACCES: a",
            "Permission denied",
            ": Permission denied",
            "OSError: [Errno 30] Read-only file system",
            "",
        ] {
            assert_eq!(denied_file(line), None, "{line}");
        }
    }
}
