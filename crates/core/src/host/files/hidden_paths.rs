//! The paths of a tree that a delta hides: a run has removed them, and the tree still has them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{ErrorKind, SkillError};
use crate::host::io_error::into_io_error;

/// Maximum paths; a change set holds no more.
const MAX_HIDDEN: usize = 200_000;

/// Paths without symbolic links, relative to the tree. Each stands for all that the tree has below it.
#[derive(Clone, Debug, Default)]
pub struct HiddenPaths {
    /// The names in each folder.
    folders: BTreeMap<PathBuf, BTreeSet<OsString>>,
    count: usize,
}

impl HiddenPaths {
    /// Whether nothing of the tree is seen at this path: it, or a folder above it, is hidden.
    pub fn covers(&self, path: &Path) -> bool {
        self.count > 0 && path.ancestors().any(|path| self.contains(path))
    }

    /// Whether this path itself is hidden.
    pub fn contains(&self, path: &Path) -> bool {
        let Some((folder, name)) = path.parent().zip(path.file_name()) else { return false };
        self.folders.get(folder).is_some_and(|names| names.contains(name))
    }

    /// The hidden names in a folder.
    pub fn names_in(&self, folder: &Path) -> impl Iterator<Item = &OsString> {
        self.folders.get(folder).into_iter().flatten()
    }

    /// Hides a path, in the place of those below it.
    pub(super) fn add(&mut self, path: &Path) -> io::Result<()> {
        let Some((folder, name)) = path.parent().zip(path.file_name()) else { return Ok(()) };
        let below = self.folders.range(path.to_owned()..).map(|(folder, _)| folder);
        let below: Vec<PathBuf> = below.take_while(|folder| folder.starts_with(path)).cloned().collect();
        for folder in below {
            self.count -= self.folders.remove(&folder).map_or(0, |names| names.len());
        }
        if self.count >= MAX_HIDDEN {
            let sentence = format!("the run has removed {MAX_HIDDEN} paths, the most that a preview holds");
            let help = "let the skill change less in one run, or run it without a preview";
            return Err(into_io_error(SkillError::new(ErrorKind::Denied, sentence).with_help(help)));
        }
        let is_new = self.folders.entry(folder.to_owned()).or_default().insert(name.to_owned());
        self.count += usize::from(is_new);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_folder_stands_for_all_below_it() {
        let mut hidden = HiddenPaths::default();
        for path in ["a/b/c", "a/b/d", "a/bc", "a-b", "a/b"] {
            hidden.add(Path::new(path)).unwrap();
        }
        assert_eq!(hidden.count, 3);
        for path in ["a/b", "a/b/c", "a/b/new/x", "a/bc", "a-b/x"] {
            assert!(hidden.covers(Path::new(path)), "{path}");
        }
        for path in ["", "a", "a/bcd", "a/c", "b"] {
            assert!(!hidden.covers(Path::new(path)), "{path}");
        }
        assert!(!hidden.contains(Path::new("a/b/c")));
        assert_eq!(hidden.names_in(Path::new("a")).collect::<Vec<_>>(), ["b", "bc"]);
        assert_eq!(hidden.names_in(Path::new("a/b")).count(), 0);
    }

    #[test]
    fn hidden_paths_have_a_maximum() {
        let mut hidden = HiddenPaths::default();
        for number in 0..MAX_HIDDEN {
            hidden.add(&Path::new("folder").join(number.to_string())).unwrap();
        }
        let refused = hidden.add(Path::new("folder/more")).unwrap_err();
        assert!(refused.to_string().contains("the most that a preview holds"), "{refused}");
        hidden.add(Path::new("folder")).unwrap();
        assert_eq!(hidden.count, 1, "the folder stands for all of them");
    }
}
