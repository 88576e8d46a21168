//! The hint for a script that failed without a word, with the exit code of a program that says nothing.

use std::path::Path;

use crate::host::SkillContext;
use crate::policy::Access;
use crate::runtimes::external::hints::network::no_network_hint;
use crate::runtimes::external::hints::permission_hint::{Help, permission_hint};

/// A program that fails in a sandbox and does not say why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SilentProgram {
    /// `curl -s` and `wget -q` without a network.
    Download,
    /// `git stash` in a repository that it may not change.
    GitStash,
}

/// The hint for a script of this text, with these arguments, which failed with this exit code and about which nothing else is known.
/// `is_silent` says that it wrote nothing at all.
pub(crate) fn silent_program_hint(
    ctx: &SkillContext,
    (project, is_silent): (&Path, bool),
    code: Option<i32>,
    (source, args): (&[u8], &[String]),
) -> Option<Help> {
    let texts = std::iter::once(String::from_utf8_lossy(source)).chain(args.iter().map(Into::into));
    let text = texts.collect::<Vec<_>>().join("\n");
    match silent_program(code?, &text)? {
        SilentProgram::Download => no_network_hint(ctx),
        SilentProgram::GitStash if is_silent && project.join(".git").is_dir() => {
            let (help, hint) = permission_hint(ctx, &Access::write(".git"))?;
            Some((
                format!("the sandbox lets this script read .git, not change it; if git should, {help}"),
                hint,
            ))
        }
        SilentProgram::GitStash => None,
    }
}

/// The program in this text that ends with this code for want of something that the sandbox denies.
fn silent_program(code: i32, text: &str) -> Option<SilentProgram> {
    let calls = |program: &str| {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        text.lines().filter(|line| !line.trim_start().starts_with('#')).any(|line| {
            line.match_indices(program).any(|(at, _)| {
                let rest = &line[at + program.len()..];
                !line[..at].ends_with(|c: char| is_word(c) && c != '/') && !rest.starts_with(is_word)
            })
        })
    };
    match code {
        // Could not look up a host, could not connect.
        6 | 7 if calls("curl") => Some(SilentProgram::Download),
        4 if calls("wget") => Some(SilentProgram::Download),
        1 if calls("git stash") => Some(SilentProgram::GitStash),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_program_is_recognized_by_its_exit_code() {
        let download = Some(SilentProgram::Download);
        assert_eq!(silent_program(6, "R=$(curl -s https://x.com)"), download);
        assert_eq!(silent_program(7, "/usr/bin/curl -s x | jq ."), download);
        assert_eq!(silent_program(4, "set -e\nwget -q https://x.com"), download);
        assert_eq!(silent_program(1, "git stash create"), Some(SilentProgram::GitStash));
        for (code, text) in [
            (1, "curl -s https://x.com"),
            (22, "curl -sf https://x.com"),
            (6, "exit 6"),
            (6, "# curl is not used\nexit 6"),
            (6, "my-curl x"),
            (6, "curly"),
            (4, "curl -s x"),
            (1, "git status"),
        ] {
            assert_eq!(silent_program(code, text), None, "{text}");
        }
    }
}
