//! What a run may read of the user's home folder, by the permission `home:PATH`, or also change, by `home-write:PATH`: links at the
//! same paths of its own home lead to it.

use std::io;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, MetadataExt};

use crate::audience::is_for_person;
use crate::home_guard::HomeFolder;
use crate::private_home::is_mount_point;
use crate::shown_path::is_typable;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{
    FileId, Files, RunContext, RunMessages, SkillContext, file_id, git, metier_dirs, temp_dirs,
};
use metier_core::policy::{
    Permission, RunPermissions, is_within, protected_home_path, protected_home_paths, secret_paths_in_folders,
};
use metier_sandbox::PinnedPath;

/// A file or folder of the user's home that a run may read, or also change.
pub(super) struct HomeFile {
    /// Relative to the home folder.
    path: PathBuf,
    pub(super) real_path: PathBuf,
    file_id: FileId,
    /// Whether the run may also change it; a folder is held open for that.
    pub(super) is_writable: bool,
    folder: Option<HomeFolder>,
}

/// Why something of the home folder cannot be granted.
#[derive(Debug)]
enum Refusal {
    Absent,
    /// A link, which somebody else may have made, or change: it leads here now.
    Link(PathBuf),
    /// It holds this folder of a run, or of metier, or is in it.
    Overlap(PathBuf),
    /// The configuration denies it, or this part of it.
    Denied(Permission),
    /// A script that changed it could make programs of the user run what it likes, because of this path.
    Protected(String),
    /// Whether it holds such a path is not known, for this reason.
    Unknown(String),
}

/// Folders and files of a home that are for secrets. Others are known by their names anywhere.
const SECRET_PATHS: &str = "
    .Xauthority .aws .azure .bitcoin .cache/huggingface/token .claude.json .claude/.credentials.json .config/BraveSoftware .config/chromium
    .config/gcloud .config/google-chrome .config/microsoft-edge .config/solana .docker .electrum .ethereum .gemini/oauth_creds.json .gnupg
    .kube .local/share/keyrings .mozilla .password-store .ssh .thunderbird";

/// What makes a folder a skill, or the work tree of a version control system.
const DEFINING_NAMES: [&str; 8] =
    [".git", ".hg", ".jj", ".svn", "SKILL.md", "skill.json", "skill.md", "skill.yaml"];

/// The folders of a metier with other settings, in a home, whether they exist or not.
const METIER_FOLDERS: [&str; 4] =
    [".cache/metier", ".config/metier", ".local/share/metier", ".local/state/metier"];

impl HomeFile {
    /// All that the run may read or change; `unavailable` for what cannot be granted: a path through a link, and one around or in the folders of
    /// the run or of metier, which have rules of their own. A file that does not exist is left out with a warning.
    pub(super) fn granted(ctx: &SkillContext, folders: &[&Path]) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        let writable = ctx.permissions().writable_home_paths();
        for path in ctx.permissions().home_paths() {
            let is_writable = writable.contains(&path);
            match Self::find(ctx, &path, folders, is_writable) {
                Ok(file) => found.push(file),
                // It is made before a run.
                Err(Refusal::Absent) if is_writable && names_folder(&path) => {
                    ctx.warn(format!("~/{path}, which the run may change, does not exist"));
                }
                Err(Refusal::Absent) if !is_writable => {
                    ctx.warn(format!("~/{path}, which the run may read, does not exist"));
                }
                Err(refusal) => {
                    let sentence =
                        format!("~/{path} cannot be granted: {}", refusal.reason(is_for_person(ctx)));
                    return Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help(refusal.help()));
                }
            }
        }
        Ok(found)
    }

    /// Makes the folders that grants such as `home-write:.app` name and that do not exist, before a run that is granted them.
    pub(super) fn create_granted(ctx: &SkillContext, folders: &[&Path]) {
        for path in ctx.permissions().writable_home_paths() {
            let is_there = user_home().is_ok_and(|home| home.join(&path).symlink_metadata().is_ok());
            let is_absent = || matches!(Self::find(ctx, &path, folders, true), Err(Refusal::Absent));
            if !is_there && names_folder(&path) && is_absent() {
                // The run warns of a folder that could not be made.
                create_folder(&path).ok();
            }
        }
    }

    /// The folder, held open, if the run may change it; it is given away once.
    pub(super) fn take_folder(&mut self) -> Option<HomeFolder> {
        self.folder.take()
    }

    /// Whether a person may be advised to grant this path of the home, for reading or also for changing: not what holds secrets, which a script
    /// could name for no good.
    pub(crate) fn is_advisable(ctx: &SkillContext, path: &str, is_writable: bool) -> bool {
        let own = [ctx.project().ok().map(Files::root), ctx.skill_files().ok().map(Files::root)];
        let own: Vec<&Path> = own.into_iter().flatten().collect();
        is_typable(path)
            && !ctx.permissions().protection().protects_read(path)
            && !SECRET_PATHS.split_whitespace().any(|known| is_within(path, known) || is_within(known, path))
            && !secret_paths_in_folders().any(|known| is_within(&known, path))
            && (Self::is_grantable(ctx, path, &own, is_writable)
                || is_writable && Self::is_makeable(ctx, path, &own))
    }

    /// Whether a grant could give a run this path, for reading or also for changing.
    pub(super) fn is_grantable(ctx: &SkillContext, path: &str, folders: &[&Path], is_writable: bool) -> bool {
        Self::find(ctx, path, folders, is_writable).is_ok()
    }

    /// Whether a grant to change this folder, which does not exist, would have it made before a run.
    pub(super) fn is_makeable(ctx: &SkillContext, path: &str, folders: &[&Path]) -> bool {
        names_folder(path) && matches!(Self::find(ctx, path, folders, true), Err(Refusal::Absent))
    }

    fn find(
        ctx: &SkillContext,
        path: &str,
        folders: &[&Path],
        is_writable: bool,
    ) -> std::result::Result<Self, Refusal> {
        let home = user_home()?;
        // Every other user's files are below the root.
        if home.parent().is_none() {
            return Err(Refusal::Overlap(home));
        }
        let real_path = home.join(path);
        // The path itself may not exist yet.
        let existing = real_path.ancestors().find(|above| above.symlink_metadata().is_ok());
        let existing = existing.ok_or(Refusal::Absent)?;
        match existing.canonicalize() {
            Ok(real) if real != existing => return Err(Refusal::Link(real)),
            Ok(_) => {}
            Err(_) => return Err(Refusal::Absent),
        }
        let named = METIER_FOLDERS.iter().map(|folder| home.join(folder));
        let roots = ctx.facts().skill_roots.iter().filter(|_| is_writable).cloned();
        let named = named.chain(metier_dirs::data_dir()).chain(roots);
        // By their own paths, too: a link can be made to lead elsewhere.
        let own = named.flat_map(|folder| [metier_dirs::resolve_existing(&folder), folder]);
        let own: Vec<PathBuf> = own.chain(temp_dirs::own_dirs().iter().cloned()).collect();
        let mut others = folders.iter().copied().chain(own.iter().map(PathBuf::as_path));
        if let Some(other) =
            others.find(|other| real_path.starts_with(other) || other.starts_with(&real_path))
        {
            return Err(Refusal::Overlap(other.to_owned()));
        }
        if let Some(denied) = ctx.permissions().denied_home_path(path, is_writable) {
            return Err(Refusal::Denied(denied));
        }
        if let Some(protected) = is_writable.then(|| protected_home_path(path)).flatten() {
            return Err(Refusal::Protected(protected));
        }
        if let Some(linked) = is_writable.then(|| linked_protected_path(&home, &real_path)).flatten() {
            return Err(Refusal::Protected(linked));
        }
        if let Some(above) = is_writable.then(|| defining_folder(&home, &real_path)).flatten() {
            return Err(Refusal::Protected(above));
        }
        let about = real_path.symlink_metadata().map_err(|_| Refusal::Absent)?;
        let folder = if is_writable { Self::open_unprotected(&home, &real_path)? } else { None };
        let file_id = match &folder {
            Some(folder) => folder.file_id().map_err(|error| Refusal::Unknown(error.to_string()))?,
            None => file_id(&about),
        };
        Ok(Self { path: path.into(), real_path, file_id, is_writable, folder })
    }

    /// Opens what a run may change, if it is a folder; refused if it holds anything that programs run or obey.
    fn open_unprotected(home: &Path, path: &Path) -> std::result::Result<Option<HomeFolder>, Refusal> {
        let Some(folder) = HomeFolder::open(path).map_err(Refusal::Unknown)? else { return Ok(None) };
        match folder.first_protected().map_err(Refusal::Unknown)? {
            Some(found) => Err(Refusal::Protected(below(home, &found))),
            None => Ok(Some(folder)),
        }
    }

    /// What was found, whatever is at its path by the time the sandbox is set up.
    pub(super) fn pinned(&self) -> PinnedPath {
        PinnedPath { path: self.real_path.clone().into(), file_id: Some(self.file_id) }
    }
}

impl Refusal {
    /// Only a person hears where something lies that is not granted.
    fn reason(&self, is_for_person: bool) -> String {
        match self {
            Self::Absent => "it does not exist".into(),
            Self::Link(real) if is_for_person => format!("a link leads from there to {}", real.display()),
            Self::Link(_) => "a link leads from there to another place".into(),
            Self::Overlap(folder) if is_for_person => format!("{} has rules of its own", folder.display()),
            Self::Overlap(_) => "a folder there has rules of its own".into(),
            Self::Denied(denied) => format!("the configuration denies {denied}"),
            Self::Protected(path) if is_for_person => format!(
                "programs of yours run or obey ~/{} by themselves, or it holds secrets; if you did not make it, another run may have",
                path.escape_debug()
            ),
            Self::Protected(_) => {
                "programs of the user run or obey what is there by themselves, or it holds secrets".into()
            }
            Self::Unknown(reason) => reason.clone(),
        }
    }

    fn help(&self) -> &'static str {
        match self {
            Self::Link(_) => "grant the path to which it leads, if that is in your home folder",
            Self::Absent => "make it first, or grant the folder in which the script makes it",
            Self::Unknown(_) => "let the script keep its own files by `state`",
            Self::Protected(_) => {
                "grant the folder of one program, such as home-write:.app, or let the script keep its own files by `state`"
            }
            Self::Overlap(_) | Self::Denied(_) => {
                "grant another file or folder of your home folder, such as .app/settings.json"
            }
        }
    }
}

/// The folder above this path that is a skill, or the work tree or the repository of a version control system.
fn defining_folder(home: &Path, path: &Path) -> Option<String> {
    let is_defining = |folder: &&Path| {
        let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
        DEFINING_NAMES.into_iter().any(has) || git::is_repository(has)
    };
    let mut above = path.ancestors().skip(1).take_while(|above| *above != home);
    above.find(is_defining).map(|folder| below(home, folder))
}

/// A path in the home folder, relative to that.
fn below(home: &Path, path: &Path) -> String {
    path.strip_prefix(home).unwrap_or(path).to_string_lossy().into_owned()
}

/// What programs run or obey, if a link leads from there to this path, into it, or to something around it.
fn linked_protected_path(home: &Path, path: &Path) -> Option<String> {
    let is_reached = |name: &String| {
        let place = home.join(name);
        let real = place.canonicalize().ok().filter(|real| *real != place);
        real.is_some_and(|real| real.starts_with(path) || path.starts_with(&real) && real != *home)
    };
    let top = std::fs::read_dir(home).into_iter().flatten().flatten();
    let top = top.filter_map(|entry| entry.file_name().into_string().ok());
    let at_top = top.filter(|name| protected_home_path(name).is_some());
    protected_home_paths().chain(at_top).find(is_reached)
}

fn user_home() -> std::result::Result<PathBuf, Refusal> {
    std::env::home_dir().and_then(|home| home.canonicalize().ok()).ok_or(Refusal::Absent)
}

/// Whether a path that does not exist is meant as a folder: its name has no extension.
fn names_folder(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    !name.trim_start_matches('.').contains('.')
}

/// Makes a folder of the user's home that a run may change. A link there is followed nowhere out of the home.
fn create_folder(path: &str) -> std::result::Result<(), Refusal> {
    let home = Dir::open_ambient_dir(user_home()?, ambient_authority()).map_err(|_| Refusal::Absent)?;
    home.create_dir_all(path).map_err(|error| Refusal::Unknown(format!("it cannot be made: {error}")))
}

/// The links in the home of a run. Dropped after the run, they are gone, and so are the folders that were made for them.
pub(crate) struct HomeLinks {
    home: Dir,
    links: Vec<(PathBuf, PathBuf)>,
    folders: Vec<PathBuf>,
}

impl HomeLinks {
    /// Links to these files. What the home of a skill already has at such a path stays, since the skill made it: a warning says so.
    /// That is then left out of `files`.
    pub(super) fn create(
        ctx: &SkillContext,
        home: &Path,
        files: &mut Vec<HomeFile>,
    ) -> io::Result<Option<Self>> {
        if files.is_empty() {
            return Ok(None);
        }
        // A skill that keeps its home may have put links anywhere in it, which are not followed out of it.
        let home = Dir::open_ambient_dir(home, ambient_authority())?;
        let mut made = Self { home, links: Vec::new(), folders: Vec::new() };
        files.retain(|file| {
            let is_added = made.add(file);
            if !is_added {
                ctx.warn(format!(
                    "the script sees a file of its own in the place of ~/{}, which it keeps in its home",
                    file.path.display()
                ));
            }
            is_added
        });
        Ok(Some(made))
    }

    /// The paths of links in whose place the script put something of its own.
    pub(super) fn replaced_paths(&self) -> impl Iterator<Item = &str> {
        let is_replaced = |(link, _): &&(PathBuf, PathBuf)| {
            // Where something is mounted, it cannot be replaced.
            let is_own = |found: Metadata| {
                let bytes = if found.is_dir() { 0 } else { found.len() };
                !found.is_symlink() && !is_mount_point(found.mode(), bytes)
            };
            self.home.symlink_metadata(link).is_ok_and(is_own)
        };
        self.links.iter().filter(is_replaced).filter_map(|(link, _)| link.to_str())
    }

    /// Whether there was room for the link.
    fn add(&mut self, file: &HomeFile) -> bool {
        let above: Vec<&Path> = file.path.ancestors().skip(1).filter(|path| *path != Path::new("")).collect();
        for folder in above.into_iter().rev() {
            if self.home.create_dir(folder).is_ok() {
                self.folders.push(folder.to_owned());
            }
        }
        let is_made = self.home.symlink_contents(&file.real_path, &file.path).is_ok();
        if is_made {
            self.links.push((file.path.clone(), file.real_path.clone()));
        }
        // Another grant may have brought it.
        is_made || self.links.iter().any(|(link, _)| file.path.starts_with(link))
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
        let file_id = file_id(&real_path.symlink_metadata().unwrap());
        HomeFile {
            path: path.into(),
            real_path: real_path.to_owned(),
            file_id,
            is_writable: false,
            folder: None,
        }
    }

    #[test]
    fn a_run_leaves_no_link_and_no_folder_of_one_and_keeps_the_files_of_its_script() {
        let stage = tempfile::tempdir().unwrap();
        let (home, real) = (stage.path().join("home"), stage.path().join("real"));
        fs::create_dir_all(home.join(".kept")).unwrap();
        fs::write(home.join(".kept/own"), "").unwrap();
        fs::write(&real, "text").unwrap();
        let mut files: Vec<HomeFile> = [".app/deep/a", ".app/b", ".kept/own", ".kept/c", ".replaced"]
            .map(|path| file(path, &real))
            .into();
        let ctx = SkillContext::builder("x").build();
        let links = HomeLinks::create(&ctx, &home, &mut files).unwrap();
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
        assert!(HomeLinks::create(&ctx, &home, &mut Vec::new()).unwrap().is_none());
    }

    #[test]
    fn a_link_of_the_skill_leads_nothing_out_of_its_home() {
        let stage = tempfile::tempdir().unwrap();
        let (home, away) = (stage.path().join("home"), stage.path().join("away"));
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&away).unwrap();
        symlink(&away, home.join(".app")).unwrap();
        symlink("../away", home.join(".other")).unwrap();
        let mut files = vec![file(".app/a", &away), file(".other/deep/b", &away)];
        let links = HomeLinks::create(&SkillContext::builder("x").build(), &home, &mut files).unwrap();
        assert_eq!(fs::read_dir(&away).unwrap().count(), 0);
        drop(links);
        assert!(home.join(".app").exists());
    }
}
