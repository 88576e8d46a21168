//! What a run may read of the user's home folder, by the permission `home:PATH`: links at the same paths of its own home lead to it.

use std::io;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{SkillContext, temp_dirs};

/// A file or folder of the user's home that a run may read.
pub(super) struct HomeFile {
    /// Relative to the home folder.
    path: PathBuf,
    pub(super) real_path: PathBuf,
}

/// Why something of the home folder is granted to nobody.
enum Reason {
    Absent,
    OutsideHome(PathBuf),
    /// It holds this folder of a run, or of metier, or is in it.
    Overlap(PathBuf),
}

impl HomeFile {
    /// All that the run may read; `unavailable` for what lies around or in one of these folders or of metier's own, which have rules
    /// of their own. A file that does not exist is left out with a warning.
    pub(super) fn granted(ctx: &SkillContext, folders: &[&Path]) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        for path in ctx.permissions().home_paths() {
            match Self::find(&path, folders) {
                Ok(file) => found.push(file),
                Err(Reason::Absent) => ctx.warn(format!("~/{path}, which the run may read, does not exist")),
                Err(reason) => {
                    let sentence = format!("~/{path} cannot be granted: {}", reason.sentence());
                    let help = "grant a file or folder beside that, such as home:.app/settings.json";
                    return Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help(help));
                }
            }
        }
        Ok(found)
    }

    /// Whether a grant could give a run this path.
    pub(super) fn is_grantable(path: &str, folders: &[&Path]) -> bool {
        Self::find(path, folders).is_ok()
    }

    fn find(path: &str, folders: &[&Path]) -> std::result::Result<Self, Reason> {
        let home = std::env::home_dir().and_then(|home| home.canonicalize().ok()).ok_or(Reason::Absent)?;
        let real_path = home.join(path).canonicalize().map_err(|_| Reason::Absent)?;
        if !real_path.starts_with(&home) || real_path == home {
            return Err(Reason::OutsideHome(real_path));
        }
        let own = temp_dirs::own_dirs();
        let mut others = folders.iter().copied().chain(own.iter().map(PathBuf::as_path));
        match others.find(|other| real_path.starts_with(other) || other.starts_with(&real_path)) {
            Some(other) => Err(Reason::Overlap(other.to_owned())),
            None => Ok(Self { path: path.into(), real_path }),
        }
    }
}

impl Reason {
    fn sentence(&self) -> String {
        match self {
            Self::Absent => "it does not exist".into(),
            Self::OutsideHome(real) => format!("it leads out of your home folder, to {}", real.display()),
            Self::Overlap(folder) => format!("{} has rules of its own", folder.display()),
        }
    }
}

/// The links in the home of a run. Dropped after the run, they are gone, and so are the folders that were made for them.
pub(crate) struct HomeLinks {
    home: Dir,
    links: Vec<(PathBuf, PathBuf)>,
    folders: Vec<PathBuf>,
}

impl HomeLinks {
    /// Links to these files. What the home of a skill already has at such a path stays: the skill made it.
    pub(super) fn create(home: &Path, files: &[HomeFile]) -> io::Result<Option<Self>> {
        if files.is_empty() {
            return Ok(None);
        }
        // A skill that keeps its home may have put links anywhere in it, which are not followed out of it.
        let home = Dir::open_ambient_dir(home, ambient_authority())?;
        let mut made = Self { home, links: Vec::new(), folders: Vec::new() };
        for file in files {
            made.add(file);
        }
        Ok(Some(made))
    }

    fn add(&mut self, file: &HomeFile) {
        let above: Vec<&Path> = file.path.ancestors().skip(1).filter(|path| *path != Path::new("")).collect();
        for folder in above.into_iter().rev() {
            if self.home.create_dir(folder).is_ok() {
                self.folders.push(folder.to_owned());
            }
        }
        if self.home.symlink_contents(&file.real_path, &file.path).is_ok() {
            self.links.push((file.path.clone(), file.real_path.clone()));
        }
    }
}

impl Drop for HomeLinks {
    fn drop(&mut self) {
        for (link, target) in &self.links {
            if self.home.read_link_contents(link).is_ok_and(|found| found == *target) {
                self.home.remove_file(link).ok();
            }
        }
        for folder in self.folders.iter().rev() {
            // What the script left in it stays.
            self.home.remove_dir(folder).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn file(path: &str, real_path: &Path) -> HomeFile {
        HomeFile { path: path.into(), real_path: real_path.to_owned() }
    }

    #[test]
    fn links_and_their_folders_are_gone_afterwards_and_what_a_script_made_is_not() {
        let stage = tempfile::tempdir().unwrap();
        let (home, real) = (stage.path().join("home"), stage.path().join("real"));
        fs::create_dir_all(home.join(".kept")).unwrap();
        fs::write(home.join(".kept/own"), "").unwrap();
        fs::write(&real, "text").unwrap();
        let files =
            [".app/deep/a", ".app/b", ".kept/own", ".kept/c", ".replaced"].map(|path| file(path, &real));
        let links = HomeLinks::create(&home, &files).unwrap();
        for path in [".app/deep/a", ".app/b", ".kept/c"] {
            assert_eq!(fs::read_to_string(home.join(path)).unwrap(), "text", "{path}");
        }
        fs::remove_file(home.join(".replaced")).unwrap();
        symlink("/etc/passwd", home.join(".replaced")).unwrap();
        fs::write(home.join(".app/new"), "").unwrap();
        drop(links);
        let left = |path: &str| home.join(path).symlink_metadata().is_ok();
        assert!(left(".kept/own") && left(".replaced") && left(".app/new"));
        assert!(!left(".app/deep") && !left(".app/b") && !left(".kept/c"));
        assert!(HomeLinks::create(&home, &[]).unwrap().is_none());
    }

    #[test]
    fn a_link_of_the_skill_leads_nothing_out_of_its_home() {
        let stage = tempfile::tempdir().unwrap();
        let (home, away) = (stage.path().join("home"), stage.path().join("away"));
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&away).unwrap();
        symlink(&away, home.join(".app")).unwrap();
        symlink("../away", home.join(".other")).unwrap();
        let files = [file(".app/a", &away), file(".other/deep/b", &away)];
        let links = HomeLinks::create(&home, &files).unwrap();
        assert_eq!(fs::read_dir(&away).unwrap().count(), 0);
        drop(links);
        assert!(home.join(".app").exists());
    }
}
