//! The hint for a script that failed with the exit code of a program that says nothing.

use std::path::Path;

use crate::hints::network::{RunNetwork, host_hint, no_network_hint, refused_hosts_hint};
use crate::hints::permission_hint::{Help, permission_hint};
use crate::hints::run_output::RunOutput;
use crate::hints::script_text::ScriptText;
use crate::hints::words::last_lines;
use metier_core::host::SkillContext;
use metier_core::policy::Access;

/// A program that fails in a sandbox and does not say why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SilentProgram {
    /// `curl -s` without a network.
    Curl,
    /// `wget -q` without a network.
    Wget,
    /// `git clone` without a network, and with its errors thrown away.
    GitClone,
    /// `git stash` in a repository that it may not change.
    GitStash,
}

/// Words of a line that says itself why a script failed, in lower case.
const COMPLAINTS: [&str; 15] = [
    "abort",
    "bad ",
    "cannot",
    "can't",
    "could not",
    "denied",
    "error",
    "expect",
    "fail",
    "fatal",
    "invalid",
    "missing",
    "must",
    "not ",
    "usage",
];

/// The hint for a script of this text, which failed with this exit code and without a network, and about which nothing else is known.
pub(crate) fn silent_program_hint(
    ctx: &SkillContext,
    project: &Path,
    (code, output): (Option<i32>, &RunOutput),
    script: &ScriptText<'_>,
    network: RunNetwork<'_>,
) -> Option<Help> {
    let (code, lines) = (code?, script.shell_lines());
    let program = silent_program(code, &lines)?;
    let is_silent = output.stderr().trim().is_empty();
    if program == SilentProgram::GitStash {
        let is_possible = is_silent && output.stdout().trim().is_empty() && project.join(".git").is_dir();
        return is_possible.then(|| git_stash_hint(ctx)).flatten();
    }
    // What a script wrote before may be its progress. Then nothing but a program without a word can have ended it.
    let is_progress = || {
        let complains = |line: &str| COMPLAINTS.iter().any(|words| line.to_lowercase().contains(words));
        !last_lines(output.stderr()).next().is_some_and(complains)
            && !lines.iter().any(|line| has_exit(line, code))
            && lines.iter().any(|line| program.is_called_silently(line))
    };
    if !is_silent && !is_progress() {
        return None;
    }
    if let Some(report) = network.report {
        // What it tried is known.
        return refused_hosts_hint(ctx, report);
    }
    let host = only_host(program, &lines);
    let by_name =
        || host.filter(|_| network.can_name_hosts).and_then(|(host, port)| host_hint(ctx, host, port));
    match program {
        SilentProgram::GitClone => host.and_then(|_| by_name().or_else(|| no_network_hint(ctx))),
        _ => no_network_hint(ctx).map(|without_name| by_name().unwrap_or(without_name)),
    }
}

fn git_stash_hint(ctx: &SkillContext) -> Option<Help> {
    let (help, hint) = permission_hint(ctx, &Access::write(".git"))?;
    Some((format!("the sandbox lets this script read .git, not change it; if git should, {help}"), hint))
}

/// The program in these lines that ends with this code for want of something that the sandbox denies.
fn silent_program(code: i32, lines: &[String]) -> Option<SilentProgram> {
    let candidates: &[SilentProgram] = match code {
        // Could not look up a host, could not connect.
        6 | 7 => &[SilentProgram::Curl],
        4 => &[SilentProgram::Wget],
        128 => &[SilentProgram::GitClone],
        1 => &[SilentProgram::GitStash],
        _ => &[],
    };
    candidates.iter().copied().find(|program| lines.iter().any(|line| program.is_called(line)))
}

impl SilentProgram {
    fn words(self) -> &'static str {
        match self {
            Self::Curl => "curl",
            Self::Wget => "wget",
            Self::GitClone => "git clone",
            Self::GitStash => "git stash",
        }
    }

    fn is_called(self, line: &str) -> bool {
        self.options(line).is_some()
    }

    /// What follows the program in a line that calls it.
    fn options(self, line: &str) -> Option<&str> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        line.match_indices(self.words()).find_map(|(at, words)| {
            let rest = &line[at + words.len()..];
            let is_whole =
                !line[..at].ends_with(|c: char| is_word(c) && c != '/') && !rest.starts_with(is_word);
            is_whole.then_some(rest)
        })
    }

    /// Whether a line calls it in such a way that it writes no error.
    fn is_called_silently(self, line: &str) -> bool {
        let Some(options) = self.options(line) else { return false };
        let is_thrown_away =
            ["2>/dev/null", "2> /dev/null", "&>/dev/null", "&> /dev/null", ">/dev/null 2>&1"]
                .iter()
                .any(|target| options.contains(target));
        let has = |long: &str, short: char| {
            options.split([' ', ')', '"', '\'']).any(|word| {
                let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
                word == long || letters.is_some_and(|letters| letters.len() <= 5 && letters.contains(short))
            })
        };
        is_thrown_away
            || match self {
                Self::Curl => has("--silent", 's') && !has("--show-error", 'S'),
                Self::Wget => has("--quiet", 'q'),
                Self::GitClone | Self::GitStash => false,
            }
    }
}

/// Whether a script ends with this code by itself in a line: `exit 6`, `sys.exit(6)`.
fn has_exit(line: &str, code: i32) -> bool {
    let code = code.to_string();
    line.match_indices("exit").any(|(at, word)| {
        let rest = line[at + word.len()..].trim_start_matches([' ', '(']);
        rest.strip_prefix(code.as_str()).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// The only host, with its port, of the URLs with which these lines call the program; `None` if a part of one is known at the run only.
fn only_host(program: SilentProgram, lines: &[String]) -> Option<(&str, u16)> {
    /// More calls or addresses than that have more than one host.
    const MAX_LINES: usize = 64;
    let calls: Vec<&str> =
        lines.iter().filter_map(|line| program.options(line)).take(MAX_LINES + 1).collect();
    let assigned: Vec<(&str, &str)> =
        lines.iter().filter_map(|line| assigned_url(line)).take(MAX_LINES + 1).collect();
    if calls.len() > MAX_LINES || assigned.len() > MAX_LINES {
        return None;
    }
    let is_used = |name: &str| {
        let (plain, in_braces) = (format!("${name}"), format!("${{{name}"));
        calls.iter().any(|call| call.contains(&plain) || call.contains(&in_braces))
    };
    let assigned = assigned.iter().filter(|(name, _)| is_used(name)).map(|(_, url)| *url);
    let mut hosts = calls.iter().flat_map(|call| urls(call)).chain(assigned).map(host_and_port);
    let first = hosts.next()??;
    hosts.all(|host| host == Some(first)).then_some(first)
}

/// The URLs in the arguments of a call, each from its scheme on.
fn urls(options: &str) -> impl Iterator<Item = &str> {
    let begins_argument = |at: usize| options[..at].ends_with([' ', '"', '\'', '=']);
    options
        .match_indices("http")
        .map(|(at, _)| at)
        .filter(move |at| begins_argument(*at))
        .map(|at| &options[at..])
}

/// The name and the URL of `NAME="https://…"`.
fn assigned_url(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_start().rsplit(' ').next()?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let url = value.trim_start_matches(['"', '\'']);
    (is_name && url.starts_with("http")).then_some((name, url))
}

/// The host and the port of a URL, if both are written there and the host is a name with a dot.
fn host_and_port(url: &str) -> Option<(&str, u16)> {
    let (rest, usual_port) = match url.strip_prefix("https://") {
        Some(rest) => (rest, 443),
        None => (url.strip_prefix("http://")?, 80),
    };
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || ".-".contains(c))).unwrap_or(rest.len());
    let (host, after) = rest.split_at(end);
    let port = match after.strip_prefix(':') {
        Some(port) => {
            let digits = port.find(|c: char| !c.is_ascii_digit()).unwrap_or(port.len());
            let after = &port[digits..];
            (after.is_empty() || ends_authority(after)).then(|| port[..digits].parse().ok()).flatten()?
        }
        None if after.is_empty() || ends_authority(after) => usual_port,
        None => return None,
    };
    let is_name = host.contains('.')
        && host.len() <= 253
        && !host.ends_with('.')
        && host.bytes().any(|byte| byte.is_ascii_alphabetic());
    is_name.then_some((host, port))
}

/// Whether the host of a URL ends before this, and not at a user before it, or at a variable.
fn ends_authority(after: &str) -> bool {
    after.starts_with(['/', '?', '#', '"', '\'', ' ', ')', ';'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_silent_program_is_recognized_by_its_exit_code() {
        for (code, text, program) in [
            (6, "R=$(curl -s https://x.com)", SilentProgram::Curl),
            (7, "/usr/bin/curl -s x | jq .", SilentProgram::Curl),
            (4, "set -e\nwget -q https://x.com", SilentProgram::Wget),
            (128, "git clone --quiet https://x.com/a d 2>/dev/null", SilentProgram::GitClone),
            (1, "git stash create", SilentProgram::GitStash),
        ] {
            assert_eq!(silent_program(code, &lines(text)), Some(program), "{text}");
        }
        for (code, text) in [
            (1, "curl -s https://x.com"),
            (22, "curl -sf https://x.com"),
            (6, "exit 6"),
            (6, "my-curl x"),
            (6, "curly"),
            (4, "curl -s x"),
            (1, "git status"),
        ] {
            assert_eq!(silent_program(code, &lines(text)), None, "{text}");
        }
    }

    #[test]
    fn a_call_is_silent_by_its_options_or_where_its_errors_go() {
        for line in [
            "curl -s x",
            "curl -fsL x",
            "curl --silent x",
            "R=$(curl x 2>/dev/null)",
            "curl -X POST -s \"$U\"",
        ] {
            assert!(SilentProgram::Curl.is_called_silently(line), "{line}");
        }
        for line in
            ["curl x", "curl -sS x", "curl -s --show-error x", "echo -s | x", "curl -X POST --data sample x"]
        {
            assert!(!SilentProgram::Curl.is_called_silently(line), "{line}");
        }
        assert!(SilentProgram::Wget.is_called_silently("wget -qO- x"));
        assert!(SilentProgram::GitClone.is_called_silently("git clone -q x d &>/dev/null"));
        assert!(!SilentProgram::GitClone.is_called_silently("git clone -q x d"));
    }

    #[test]
    fn the_host_is_named_that_all_calls_share() {
        for (text, host) in [
            ("curl -s https://x.test/a", Some(("x.test", 443))),
            ("curl -s \"http://x.test:8080/$A\"", Some(("x.test", 8080))),
            ("URL=\"https://x.test/hook\"\ncurl -s -X POST \"$URL\"", Some(("x.test", 443))),
            (
                "curl -s https://x.test/a; curl -s https://x.test/b\ncurl -s https://x.test",
                Some(("x.test", 443)),
            ),
            ("curl -s https://x.test/a\ncurl -s https://y.test/a", None),
            ("DOCS=https://y.test\ncurl -s https://x.test/a", Some(("x.test", 443))),
            ("curl -s https://$HOST/a", None),
            ("curl -s https://x.test$PORT/a", None),
            ("curl -s https://me:secret@x.test/a", None),
            ("curl -s http://127.0.0.1:3000/", None),
            ("curl -s http://localhost:3000/", None),
            ("curl -s \"$URL\"", None),
            ("echo https://x.test", None),
        ] {
            assert_eq!(only_host(SilentProgram::Curl, &lines(text)), host, "{text}");
        }
    }

    #[test]
    fn an_exit_of_the_script_with_the_code_is_found() {
        assert!(has_exit("exit 6", 6) && has_exit("sys.exit(6)", 6) && has_exit("[ x ] || exit 6;", 6));
        assert!(!has_exit("exit 60", 6) && !has_exit("exit $code", 6) && !has_exit("", 6));
    }
}
