//! Why a sandboxed script may have failed, as far as the sandbox knows it: what it observed, and what a path in the output is to the run.

use std::path::PathBuf;

use crate::audience::is_for_person;
use crate::hints::network::{RunNetwork, network_hint};
use crate::hints::refused_path::path_hint;
use crate::hints::repository::repository_hint;
use crate::hints::sandbox_limits::sandbox_limit_hint;
use crate::hints::words::{last_lines, searched_end};
use crate::interpreter::path::{is_executable_file, search_path};
use crate::observation::PathCheck;
use crate::permission_hint::Help;
use crate::system_paths::is_system_path;
use metier_core::host::SkillContext;

/// The hint for a script that failed with this output, which holds no secret; `None` if the sandbox refused nothing that it mentions.
pub(super) fn denial_hint(
    ctx: &SkillContext,
    said: &str,
    check: Option<PathCheck<'_>>,
    network: RunNetwork<'_>,
) -> Option<Help> {
    let text = searched_end(said);
    repository_hint(ctx, last_lines(text))
        .or_else(|| path_hint(check?, text))
        .or_else(|| network_hint(ctx, text, network))
        .or_else(|| sandbox_limit_hint(ctx, text))
        .or_else(|| missing_program_hint(ctx, text))
}

/// The hint about a program of the last lines that was not found, if it is on the user's `PATH` at a place that the sandbox does not show.
/// What lies there is only for the user.
fn missing_program_hint(ctx: &SkillContext, text: &str) -> Option<Help> {
    let name = last_lines(text).filter(|_| is_for_person(ctx)).find_map(missing_program)?;
    let is_there = |folder: PathBuf| Some(folder.join(name)).filter(|path| is_executable_file(path));
    let path = search_path().into_iter().find_map(is_there).filter(|path| !is_system_path(path))?;
    let text = format!(
        "{} is outside of the system's folders, where a script in a sandbox finds its programs; install {name} for the whole system",
        path.display()
    );
    Some((text, None))
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
