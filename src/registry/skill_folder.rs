//! A skill's folder, on disk or inside the program.

use std::path::{Path, PathBuf};

use crate::registry::drop_in;
use crate::registry::embedded::EmbeddedSkill;
use crate::registry::file_reader::{check_size, read_file};
use metier_core::error::{Result, SkillError};
use metier_core::host::Files;
use metier_core::host::files::{EntryKind, FilesView, WalkFilter, WalkOptions, path_below};
use metier_core::policy::CancelToken;

/// Maximum depth of a file listing.
const MAX_LISTED_DEPTH: usize = 8;

/// Where a skill's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkillFolder {
    /// A folder on disk, absolute.
    Disk(PathBuf),
    /// A script on disk that is a skill by itself, absolute. It has a `SKILL.md` made of its leading comment, a `skill.yaml` if a
    /// comment holds a contract, and itself in `scripts/`.
    Script(PathBuf),
    /// Part of the program.
    Embedded(&'static EmbeddedSkill),
}

impl SkillFolder {
    /// The bytes of one of its files, of at most `cap` bytes. The path is relative, `/`-separated.
    ///
    /// Links are followed inside the folder; what leads out is `denied`. A missing, larger or irregular file is `io`.
    pub fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>> {
        match self {
            Self::Disk(folder) => Self::read_from(&Files::open(folder)?, path, cap),
            Self::Script(script) => {
                let path = path_below(path, None, "the skill")?;
                let mut files = drop_in::virtual_files(script)?.into_iter();
                let found = files.find(|(known, _)| *known == path);
                let (_, bytes) = found.ok_or_else(|| not_found_error(&path))?;
                check_size(&path, bytes.len() as u64, cap)?;
                Ok(bytes)
            }
            Self::Embedded(skill) => {
                let path = path_below(path, None, "the skill")?;
                let bytes = skill.file(&path).ok_or_else(|| not_found_error(&path))?.to_vec();
                check_size(&path, bytes.len() as u64, cap)?;
                Ok(bytes)
            }
        }
    }

    /// Like [`SkillFolder::read`], from an open folder on disk.
    pub(crate) fn read_from(files: &Files, path: &str, cap: u64) -> Result<Vec<u8>> {
        read_file(files, path, cap)
    }

    /// Its regular files down to eight folders deep, except hidden files and links: relative, `/`-separated, sorted.
    pub fn files(&self) -> Result<Vec<String>> {
        match self {
            Self::Disk(folder) => regular_files(&Files::open(folder)?, "", MAX_LISTED_DEPTH),
            Self::Script(script) => virtual_paths(script, |_| true),
            Self::Embedded(skill) => Ok(embedded_files(skill, |_| true)),
        }
    }

    /// The folder on disk, opened, if there is one that can be.
    pub(crate) fn open(&self) -> Option<Files> {
        match self {
            Self::Disk(folder) => Files::open(folder).ok(),
            Self::Script(_) | Self::Embedded(_) => None,
        }
    }

    /// The regular files directly in one of its folders, named as in [`SkillFolder::files`]; none when it does not exist. `opened` is what
    /// [`SkillFolder::open`] has returned; without it, the folder is opened.
    pub(crate) fn files_in(&self, subfolder: &str, opened: Option<&Files>) -> Result<Vec<String>> {
        let lies_in = |path: &String| path.rsplit_once('/').is_some_and(|(parent, _)| parent == subfolder);
        Ok(self.files_to_depth(subfolder, 1, opened)?.into_iter().filter(lies_in).collect())
    }

    /// Like [`SkillFolder::files_in`], including files in subfolders of that folder.
    pub(crate) fn files_under(&self, subfolder: &str) -> Result<Vec<String>> {
        self.files_to_depth(subfolder, MAX_LISTED_DEPTH, None)
    }

    fn files_to_depth(&self, subfolder: &str, depth: usize, opened: Option<&Files>) -> Result<Vec<String>> {
        match self {
            Self::Disk(folder) => {
                let files = match opened {
                    Some(files) => files,
                    None => &Files::open(folder)?,
                };
                let listed = regular_files(files, subfolder, depth);
                // Most skills have the folder, so that it is not looked for before.
                listed.or_else(|error| if files.has(subfolder) { Err(error) } else { Ok(Vec::new()) })
            }
            Self::Script(script) => virtual_paths(script, |path| is_below(path, subfolder)),
            Self::Embedded(skill) => Ok(embedded_files(skill, |path| is_below(path, subfolder))),
        }
    }

    /// The folder on disk, or the script that is a skill by itself; `None` for a skill inside the program.
    pub fn disk_path(&self) -> Option<&Path> {
        match self {
            Self::Disk(path) | Self::Script(path) => Some(path),
            Self::Embedded(_) => None,
        }
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

fn virtual_paths(script: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let files = drop_in::virtual_files(script)?;
    Ok(files.into_iter().map(|(path, _)| path).filter(|path| is_wanted(path)).collect())
}

fn embedded_files(skill: &EmbeddedSkill, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let paths = skill.files().iter().map(|(path, _)| *path);
    let mut paths: Vec<String> = paths.filter(|path| is_wanted(path)).map(str::to_owned).collect();
    paths.sort_unstable();
    paths
}

fn regular_files(files: &Files, start: &str, depth: usize) -> Result<Vec<String>> {
    let view = FilesView::unrestricted(files).with_label("the skill");
    let cancel = CancelToken::default();
    let walk = WalkOptions { cancel: &cancel, filter: WalkFilter::SkipNothing, depth: Some(depth) };
    let list = |start: &str| {
        let mut found = Vec::new();
        view.walk(start, &walk, |entry| {
            let is_hidden = entry.path.split('/').any(|name| name.starts_with('.'));
            if entry.kind == EntryKind::File && !is_hidden {
                found.push(entry.path);
            }
            Ok(())
        })?;
        Ok::<_, SkillError>(found)
    };
    // A link is followed where it leads, which is seldom.
    let mut found = list(start).or_else(|_| list(&view.resolve_folder(start)?))?;
    found.sort_unstable();
    Ok(found)
}

fn not_found_error(path: &str) -> SkillError {
    SkillError::io(format_args!("failed to read {path}"), std::io::ErrorKind::NotFound.into())
}
