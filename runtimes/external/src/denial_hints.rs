//! Why a sandboxed script may have failed: matches its error output with what the sandbox denied.
//!
//! The system says `Operation not permitted` and no more. A hint says what the sandbox certainly denies, and which grant would
//! change it; whether that made the script fail, only its author can know.

use std::path::{Path, PathBuf};

use crate::audience::is_for_person;
use crate::error_line::error_line;
use crate::hints::created_folder::created_folder_hint;
use crate::hints::database::database_hint;
use crate::hints::file_change::{
    denied_file_hint, refused_change_hint, refused_changes, unwritten_file_hint,
};
use crate::hints::git_change::git_hint;
use crate::hints::missing_file::skill_file_hint;
use crate::hints::network::{
    NETWORK_TEXTS, RunNetwork, fetch_hint, hosts_hint, named_host_hint, no_network_hint, refused_hosts_hint,
};
use crate::hints::permission_hint::{Help, permission_hint};
use crate::hints::repository::repository_hint;
use crate::hints::script_text::ScriptText;
use crate::hints::user_home::{named_home_hint, read_only_home_hint, user_home_hint};
use crate::hints::words::{MAX_LAST_BYTES, contains_word, last_lines, matches_any, searched_end};
use crate::interpreter::path::{is_executable_file, search_path};
use crate::system_paths::is_system_path;
use metier_core::error::Hint;
use metier_core::host::SkillContext;
use metier_core::policy::Access;

/// Error texts of a denied operation.
struct DenialPattern {
    /// In lower case; any row of them, with all texts of the row.
    error_texts: &'static [&'static [&'static str]],
    /// The grant that would allow it.
    access: fn() -> Access,
    /// What the sandbox denies.
    explanation: &'static str,
}

/// The first match counts.
const DENIAL_PATTERNS: [DenialPattern; 8] = [
    DenialPattern {
        error_texts: &[&["/dev/shm"], &["semlock"], &["shm_open"], &["shared_memory"]],
        access: Access::shm,
        explanation: "the sandbox has no memory that programs share by name (/dev/shm)",
    },
    DenialPattern {
        error_texts: &[
            &[PSEUDO_TERMINAL],
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
        explanation: "a script in a sandbox has no local sockets with a path (AF_UNIX) but its own in /tmp and TMPDIR, and those only without a grant for the network; pipes and `socketpair` connect its own processes",
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

/// What in lower case is about a terminal only if the script failed with it: `ssh` warns of it before anything else.
const PSEUDO_TERMINAL: &str = "pseudo-terminal";

/// Where a script ran.
#[derive(Clone, Copy)]
pub(super) struct RunPlace<'a> {
    pub(super) project: &'a Path,
    /// The home folder that the script had, if it is not that of the user.
    pub(super) home: Option<&'a Path>,
    pub(super) network: RunNetwork<'a>,
    pub(super) script: &'a ScriptText<'a>,
}

/// The hint for a script that failed with this output, which holds no secret; `None` if the sandbox denied nothing that it mentions.
pub(super) fn denial_hint(ctx: &SkillContext, said: &str, place: RunPlace<'_>) -> Option<Help> {
    let text = searched_end(said);
    let project = place.project;
    git_hint(ctx, project, error_line(text).into_iter())
        .or_else(|| repository_hint(ctx, project, last_lines(text)))
        .or_else(|| read_only_home_hint(ctx, place.home, text))
        .or_else(|| refused_change_hint(ctx, project, text))
        .or_else(|| git_hint(ctx, project, last_lines(text)))
        .or_else(|| user_home_hint(ctx, place.home, text))
        .or_else(|| network_hint(ctx, text, place.network))
        .or_else(|| pattern_hint(ctx, text, place.network.has_hosts()))
        .or_else(|| database_hint(ctx, place.script, text))
        .or_else(|| denied_file_hint(ctx, project, text))
        .or_else(|| skill_file_hint(ctx, project, text))
        .or_else(|| created_folder_hint(ctx, project, text))
        .or_else(|| fetch_hint(ctx, text).filter(|_| !place.network.has_hosts()))
        .or_else(|| missing_program_hint(ctx, text))
        .or_else(|| unwritten_file_hint(ctx, project, place.script, text))
        .or_else(|| named_home_hint(ctx, place.home, place.script, text))
}

/// The hint about the network, for a script that names what it missed there.
pub(super) fn network_hint(ctx: &SkillContext, text: &str, network: RunNetwork<'_>) -> Option<Help> {
    let by_hosts = network.report.and_then(|report| hosts_hint(ctx, &text.to_lowercase(), report));
    let can_name = network.can_name_hosts && !network.has_hosts();
    by_hosts.or_else(|| named_host_hint(ctx, text).filter(|_| can_name))
}

/// The hint for a script that was stopped at its deadline while it waited for a network that it does not have.
pub(super) fn waiting_hint(ctx: &SkillContext, said: &str, network: RunNetwork<'_>) -> Option<Help> {
    let text = searched_end(said);
    let is_about_network = || matches_any(&text.to_lowercase(), NETWORK_TEXTS);
    let without_name = || no_network_hint(ctx).filter(|_| !network.has_hosts() && is_about_network());
    network_hint(ctx, text, network)
        .or_else(without_name)
        .or_else(|| fetch_hint(ctx, text).filter(|_| !network.has_hosts()))
        .or_else(|| network.report.and_then(|report| refused_hosts_hint(ctx, report)))
}

/// Whether the end of an output has the words of a refused access, before anything is done with it.
pub(super) fn mentions_refusal(output: &[u8]) -> bool {
    const ENDS: [&[u8]; 4] = [b"ead-only file system", b"ermission denied", b"EROFS", b"EACCES"];
    let end = &output[output.len().saturating_sub(MAX_LAST_BYTES)..];
    ENDS.iter().any(|words| end.windows(words.len()).any(|part| part == *words))
}

/// The grant for what was refused a script that went on after it, of which this is an output: of its last lines with one of these
/// complaints, in lower case. `None` if they name nothing that a grant would open.
pub(super) fn refused_changes_hint(
    ctx: &SkillContext,
    project: &Path,
    said: &str,
    complaints: &[&str],
) -> Option<Help> {
    let is_complaint = |line: &&str| {
        let small = line.to_lowercase();
        complaints.iter().any(|complaint| small.contains(complaint))
    };
    let lines = || last_lines(searched_end(said)).filter(is_complaint);
    refused_changes(ctx, project, lines()).or_else(|| git_hint(ctx, project, lines()))
}

/// The program of the last lines that was not found, if it is on the user's `PATH` at a place that the sandbox does not show. What lies
/// there is only for the user.
fn missing_program_hint(ctx: &SkillContext, text: &str) -> Option<Help> {
    let name = last_lines(text).filter(|_| is_for_person(ctx)).find_map(missing_program)?;
    let is_there = |folder: PathBuf| Some(folder.join(name)).filter(|path| is_executable_file(path));
    let path = search_path().into_iter().find_map(is_there).filter(|path| !is_system_path(path))?;
    let text = format!(
        "{} is outside of the system's folders, where a script in a sandbox finds interpreters only; install {name} for the \
         whole system, or, if the script may have all your rights, grant exec:unsandboxed",
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

/// Words one of which is in a line that says why a program failed.
const FAILURE_WORDS: [&str; 14] = [
    "error",
    "errno",
    "exception",
    "fail",
    "fatal",
    "cannot",
    "can't",
    "could not",
    "unable",
    "denied",
    "not permitted",
    "refused",
    "no such",
    "not running",
];

/// The lines of an output in lower case, and those of them that say why the program failed.
struct FailedLines {
    all: String,
    reasons: Vec<String>,
}

impl FailedLines {
    fn new(text: &str) -> Self {
        let failed = error_line(text).map(str::to_lowercase);
        let is_of_terminal = failed.as_ref().is_some_and(|line| line.contains(PSEUDO_TERMINAL));
        let lines = text.lines().map(str::to_lowercase);
        let lines: Vec<String> =
            lines.filter(|line| is_of_terminal || !line.contains(PSEUDO_TERMINAL)).collect();
        let all = lines.join("\n");
        let says_why = |line: &String| {
            Some(line) == failed.as_ref() || FAILURE_WORDS.iter().any(|words| line.contains(words))
        };
        Self { all, reasons: lines.into_iter().filter(says_why).collect() }
    }

    fn has(&self, sign: &DenialPattern) -> bool {
        // All rights are no advice for a remark.
        if (sign.access)() == Access::exec_unsandboxed() {
            sign.error_texts.iter().any(|row| self.is_reason(row))
        } else {
            matches_any(&self.all, sign.error_texts)
        }
    }

    /// Whether a line that says why has all words of the row. In a traceback, which shows the call in lines of its own, it has one of them.
    fn is_reason(&self, row: &&[&str]) -> bool {
        let has_part = || row.iter().any(|words| self.reasons.iter().any(|line| contains_word(line, words)));
        self.reasons.iter().any(|line| matches_any(line, &[row]))
            || self.all.contains("traceback (most recent call last)")
                && matches_any(&self.all, &[row])
                && has_part()
    }
}

/// `has_hosts` says whether the script reached granted hosts, to which the texts of the network do not apply.
fn pattern_hint(ctx: &SkillContext, text: &str, has_hosts: bool) -> Option<Help> {
    let lines = FailedLines::new(text);
    let applies = |sign: &&DenialPattern| !has_hosts || (sign.access)() != Access::network();
    let sign = DENIAL_PATTERNS
        .iter()
        .filter(|sign| applies(sign) && lines.has(sign))
        .find(|sign| !ctx.permissions().allows(&(sign.access)()))?;
    let (help, hint) = permission_hint(ctx, &(sign.access)())?;
    Some((format!("{}; if the script needs it, {help}", sign.explanation), hint))
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
}
