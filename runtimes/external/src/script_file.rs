//! The script on disk: its path, and the check that it is still what was loaded.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::Script;
use metier_core::host::files::FilesView;
use metier_core::host::{Files, HostPaths};

/// A script inside its skill's folder.
pub(super) struct ScriptFile {
    /// The path inside the folder, safe to display.
    name: String,
    /// Absolute.
    folder: PathBuf,
    path: PathBuf,
    /// The same inside the folder.
    relative_path: String,
    source: Arc<[u8]>,
}

impl ScriptFile {
    /// The file of a script; `invalid-skill` when it has no folder or its path leads out of it.
    pub(super) fn new(script: &Script) -> Result<Self> {
        let name = printable(&script.path);
        let Some(folder) = &script.folder else {
            let sentence = format!("{name} has no folder on disk, and an interpreter needs a file to run");
            return Err(SkillError::new(ErrorKind::InvalidSkill, sentence)
                .with_help("copy the skill to a folder, or write the script in an embedded language"));
        };
        let is_inside = Path::new(&script.path).components().all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || script.path.is_empty() || script.path.contains('\0') {
            return Err(outside_error(&name));
        }
        let folder = std::path::absolute(folder)
            .map_err(|error| SkillError::io(format_args!("failed to find {}", folder.display()), error))?;
        let (path, inside) = (folder.join(&script.path), script.path.clone());
        Ok(Self { path, relative_path: inside, name, folder, source: script.source.clone() })
    }

    /// The name in errors: the path inside the folder, control characters escaped.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The bytes that were loaded.
    #[cfg_attr(not(unix), allow(dead_code, reason = "nothing runs there"))]
    pub(super) fn source(&self) -> &[u8] {
        &self.source
    }

    /// The path inside the folder, `/`-separated.
    #[cfg_attr(not(unix), allow(dead_code, reason = "nothing runs there"))]
    pub(super) fn relative_path(&self) -> &str {
        &self.relative_path
    }

    /// The skill's folder, absolute.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a regular file inside this folder, which is the skill's, holds the bytes that were loaded. If not,
    /// [`ScriptFile::verified_path`] gives the reason.
    #[cfg_attr(not(unix), allow(dead_code, reason = "nothing runs there"))]
    pub(super) fn is_unchanged_in(&self, folder: &Files) -> bool {
        FilesView::unrestricted(folder).read(&self.relative_path).is_ok_and(|bytes| *bytes == *self.source)
    }

    /// The absolute path, for callers that know that the script is there.
    #[cfg_attr(not(unix), allow(dead_code, reason = "nothing runs there"))]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The absolute path, after a check that the file is a regular one inside the folder with the bytes that
    /// were loaded. Who may write there can still win a race against the interpreter.
    pub(super) fn verified_path(&self, paths: &HostPaths) -> Result<PathBuf> {
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                let sentence = format!("{} is gone from {}", self.name, self.folder.display());
                SkillError::new(ErrorKind::Unavailable, sentence)
            }
            _ => SkillError::io(format_args!("failed to read {}", self.name), error),
        };
        let folder = paths.canonicalize(&self.folder).map_err(failed)?;
        let real = paths.canonicalize(&self.path).map_err(failed)?;
        if !real.starts_with(folder) {
            return Err(outside_error(&self.name));
        }
        if !paths.metadata(&real).map_err(failed)?.is_file() {
            let sentence = format!("{} is not a file", self.name);
            return Err(SkillError::new(ErrorKind::InvalidSkill, sentence));
        }
        if *std::fs::read(paths.at(&real)).map_err(failed)? != *self.source {
            let sentence = format!("{} has changed since it was loaded", self.name);
            return Err(SkillError::new(ErrorKind::InvalidSkill, sentence).with_help("run it again"));
        }
        Ok(self.path.clone())
    }
}

fn outside_error(name: &str) -> SkillError {
    SkillError::new(ErrorKind::InvalidSkill, format!("{name} leads out of the skill's folder"))
        .with_help("copy the script into the skill's folder")
}

/// A path may contain line breaks and terminal codes; an error message must not.
fn printable(path: &str) -> String {
    if path.chars().any(char::is_control) { path.escape_debug().to_string() } else { path.to_owned() }
}
