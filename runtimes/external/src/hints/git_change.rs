//! Recognises that git was refused a change of its repository: most of its commands write more files below `.git` than they name.

use std::path::Path;

use crate::hints::denied_file::FILE_DENIED_TEXTS;
use crate::hints::permission_hint::{Help, permission_hint};
use metier_core::host::SkillContext;
use metier_core::policy::Access;

/// What git says where it may not write, in lower case; each of them also stands in errors that have other reasons, without the reason
/// of the system.
const REFUSED_CHANGES: [&str; 9] = [
    "cannot open '",
    "unable to create temporary file: ",
    "could not lock config file .git/",
    "unable to create '",
    "unable to move logfile ",
    "could not open '",
    "cannot lock ref '",
    "could not write ",
    "unable to write ",
];

/// What it says without a reason of the system.
const REFUSED_FOLDER: &str = "unable to create directory for .git/";
const REFUSED_INDEX: &str = "could not write index";

/// The hint for a script that wrote these lines, in which git failed to change the repository of the project.
pub(crate) fn git_hint<'a>(
    ctx: &SkillContext,
    project: &Path,
    mut lines: impl Iterator<Item = &'a str>,
) -> Option<Help> {
    let is_of_project = |line: &&str| is_refused_change(line) && !names_other_repository(line, project);
    if !lines.any(|line| is_of_project(&line)) || !project.join(".git").is_dir() {
        return None;
    }
    let (help, hint) = permission_hint(ctx, &Access::write(".git"))?;
    Some((format!("the sandbox lets this script read .git, not change it; if git should, {help}"), hint))
}

/// Whether the line names a path in the `.git` of another folder, such as one below the project.
fn names_other_repository(line: &str, project: &Path) -> bool {
    let Some(at) = line.find("/.git/") else { return false };
    let start = line[..at].rfind(['\'', '"', ' ']).map_or(0, |before| before + 1);
    let folder = Path::new(&line[start..at]);
    folder.is_absolute() && folder != project
}

/// Whether git says in this line that it could not write below `.git`.
fn is_refused_change(line: &str) -> bool {
    let small = line.to_ascii_lowercase();
    let Some(sentence) = ["error: ", "fatal: "].iter().find_map(|start| {
        // Programs that call git put their own words before.
        small.find(start).map(|at| &small[at + start.len()..])
    }) else {
        return false;
    };
    if sentence.contains(REFUSED_FOLDER) || sentence == REFUSED_INDEX {
        return true;
    }
    let is_denied = FILE_DENIED_TEXTS.iter().any(|complaint| sentence.contains(complaint));
    let is_of_git = |words: &&&str| {
        sentence.strip_prefix(**words).is_some_and(|rest| {
            let says_what = ["unable to create temporary file: ", "could not lock config file .git/"]
                .contains(*words)
                || words.starts_with("cannot lock ref");
            says_what || rest.contains(".git/") || rest.contains("logs/refs/")
        })
    };
    is_denied && REFUSED_CHANGES.iter().find(is_of_git).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_repository_is_not_that_of_the_project() {
        let project = Path::new("/p");
        for (line, is_other) in [
            ("fatal: Unable to create '/p/vendor/.git/index.lock': Read-only file system", true),
            ("fatal: Unable to create '/p/.git/index.lock': Read-only file system", false),
            ("error: cannot open '.git/FETCH_HEAD': Read-only file system", false),
            ("error: unable to create temporary file: Read-only file system", false),
        ] {
            assert_eq!(names_other_repository(line, project), is_other, "{line}");
        }
    }

    #[test]
    fn a_refused_change_of_the_repository_is_found_in_the_words_of_git() {
        for line in [
            "error: unable to create temporary file: Read-only file system",
            "attested-run: pre-run fingerprint failed: error: unable to create temporary file: Read-only file system",
            "error: could not lock config file .git/config: Read-only file system",
            "fatal: Unable to create '/p/.git/index.lock': Read-only file system",
            "fatal: Unable to create '/p/.git/index.lock': Permission denied",
            "error: unable to move logfile logs/refs/heads/main to logs/refs/.tmp-renamed-log: Read-only file system",
            "fatal: cannot lock ref 'refs/heads/x/y': unable to create directory for .git/refs/heads/x/y",
            "fatal: cannot lock ref 'HEAD': Unable to create '/p/.git/HEAD.lock': Read-only file system",
            "error: could not write index",
            "error: cannot open '.git/FETCH_HEAD': Read-only file system",
            "fatal: could not open '.git/COMMIT_EDITMSG' for writing: Read-only file system",
        ] {
            assert!(is_refused_change(line), "{line}");
        }
    }

    #[test]
    fn what_git_says_for_other_reasons_is_no_refused_change() {
        for line in [
            "fatal: cannot lock ref 'refs/heads/a/b': 'refs/heads/a' exists; cannot create 'refs/heads/a/b'",
            "fatal: Unable to create '/p/.git/index.lock': File exists.",
            "fatal: could not open 'notes.txt' for writing: Read-only file system",
            "error: unable to create file docs/a.md: Read-only file system",
            "fatal: not a git repository (or any of the parent directories): .git",
            "fatal: could not read Username for 'https://x.com': terminal prompts disabled",
            "error: could not write index.html",
            "error: could not write out/a.txt: Permission denied",
            "error: unable to write out/a.txt: Read-only file system",
            "unable to create temporary file: Read-only file system",
            "git@github.com: Permission denied (publickey).",
            "",
        ] {
            assert!(!is_refused_change(line), "{line}");
        }
    }
}
