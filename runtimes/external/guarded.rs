//! What a grant to read or write a project does not open: version control, secrets, the folders of skills.
//!
//! The host API asks for each path it is given. A script in a cage opens files by itself, so that they have to be found before
//! it starts: by a walk from the top, which ends when it has seen too much, and says so. What has history and skills been made
//! of since is found by another one.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::super::sandbox::Guarded;
use super::history;
use crate::host::SkillContext;
use crate::policy::Need;

/// Entries that are looked at before a folder is entered: some tens of milliseconds.
const SEEN: usize = 1 << 15;

/// Entries of one folder that are looked at, whatever the rest has: who fills a folder hides nothing in it.
const IN_ONE: usize = 1 << 18;

/// Paths that are hidden, and those that are kept: each costs a mount, and those on the way to it another. Who makes too many
/// secrets takes nothing from what is kept.
const FOUND: usize = 256;

/// Where package managers unpack. What lies deeper in there anybody can download, and programs read certificates of their own
/// in it. Only names count: a mark in a folder could be a script's.
const DOWNLOADED: [&str; 5] = ["node_modules", "site-packages", ".venv", "venv", ".tox"];

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
        Self { kept: all(&guarded.kept), hidden: all(&guarded.hidden), more: guarded.more }
    }
}

fn mark(path: &Path) -> Mark {
    let found = path.symlink_metadata().ok()?;
    Some((found.dev(), found.ino(), found.created().ok()))
}

/// What is guarded in the project and there when the run begins.
pub(super) fn guarded(ctx: &SkillContext, project: &Path) -> Guarded {
    let top = Folder { place: project.to_owned(), path: String::new(), is_kept: false, is_downloaded: false };
    let mut walk = Walk { ctx, project, seen: 0, guarded: Guarded::default(), waiting: VecDeque::new() };
    match walk.may("") {
        May::Everything => {
            // Skills come first, whatever else there is.
            walk.keep_skills(project);
            walk.waiting.push_back(top);
        }
        May::Read | May::Nothing => walk.keep(top),
    }
    while let Some(folder) = walk.waiting.pop_front() {
        if walk.seen >= SEEN || walk.look_into(&folder).is_err() {
            walk.guarded.more = true;
            break;
        }
    }
    walk.guarded
}

struct Walk<'a> {
    ctx: &'a SkillContext,
    project: &'a Path,
    seen: usize,
    guarded: Guarded,
    /// Outer folders come first: what matters most lies at the top.
    waiting: VecDeque<Folder>,
}

struct Folder {
    place: PathBuf,
    /// From the project, `/`-separated. Names that are not text hold no name that is guarded.
    path: String,
    /// Whether it is kept whole already.
    is_kept: bool,
    /// Whether the folders in it are a package manager's.
    is_downloaded: bool,
}

/// What a script may do with a path.
#[derive(PartialEq)]
enum May {
    Everything,
    Read,
    Nothing,
}

impl Walk<'_> {
    fn look_into(&mut self, folder: &Folder) -> std::io::Result<()> {
        for (number, entry) in fs::read_dir(&folder.place)?.enumerate() {
            let entry = entry?;
            if number >= IN_ONE {
                self.guarded.more = true;
                break;
            }
            self.seen += 1;
            let (name, kind) = (entry.file_name(), entry.file_type()?);
            let is_folder = kind.is_dir();
            let name = name.to_string_lossy();
            let path =
                if folder.path.is_empty() { name.to_string() } else { format!("{}/{name}", folder.path) };
            let is_downloaded = DOWNLOADED.contains(&&*name);
            let inner = Folder { place: entry.path(), path, is_kept: folder.is_kept, is_downloaded };
            let is_plain = is_folder && !is_git(&name) && !folder.is_downloaded;
            let may = self.may(&inner.path);
            if is_git(&name) && may == May::Read {
                self.keep_histories(history::elsewhere(&inner.place));
            }
            match may {
                May::Nothing if is_folder && self.opens_within(&inner) => self.waiting.push_back(inner),
                May::Nothing if self.guarded.hidden.len() >= FOUND => self.guarded.more = true,
                May::Nothing => self.guarded.hidden.push(inner.place.into()),
                May::Read if is_plain => self.keep(inner),
                May::Read if inner.is_kept => {}
                May::Read => {
                    self.add_kept(inner.place);
                }
                May::Everything if is_plain => self.waiting.push_back(inner),
                May::Everything => {}
            }
        }
        Ok(())
    }

    /// Keeps a folder whole; what is to be hidden in it is looked for.
    fn keep(&mut self, folder: Folder) {
        if folder.is_kept || self.add_kept(folder.place.clone()) {
            self.waiting.push_back(Folder { is_kept: true, ..folder });
        }
    }

    /// Whether it was not kept before.
    fn add_kept(&mut self, place: PathBuf) -> bool {
        let kept = &mut self.guarded.kept;
        let is_new = !kept.iter().any(|known| *known == place);
        if is_new && kept.len() < FOUND {
            kept.push(place.into());
        } else if is_new {
            self.guarded.more = true;
        }
        is_new
    }

    /// Keeps what lies in the project, unless a grant names it.
    fn keep_histories(&mut self, places: Vec<PathBuf>) {
        for place in places {
            let Ok(path) = place.strip_prefix(self.project) else { continue };
            let is_kept = self.guarded.kept.iter().any(|kept| place.starts_with(kept));
            let path = path.to_string_lossy();
            if path.is_empty() {
                // Nothing could be written at all.
                self.guarded.more = true;
            } else if !is_kept && !self.ctx.permissions().by_name().allows(&Need::write(&*path)) {
                self.add_kept(place);
            }
        }
    }

    fn keep_skills(&mut self, project: &Path) {
        for path in self.ctx.permissions().protection().skill_folders() {
            let place = project.join(path);
            if place.symlink_metadata().is_ok_and(|found| found.is_dir()) && self.may(path) == May::Read {
                let path = path.to_owned();
                self.keep(Folder { place, path, is_kept: false, is_downloaded: false });
            }
        }
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
        let mut names = fs::read_dir(&folder.place).into_iter().flatten().filter_map(Result::ok).take(FOUND);
        names.any(|entry| {
            let name = entry.file_name();
            self.may(&format!("{}/{}", folder.path, name.to_string_lossy())) != May::Nothing
        })
    }
}

pub(super) fn is_git(name: &str) -> bool {
    name.eq_ignore_ascii_case(".git")
}
