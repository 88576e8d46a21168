//! Creates a git history from a list of commits, with the same hashes on every machine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::cases::file_fixture::{FileContent, write_files};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::Files;
use metier_core::host::untrusted::UntrustedDirs;

/// One commit: its message, the files it writes, and its tag.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(super) struct Commit {
    message: String,
    #[serde(default)]
    files: BTreeMap<String, FileContent>,
    tag: Option<String>,
}

/// Author, committer and configuration, so that nothing of the machine affects a hash.
const GIT_ENVIRONMENT: [(&str, &str); 6] = [
    ("GIT_AUTHOR_NAME", "Ann"),
    ("GIT_AUTHOR_EMAIL", "ann@example.org"),
    ("GIT_COMMITTER_NAME", "Ann"),
    ("GIT_COMMITTER_EMAIL", "ann@example.org"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
];
/// The first commit's time: 2026-01-31, noon. Each later one is a minute younger.
const FIRST_COMMIT_TIME: u64 = 1_769_860_800;

/// Creates a repository of these commits, oldest first.
pub(super) fn write_git_history(
    project: &Files,
    commits: &[Commit],
    strangers: &UntrustedDirs,
) -> Result<()> {
    if let Some(path) =
        commits.iter().flat_map(|commit| commit.files.keys()).find(|path| is_git_internal(path))
    {
        let sentence = format!("failed to lay out {path}: what is in .git is git's own");
        return Err(SkillError::new(ErrorKind::Denied, sentence));
    }
    let git = Git::locate(strangers)?;
    let git = |project: &Files, time, args: &[&str]| git.run(project, time, args);
    git(project, FIRST_COMMIT_TIME, &["init", "--quiet", "--template=", "--initial-branch=main"])?;
    for (commit, time) in commits.iter().zip((FIRST_COMMIT_TIME..).step_by(60)) {
        write_files(project, &commit.files)?;
        git(project, time, &["add", "--all"])?;
        git(project, time, &["commit", "--quiet", "--allow-empty", "--message", &commit.message])?;
        if let Some(tag) = &commit.tag {
            git(project, time, &["tag", "--", tag])?;
        }
    }
    Ok(())
}

/// Whether git would use the file itself: its configuration and hooks are commands.
fn is_git_internal(path: &str) -> bool {
    let is_git = |name: &str| {
        let name = name.trim_end_matches(['.', ' ']).to_lowercase();
        name == ".git" || name.starts_with("git~")
    };
    path.split(['/', '\\']).any(is_git)
}

/// The git program, and the folders in which it finds other programs.
struct Git {
    program: PathBuf,
    search_path: OsString,
}

impl Git {
    /// The first git on `PATH` that is not in an untrusted folder: it runs with all rights of the user.
    fn locate(strangers: &UntrustedDirs) -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_fit = |folder: &PathBuf| folder.is_absolute() && !strangers.may_control(folder);
        let folders: Vec<PathBuf> = std::env::split_paths(&path).filter(is_fit).collect();
        let name = format!("git{}", std::env::consts::EXE_SUFFIX);
        let mut programs = folders.iter().map(|folder| folder.join(&name));
        let program = programs.find(|program| program.is_file() && !strangers.may_control(program));
        let program = program.ok_or_else(|| {
            let sentence = "git is not on PATH, or in the project alone, which is not trusted to bring one";
            SkillError::new(ErrorKind::Unavailable, sentence).with_help("install git")
        })?;
        let failed = |error| SkillError::io("failed to start git", std::io::Error::other(error));
        Ok(Self { program, search_path: std::env::join_paths(folders).map_err(failed)? })
    }

    fn run(&self, project: &Files, time: u64, args: &[&str]) -> Result<()> {
        let time = format!("{time} +0000");
        let done = Command::new(&self.program)
            .args(args)
            .current_dir(project.root())
            .stdin(Stdio::null())
            // When run from a git hook, git would otherwise write into the repository of that hook.
            .env_clear()
            .env("PATH", &self.search_path)
            .envs(GIT_ENVIRONMENT)
            .envs([("GIT_AUTHOR_DATE", &time), ("GIT_COMMITTER_DATE", &time)])
            .output()
            .map_err(|source| SkillError::io("failed to start git", source))?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        Err(SkillError::new(ErrorKind::Io, format!("git {} failed: {}", args[0], said.trim())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_cannot_bring_hooks_or_configuration() {
        for path in [".git/hooks/pre-commit", "a/.GIT/config", ".git", ".git./config", "GIT~1/config"] {
            let folder = tempfile::tempdir().unwrap();
            let commit = Commit {
                message: "x".into(),
                files: BTreeMap::from([(path.into(), FileContent::from_bytes(b"x"))]),
                tag: None,
            };
            let error =
                write_git_history(&Files::open(folder.path()).unwrap(), &[commit], &UntrustedDirs::new([]))
                    .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{path}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was laid out");
        }
        assert!(!is_git_internal(".github/workflows/git.yml") && !is_git_internal(".gitignore"));
    }
}
