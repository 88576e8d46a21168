//! Operations on files, in a plain folder or as an overlay mount writes them into its upper folder.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::getxattr;

use super::{make_opaque, set_mode, whiteout};

/// Something that a script does.
#[derive(Clone, Debug)]
pub enum Action {
    Write(String, String),
    Append(String, String),
    MakeFolder(String),
    Remove(String),
    Rename(String, String),
    Link(String, String),
    SetMode(String, u32),
}

/// What a script sees: an upper folder, and below it perhaps a lower one.
pub struct Overlay {
    pub lower: Option<PathBuf>,
    pub upper: PathBuf,
}

impl Overlay {
    /// Does it, unless a system would refuse it.
    pub fn run(&self, action: &Action) {
        match action {
            Action::Write(path, content) => self.write(path, content, true),
            Action::Append(path, content) => self.write(path, content, false),
            Action::MakeFolder(path) => {
                if self.can_create(path) {
                    self.copy_up_parents(path);
                    let is_hidden = self.is_whiteout(path);
                    self.remove_whiteout(path);
                    fs::create_dir(self.upper.join(path)).unwrap();
                    if is_hidden {
                        make_opaque(&self.upper, path);
                    }
                }
            }
            Action::Remove(path) => self.remove(path),
            Action::Rename(from, to) => {
                let is_file = |path: &str| {
                    self.find(path).is_some_and(|found| found.symlink_metadata().unwrap().is_file())
                };
                if from != to && is_file(from) && (self.can_create(to) || is_file(to)) {
                    let found = self.find(from).unwrap();
                    let (content, mode) = (fs::read(&found).unwrap(), found.metadata().unwrap().mode());
                    self.remove(from);
                    self.remove(to);
                    self.copy_up_parents(to);
                    self.remove_whiteout(to);
                    fs::write(self.upper.join(to), content).unwrap();
                    set_mode(&self.upper, to, mode & 0o7777);
                }
            }
            Action::Link(path, target) => {
                if self.can_create(path) {
                    self.copy_up_parents(path);
                    self.remove_whiteout(path);
                    symlink(target, self.upper.join(path)).unwrap();
                }
            }
            Action::SetMode(path, mode) => {
                if let Some(found) = self.find(path)
                    && !found.is_symlink()
                {
                    // A folder stays usable.
                    let mode = if found.is_dir() { mode | 0o700 } else { *mode };
                    self.copy_up(path);
                    set_mode(&self.upper, path, mode);
                }
            }
        }
    }

    fn write(&self, path: &str, content: &str, truncates: bool) {
        let is_file = self.find(path).is_some_and(|found| found.symlink_metadata().unwrap().is_file());
        if !is_file && !self.can_create(path) {
            return;
        }
        if is_file {
            self.copy_up(path);
        } else {
            self.copy_up_parents(path);
            self.remove_whiteout(path);
        }
        let old = if truncates {
            String::new()
        } else {
            fs::read_to_string(self.upper.join(path)).unwrap_or_default()
        };
        fs::write(self.upper.join(path), old + content).unwrap();
    }

    fn remove(&self, path: &str) {
        if self.find(path).is_none() {
            return;
        }
        let below = self.lower_path(path);
        self.copy_up_parents(path);
        let above = self.upper.join(path);
        match above.symlink_metadata() {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&above).unwrap(),
            Ok(_) => fs::remove_file(&above).unwrap(),
            Err(_) => {}
        }
        if below.is_some_and(|below| below.symlink_metadata().is_ok()) {
            whiteout(&self.upper, path);
        }
    }

    /// Whether nothing is there, and a folder above it.
    fn can_create(&self, path: &str) -> bool {
        let is_folder = |path: &str| {
            path.is_empty() || self.find(path).is_some_and(|found| found.symlink_metadata().unwrap().is_dir())
        };
        self.find(path).is_none() && is_folder(path.rsplit_once('/').map_or("", |(above, _)| above))
    }

    /// Where the file lies that the script sees at a path.
    fn find(&self, path: &str) -> Option<PathBuf> {
        // No action goes through a link.
        if path.match_indices('/').any(|(at, _)| self.upper.join(&path[..at]).is_symlink()) {
            return None;
        }
        let above = self.upper.join(path);
        match above.symlink_metadata() {
            Ok(found) if found.file_type().is_char_device() => None,
            Ok(_) => Some(above),
            Err(_) => self.lower_path(path).filter(|below| below.symlink_metadata().is_ok()),
        }
    }

    /// The path in the lower folder, if no folder above hides it.
    fn lower_path(&self, path: &str) -> Option<PathBuf> {
        let lower = self.lower.as_ref()?;
        let mut above = Path::new(path);
        while let Some(parent) = above.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            above = parent;
            let is_hidden = match self.upper.join(above).symlink_metadata() {
                Ok(found) => {
                    let mut value = [0; 4];
                    !found.is_dir()
                        || getxattr(self.upper.join(above), "user.overlay.opaque", &mut value).is_ok()
                }
                Err(_) => false,
            };
            let is_folder = lower.join(above).symlink_metadata().is_ok_and(|found| found.is_dir());
            if is_hidden || !is_folder {
                return None;
            }
        }
        Some(lower.join(path))
    }

    fn copy_up_parents(&self, path: &str) {
        for (at, _) in path.match_indices('/') {
            self.copy_up(&path[..at]);
        }
    }

    fn copy_up(&self, path: &str) {
        self.copy_up_parents(path);
        let above = self.upper.join(path);
        if above.symlink_metadata().is_ok() {
            return;
        }
        let below = self.lower_path(path).unwrap();
        let found = below.symlink_metadata().unwrap();
        if found.is_dir() {
            fs::create_dir(&above).unwrap();
        } else {
            fs::copy(&below, &above).unwrap();
        }
        set_mode(&self.upper, path, found.mode() & 0o7777);
    }

    fn is_whiteout(&self, path: &str) -> bool {
        let found = self.upper.join(path).symlink_metadata();
        found.is_ok_and(|found| found.file_type().is_char_device())
    }

    fn remove_whiteout(&self, path: &str) {
        if self.is_whiteout(path) {
            fs::remove_file(self.upper.join(path)).unwrap();
        }
    }
}
