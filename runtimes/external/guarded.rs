//! What a grant to read or write a project does not open: version control, secrets, the folders of skills.
//!
//! The host API asks for each path it is given. A script in a cage opens files by itself, so that they have to be found before
//! it starts: by a walk from the top, which ends when it has seen too much, and says so. What has history and skills been made
//! of since is found by another one.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::ffi::OsString;
use std::fs::{self, DirEntry, FileType};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::super::sandbox::{Guarded, Version};
use crate::host::own_folders::{DOWNLOADED, is_own_folder};
use crate::host::temp_places::own_places_in;
use crate::host::{SkillContext, git};
use crate::policy::{Need, runs_when_built};

/// Entries that are looked at.
const SEEN: usize = 1 << 21;

/// Entries between two looks at whether the run was stopped.
const PATIENCE: usize = 1 << 10;

/// Mounts that a cage needs besides those over what is guarded.
const OTHER_MOUNTS: usize = 1 << 10;

/// What was guarded where, and that it is the same still: what takes the place of something is covered by nothing.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Marks {
    kept: BTreeMap<OsString, Mark>,
    hidden: BTreeMap<OsString, Mark>,
    more: bool,
}

/// Device and number, which another file may have when this one is gone, and when it was made, where that is known.
type Mark = Option<(u64, u64, Option<SystemTime>)>;

impl Marks {
    pub(super) fn of(guarded: &Guarded) -> Self {
        let marked = |path: &OsString| (path.clone(), mark(Path::new(path)));
        let all = |paths: &[OsString]| paths.iter().map(marked).collect();
        Self { kept: all(&guarded.kept), hidden: all(&guarded.hidden), more: guarded.more.is_some() }
    }
}

fn mark(path: &Path) -> Mark {
    let found = path.symlink_metadata().ok()?;
    Some((found.dev(), found.ino(), found.created().ok()))
}

/// What is guarded in the project and there when the run begins.
pub(super) fn guarded(ctx: &SkillContext, project: &Path) -> Guarded {
    let mut walk = Walk {
        ctx,
        project,
        can_write: !ctx.permissions().writable().is_empty(),
        seen: 0,
        kept: BTreeSet::new(),
        hidden: BTreeSet::new(),
        linked: HashSet::new(),
        built: Vec::new(),
        more: None,
        waiting: VecDeque::new(),
        closed: own_places_in(project),
        own: Vec::new(),
    };
    let top = Folder { is_guarded: true, ..Folder::top(project) };
    match walk.may("") {
        May::Everything => {
            // Skills come first, whatever else there is.
            walk.keep_skills();
            walk.waiting.push_back(Folder::top(project));
        }
        May::Read | May::Nothing => walk.keep(top),
    }
    walk.look();
    walk.find_other_names();
    walk.found()
}

struct Walk<'a> {
    ctx: &'a SkillContext,
    project: &'a Path,
    can_write: bool,
    seen: usize,
    kept: BTreeSet<PathBuf>,
    hidden: BTreeSet<PathBuf>,
    /// Files among them that have several names.
    linked: HashSet<(u64, u64)>,
    built: Vec<(OsString, Version)>,
    /// Why not all of it was found.
    more: Option<String>,
    /// Outer folders come first: what matters most lies at the top.
    waiting: VecDeque<Folder>,
    /// metier's own folders, which are covered whole, and those of them that were found here, of other hosts.
    closed: Vec<PathBuf>,
    own: Vec<PathBuf>,
}

#[derive(Default)]
struct Folder {
    place: PathBuf,
    /// From the project, `/`-separated. Names that are not text hold no name that is guarded.
    path: String,
    /// Whether it is kept whole already.
    is_kept: bool,
    /// Whether the folders in it are a package manager's.
    is_downloaded: bool,
    /// Whether something on the way to it is guarded, so that the names below say too little.
    is_guarded: bool,
}

impl Folder {
    fn top(project: &Path) -> Self {
        Self { place: project.to_owned(), ..Self::default() }
    }
}

/// What a script may do with a path.
#[derive(PartialEq)]
enum May {
    Everything,
    Read,
    Nothing,
}

impl Walk<'_> {
    /// Looks into the folders that wait, and those found on the way.
    fn look(&mut self) {
        while let Some(folder) = self.waiting.pop_front() {
            if let Err(why) = self.look_into(&folder) {
                let path = if folder.path.is_empty() { "." } else { &folder.path };
                self.more = Some(format!("{} {why}", path.escape_debug()));
                break;
            }
        }
    }

    fn look_into(&mut self, folder: &Folder) -> Result<(), String> {
        let unread = |error: std::io::Error| format!("could not be read ({error})");
        let entries = match fs::read_dir(&folder.place) {
            Ok(entries) => entries,
            // Who cannot look into it has no secrets there that the script could read.
            Err(error) if is_out_of_reach(&folder.place, &error) => return Ok(()),
            Err(error) => return Err(unread(error)),
        };
        let mut parts = [false; git::PARTS.len()];
        for entry in entries {
            let entry = entry.map_err(unread)?;
            self.count()?;
            let (name, kind) = (entry.file_name(), entry.file_type().map_err(unread)?);
            if let Some(part) = git::PARTS.iter().position(|part| name == *part) {
                parts[part] = true;
            }
            self.pass(folder, &name.to_string_lossy(), entry.path(), kind);
        }
        let has = |name: &str| git::PARTS.iter().zip(parts).any(|(part, is_there)| is_there && *part == name);
        if self.can_write && !folder.is_kept && git::is_repository(has) && !self.is_named(&folder.path) {
            // What lies in it waits already.
            self.kept.insert(folder.place.clone());
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), String> {
        self.seen += 1;
        if self.seen > SEEN {
            return Err(format!("and what lies beyond it was not looked at, after {SEEN} files and folders"));
        }
        let is_stopped = self.seen.is_multiple_of(PATIENCE) && self.ctx.cancel().is_cancelled();
        if is_stopped { Err("was being looked at when the run was stopped".to_owned()) } else { Ok(()) }
    }

    /// Passes by one name in a folder.
    fn pass(&mut self, folder: &Folder, name: &str, place: PathBuf, kind: FileType) {
        if self.closes(&place, kind) {
            return;
        }
        let path = if folder.path.is_empty() { name.to_owned() } else { format!("{}/{name}", folder.path) };
        let is_folder = kind.is_dir();
        let is_plain = is_folder && !is_git(name) && !folder.is_downloaded;
        let is_guarded = folder.is_guarded || self.is_guarded(&path);
        if !is_guarded {
            if self.can_write && kind.is_file() && runs_when_built(&path) {
                self.built.extend(version(&place).map(|version| (place.clone().into(), version)));
            }
            if folder.is_kept && kind.is_file() {
                self.note_names(&place);
            }
            if is_plain {
                let is_downloaded = DOWNLOADED.contains(&name);
                self.waiting.push_back(Folder {
                    place,
                    path,
                    is_kept: folder.is_kept,
                    is_downloaded,
                    is_guarded,
                });
            }
            return;
        }
        let may = self.may(&path);
        if is_git(name) && may == May::Read {
            self.keep_histories(&place, &folder.place);
        }
        let inner = Folder { place, path, is_kept: folder.is_kept, is_downloaded: false, is_guarded };
        match may {
            May::Nothing if is_folder && self.opens_within(&inner) => self.waiting.push_back(inner),
            May::Nothing => self.hide(&inner.place, kind),
            May::Read if is_plain => self.keep(inner),
            May::Read => {
                if !inner.is_kept {
                    self.kept.insert(inner.place.clone());
                }
                self.note_names_below(&inner.place, kind);
            }
            May::Everything if is_plain => self.waiting.push_back(inner),
            May::Everything => {}
        }
    }

    /// Whether this is one of metier's own folders.
    fn closes(&mut self, place: &Path, kind: FileType) -> bool {
        if self.closed.iter().any(|closed| closed == place) {
            return true;
        }
        let is_found = kind.is_dir() && is_own_folder(place);
        if is_found {
            self.closed.push(place.to_owned());
            self.own.push(place.to_owned());
        }
        is_found
    }

    /// Hides a secret: where it is a link, what it leads to in the project as well.
    fn hide(&mut self, place: &Path, kind: FileType) {
        self.hidden.insert(place.to_owned());
        self.note_names_below(place, kind);
        if !kind.is_symlink() {
            return;
        }
        let real = match fs::canonicalize(place) {
            Ok(real) => real,
            Err(error) if leads_nowhere(&error) => return,
            Err(error) => {
                // What only leads to others' folders is out of a script's reach as well.
                let leads_out =
                    fs::read_link(place).is_ok_and(|to| to.is_absolute() && !to.starts_with(self.project));
                if !(leads_out && error.kind() == std::io::ErrorKind::PermissionDenied) {
                    self.more = Some(format!("{} cannot be followed: {error}", self.shown(place)));
                }
                return;
            }
        };
        if self.project.starts_with(&real) {
            self.more = Some(format!("{} is a link to the whole project", self.shown(place)));
        } else if let Some(kind) = self.is_inside(&real) {
            self.hidden.insert(real.clone());
            self.note_names_below(&real, kind);
        }
    }

    fn is_inside(&self, real: &Path) -> Option<FileType> {
        let about = real.symlink_metadata().ok()?;
        real.starts_with(self.project).then(|| about.file_type())
    }

    /// Keeps a folder whole; what is to be hidden in it is looked for.
    fn keep(&mut self, folder: Folder) {
        if folder.is_kept || self.kept.insert(folder.place.clone()) {
            self.waiting.push_back(Folder { is_kept: true, ..folder });
        }
    }

    /// Keeps what a `.git` leads to, and what its configuration makes git run, where it lies in the project and no grant names it.
    fn keep_histories(&mut self, git: &Path, tree: &Path) {
        if !self.can_write {
            return;
        }
        for place in git::elsewhere(git).into_iter().chain(git::named_by_configuration(git, tree)) {
            let Ok(path) = place.strip_prefix(self.project) else { continue };
            let path = path.to_string_lossy().into_owned();
            if self.project.starts_with(&place) {
                // Nothing could be written at all.
                self.more = Some(format!("{} leads to the whole project", self.shown(git)));
            } else if !self.is_named(&path)
                && let Ok(about) = place.symlink_metadata()
            {
                self.note_names_below(&place, about.file_type());
                self.kept.insert(place);
            }
        }
    }

    /// Whether a grant names what lies at this path and may be changed for it.
    fn is_named(&self, path: &str) -> bool {
        self.ctx.permissions().protecting(path, false).allows(&Need::write(path))
    }

    fn keep_skills(&mut self) {
        for path in self.ctx.permissions().protection().skill_folders() {
            if self.may(path) != May::Read {
                continue;
            }
            for link in links_on_the_way(self.project, Path::new(path)) {
                self.kept.insert(link);
            }
            let place = self.project.join(path);
            if place.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                let is_real = fs::canonicalize(&place).is_ok_and(|real| real == place);
                if is_real {
                    let path = path.to_owned();
                    self.keep(Folder { place, path, is_guarded: true, ..Folder::default() });
                }
            }
        }
    }

    /// Whether the names in a path hint at something guarded; the folder it lies in does not.
    fn is_guarded(&self, path: &str) -> bool {
        let protection = self.ctx.permissions().protection();
        protection.guards_last(path) || protection.guards_change_of_last(path)
    }

    fn may(&self, path: &str) -> May {
        let permissions = self.ctx.permissions();
        let protection = permissions.protection();
        if !protection.guards_write(path) || permissions.allows(&Need::write(path)) {
            return May::Everything;
        }
        // The history of a project is no secret in it: programs ask it all the time.
        let is_secret = protection.guards_read(path) && !path.split('/').any(is_git);
        if is_secret && !permissions.allows(&Need::read(path)) { May::Nothing } else { May::Read }
    }

    /// Whether a grant names something in a folder of secrets.
    fn opens_within(&self, folder: &Folder) -> bool {
        let mut names = fs::read_dir(&folder.place).into_iter().flatten().filter_map(Result::ok);
        names.any(|entry| {
            let name = entry.file_name();
            self.may(&format!("{}/{}", folder.path, name.to_string_lossy())) != May::Nothing
        })
    }

    /// Remembers a file that has other names.
    fn note_names(&mut self, place: &Path) {
        let about = place.symlink_metadata().ok().filter(|about| about.is_file() && about.nlink() > 1);
        self.linked.extend(about.map(|about| (about.dev(), about.ino())));
    }

    /// The same for all files in a folder, but for what git only keeps there.
    fn note_names_below(&mut self, place: &Path, kind: FileType) {
        const STORED: [&str; 4] = ["objects", "refs", "logs", "lfs"];
        let mut waiting = Vec::new();
        match kind {
            kind if kind.is_dir() => waiting.push(place.to_owned()),
            kind if kind.is_file() => self.note_names(place),
            _ => {}
        }
        while let Some(folder) = waiting.pop() {
            for entry in self.entries(&folder) {
                if let Err(why) = self.count() {
                    self.more = Some(format!("{} {why}", self.shown(&folder)));
                    return;
                }
                let Ok(kind) = entry.file_type() else { continue };
                if self.closes(&entry.path(), kind) {
                    continue;
                }
                if kind.is_dir() && !STORED.iter().any(|stored| entry.file_name() == *stored) {
                    waiting.push(entry.path());
                } else if kind.is_file() {
                    self.note_names(&entry.path());
                }
            }
        }
    }

    /// Guards the other names of files that are guarded by one, wherever they lie in what the script can read.
    fn find_other_names(&mut self) {
        if self.linked.is_empty() || self.more.is_some() {
            return;
        }
        let numbers: HashSet<u64> = self.linked.iter().map(|(_, number)| *number).collect();
        let secret: HashSet<(u64, u64)> = self.hidden.iter().filter_map(|place| identity(place)).collect();
        let in_hidden = self.numbers_in_hidden();
        let skill = self.ctx.skill_files().ok().map(|files| files.root().to_owned());
        let mut waiting = vec![self.project.to_owned()];
        waiting.extend(skill.filter(|skill| !skill.starts_with(self.project)));
        while let Some(folder) = waiting.pop() {
            for entry in self.entries(&folder) {
                if let Err(why) = self.count() {
                    self.more = Some(format!("{} {why}", self.shown(&folder)));
                    return;
                }
                let Ok(kind) = entry.file_type() else { continue };
                let place = entry.path();
                if kind.is_dir() && !self.hidden.contains(&place) && !self.closed.contains(&place) {
                    waiting.push(place);
                } else if kind.is_file() && numbers.contains(&entry.ino()) {
                    let found = identity(&place).filter(|found| self.linked.contains(found));
                    let Some(found) = found else { continue };
                    if secret.contains(&found) || in_hidden.contains(&found.1) {
                        self.hidden.insert(place);
                    } else {
                        self.kept.insert(place);
                    }
                }
            }
        }
    }

    /// The numbers of the files in folders that are hidden whole.
    fn numbers_in_hidden(&mut self) -> HashSet<u64> {
        let is_folder = |place: &&PathBuf| place.symlink_metadata().is_ok_and(|about| about.is_dir());
        let mut waiting: Vec<PathBuf> = self.hidden.iter().filter(is_folder).cloned().collect();
        let mut numbers = HashSet::new();
        while let Some(folder) = waiting.pop() {
            for entry in self.entries(&folder) {
                if let Err(why) = self.count() {
                    self.more = Some(format!("{} {why}", self.shown(&folder)));
                    return numbers;
                }
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                    _ => _ = numbers.insert(entry.ino()),
                }
            }
        }
        numbers
    }

    /// What is in a folder. Where nobody could look, though the script can, not all is found.
    fn entries(&mut self, folder: &Path) -> impl Iterator<Item = DirEntry> + use<> {
        let entries = fs::read_dir(folder);
        if let Some(error) = entries.as_ref().err().filter(|error| !is_out_of_reach(folder, error)) {
            self.more = Some(format!("{} could not be read ({error})", self.shown(folder)));
        }
        entries.into_iter().flatten().filter_map(Result::ok)
    }

    fn shown(&self, place: &Path) -> String {
        let path = place.strip_prefix(self.project).unwrap_or(place);
        path.to_string_lossy().escape_debug().to_string()
    }

    fn found(self) -> Guarded {
        let Self { kept, hidden, linked, built, own, mut more, .. } = self;
        if kept.len() + hidden.len() > OTHER_MOUNTS && more.is_none() {
            let room = mounts().saturating_sub(OTHER_MOUNTS);
            if kept.len() + hidden.len() > room {
                more = Some(format!(
                    "there are {} of them, and the kernel allows {room} more mounts",
                    kept.len() + hidden.len()
                ));
            }
        }
        let all = |places: BTreeSet<PathBuf>| places.into_iter().map(OsString::from).collect();
        let linked = linked.into_iter().collect();
        let own = own.into_iter().map(OsString::from).collect();
        Guarded { kept: all(kept), hidden: all(hidden), own, more, linked, built }
    }
}

/// Mounts that the kernel still allows.
fn mounts() -> usize {
    const USUAL: usize = 100_000;
    let most = fs::read_to_string("/proc/sys/fs/mount-max").ok();
    let most = most.and_then(|text| text.trim().parse().ok()).unwrap_or(USUAL);
    let used = fs::read("/proc/self/mountinfo").unwrap_or_default();
    most.saturating_sub(used.split(|byte| *byte == b'\n').count())
}

/// Whether there is nothing by now, or it is somebody else's who lets the user in no more than the script. What is the user's own
/// a script could open.
fn is_out_of_reach(folder: &Path, error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    let is_own =
        || fs::symlink_metadata(folder).is_ok_and(|about| about.uid() == rustix::process::getuid().as_raw());
    match error.kind() {
        NotFound | NotADirectory => true,
        PermissionDenied => !is_own(),
        _ => false,
    }
}

/// Whether a link leads to nothing: there is none, or it goes in a circle.
fn leads_nowhere(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
        || matches!(error.raw_os_error(), Some(nix::libc::ELOOP | nix::libc::ENAMETOOLONG))
}

fn version(place: &Path) -> Option<Version> {
    let about = place.symlink_metadata().ok()?;
    Some((about.dev(), about.ino(), about.size(), about.ctime(), about.ctime_nsec()))
}

fn identity(place: &Path) -> Option<(u64, u64)> {
    let about = place.symlink_metadata().ok()?;
    Some((about.dev(), about.ino()))
}

/// The links in a project that a path in it leads through, without links on the way to each.
fn links_on_the_way(project: &Path, path: &Path) -> Vec<PathBuf> {
    let mut links = Vec::new();
    let mut place = project.to_owned();
    for part in path {
        place.push(part);
        if place.symlink_metadata().is_ok_and(|about| about.is_symlink()) {
            links.push(place.clone());
        }
        let Ok(real) = fs::canonicalize(&place) else { break };
        if !real.starts_with(project) {
            break;
        }
        place = real;
    }
    links
}

pub(super) fn is_git(name: &str) -> bool {
    name.eq_ignore_ascii_case(".git")
}
