//! Finds the protected paths of a project: version control, secrets and skill folders, which a grant for the project does not
//! include.
//!
//! The host API checks each path it receives. A sandboxed script opens files by itself, so that protected paths have to be found
//! before it starts: by a walk from the top, which ends after too many entries, and reports that. Changes made to version control
//! and skills since then are found by another scan. Folders that did not change since an earlier scan are not read again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::fs::{self, DirEntry, FileType};
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::protected::granted_paths::{defining_files, symlinks_along};
use crate::protected::listing::{ListedEntry, Listing};
use crate::protected::listing_cache::Listings;
use crate::protected::path_errors::{is_dangling, is_inaccessible};
use crate::protected::scan_result::{ScanNotes, ScanResult, Version};
use metier_core::host::metier_dirs::{PACKAGE_DIRS, is_metier_dir, may_be_metier_dir};
use metier_core::host::temp_dirs::metier_dirs_in;
use metier_core::host::{FileId, HostPaths, RunContext, SkillContext, file_id, git};
use metier_core::policy::{Access, PathProtection, RunPermissions, runs_on_build};
use metier_sandbox::ProtectedPaths;

/// Maximum number of entries that are scanned.
const MAX_ENTRIES: usize = 1 << 21;

/// Entries between two checks whether the run was cancelled.
const CANCEL_CHECK_INTERVAL: usize = 1 << 10;

/// Mounts that a sandbox needs besides those over protected paths.
const RESERVED_MOUNTS: usize = 1 << 10;

/// The protected paths that exist in the project when the run begins.
pub(crate) fn scan_protected(ctx: &SkillContext, project: &Path) -> ScanResult {
    let can_write = !ctx.permissions().writable_paths().is_empty();
    let protection = ctx.permissions().protection();
    let mut walk = ProtectedScan {
        ctx,
        project,
        host_paths: ctx.host_paths(),
        can_write,
        can_change: can_write || defining_files(ctx).is_some(),
        entry_count: 0,
        read_only: BTreeSet::new(),
        hidden: BTreeSet::new(),
        hard_linked_files: HashMap::new(),
        second_names: BTreeMap::new(),
        aliases: Vec::new(),
        build_files: Vec::new(),
        absent_git_targets: BTreeSet::new(),
        incomplete_reason: None,
        queue: VecDeque::new(),
        covered_dirs: metier_dirs_in(project),
        metier_dirs: Vec::new(),
        listings: Listings::of_project(project, protection, &ctx.host_paths()),
    };
    let top = ScanDir { is_protected: true, ..ScanDir::top(project) };
    match walk.script_access("") {
        ScriptAccess::ReadWrite => {
            // The skills come first, so that they are found even if the scan ends early.
            walk.protect_skill_dirs();
            walk.queue.push_back(ScanDir::top(project));
        }
        ScriptAccess::Read | ScriptAccess::Denied => walk.protect_dir(top),
    }
    walk.scan_queue();
    std::mem::take(&mut walk.listings).keep(project, protection);
    if let Some(own) = defining_files(ctx).and_then(|_| ctx.skill_files().ok()) {
        walk.scan_own_folder(own.root());
    }
    walk.protect_hard_links();
    walk.into_result()
}

struct ProtectedScan<'a> {
    ctx: &'a SkillContext,
    project: &'a Path,
    /// By which the host reaches what the script sees.
    host_paths: HostPaths,
    /// Whether the script may write to the project.
    can_write: bool,
    /// Whether it may write to the project, or to the folder of its skill.
    can_change: bool,
    entry_count: usize,
    read_only: BTreeSet<PathBuf>,
    hidden: BTreeSet<PathBuf>,
    /// Protected files that have other hard links, and a protected name of each.
    hard_linked_files: HashMap<FileId, PathBuf>,
    /// Their other names that were found.
    second_names: BTreeMap<PathBuf, PathBuf>,
    /// Paths to which a protected name leads, and that name.
    aliases: Vec<(PathBuf, String)>,
    build_files: Vec<(OsString, Version)>,
    absent_git_targets: BTreeSet<String>,
    /// Why not all protected paths were found.
    incomplete_reason: Option<String>,
    /// Outer folders first, because what matters most is at the top.
    queue: VecDeque<ScanDir>,
    /// metier's own folders, which are covered as a whole.
    covered_dirs: Vec<PathBuf>,
    /// Those of them that this scan found; they belong to other hosts.
    metier_dirs: Vec<PathBuf>,
    /// The folders that earlier scans listed.
    listings: Listings,
}

#[derive(Default)]
struct ScanDir {
    full_path: PathBuf,
    /// Relative to the project, separated by `/`. No protected name is outside of UTF-8.
    relative_path: String,
    /// Whether the whole folder is read-only already.
    is_read_only: bool,
    /// Whether the folders in it belong to a package manager.
    is_package_dir: bool,
    /// Whether a folder above it is protected, so that the names below it do not decide.
    is_protected: bool,
}

/// An entry that a walk visits, and the folder in which the script sees it.
struct Entry<'a> {
    folder: &'a Path,
    entry: DirEntry,
}

impl Entry<'_> {
    fn place(&self) -> PathBuf {
        self.folder.join(self.entry.file_name())
    }

    fn file_name(&self) -> OsString {
        self.entry.file_name()
    }

    fn file_type(&self) -> io::Result<FileType> {
        self.entry.file_type()
    }

    fn ino(&self) -> u64 {
        self.entry.ino()
    }
}

impl ScanDir {
    fn top(project: &Path) -> Self {
        Self { full_path: project.to_owned(), ..Self::default() }
    }

    /// The path of an entry, relative to the project.
    fn entry_path(&self, name: &str) -> String {
        if self.relative_path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.relative_path) }
    }
}

/// What a script may do with a path.
#[derive(PartialEq)]
enum ScriptAccess {
    ReadWrite,
    Read,
    Denied,
}

/// Why a folder was not read to its end.
enum ReadError {
    Io(io::Error),
    Stopped(String),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<String> for ReadError {
    fn from(why: String) -> Self {
        Self::Stopped(why)
    }
}

impl ProtectedScan<'_> {
    /// Scans the folders of the queue, and those that are found in them.
    fn scan_queue(&mut self) {
        while let Some(folder) = self.queue.pop_front() {
            if let Err(why) = self.scan_dir(&folder) {
                let path = if folder.relative_path.is_empty() { "." } else { &folder.relative_path };
                self.incomplete_reason = Some(format!("{} {why}", path.escape_debug()));
                break;
            }
        }
    }

    fn scan_dir(&mut self, folder: &ScanDir) -> Result<(), String> {
        let Some(listing) = self.list(folder)? else { return Ok(()) };
        for entry in &listing.entries {
            self.visit_entry(folder, entry);
        }
        if self.can_change
            && !folder.is_read_only
            && listing.is_repository
            && !self.is_write_granted(&folder.relative_path)
        {
            // The folders in it are in the queue already.
            self.read_only.insert(folder.full_path.clone());
            self.note_hard_links_below(&folder.full_path);
        }
        Ok(())
    }

    /// The entries of a folder that have to be visited; `None` if the script cannot read the folder either.
    fn list(&mut self, folder: &ScanDir) -> Result<Option<Arc<Listing>>, String> {
        // There every entry is visited, also a plain file.
        let is_whole = folder.is_read_only || folder.is_protected;
        if !is_whole
            && let Some(listing) =
                self.listings.find(&folder.full_path, &self.host_paths, &folder.relative_path)
        {
            self.count_entries(listing.count)?;
            return Ok(Some(listing));
        }
        let mut path = folder.entry_path("");
        let above = path.len();
        let read = Listing::read(&self.host_paths.clone().at(&folder.full_path), |name, kind| {
            self.count_entries(1)?;
            path.truncate(above);
            path.push_str(&name.to_string_lossy());
            let is_protected = !folder.is_protected && self.is_protected_name(&path);
            let is_listed = is_whole
                || is_protected
                || (kind.is_dir() && (!folder.is_package_dir || may_be_metier_dir(name)))
                || (kind.is_file() && runs_on_build(&path));
            Ok((is_listed, is_protected))
        });
        match read {
            Ok(mut listing) => {
                if self.host_paths.has_overlay() {
                    listing.take_stamp_of_lower(&folder.full_path);
                }
                let listing = Arc::new(listing);
                if !is_whole {
                    self.listings.learn(&folder.relative_path, &listing);
                }
                Ok(Some(listing))
            }
            Err(ReadError::Io(error)) if is_inaccessible(&folder.full_path, &self.host_paths, &error) => {
                Ok(None)
            }
            Err(ReadError::Io(error)) => Err(format!("could not be read ({error})")),
            Err(ReadError::Stopped(why)) => Err(why),
        }
    }

    /// Protects what programs run on their own, such as `.git` and `.vscode`, in the folder of the skill, which the run may change. Names
    /// count from that folder on: as a folder of skills, it is protected as a whole where no grant opens it.
    fn scan_own_folder(&mut self, own: &Path) {
        let names = PathProtection::default();
        self.walk(vec![own.to_owned()], |scan, entry| {
            let Ok(kind) = entry.file_type() else { return false };
            let place = entry.place();
            if kind.is_dir() && scan.cover_metier_dir(&place) {
                return false;
            }
            let below = place.strip_prefix(own).unwrap_or(&place).to_string_lossy();
            let is_git = is_git_dir_name(&entry.file_name().to_string_lossy());
            let host_paths = &scan.host_paths;
            let has = |name: &str| host_paths.symlink_metadata(&place.join(name)).is_ok();
            let is_repository = || kind.is_dir() && git::is_repository(has);
            if !is_git && !names.protects_change_of_last(&below) && !is_repository() {
                let folder = place.parent().and_then(Path::file_name);
                return kind.is_dir()
                    && !folder.is_some_and(|name| PACKAGE_DIRS.iter().any(|dir| name == *dir));
            }
            let path = scan.relative_path(&place);
            if !scan.is_write_granted(&path) {
                if is_git {
                    scan.protect_git_targets(&place, &path, place.parent().unwrap_or(own));
                } else if kind.is_symlink() {
                    scan.protect_link_target(&place);
                }
                scan.note_hard_links_below(&place);
                scan.read_only.insert(place);
            }
            false
        });
    }

    fn count_entries(&mut self, count: usize) -> Result<(), String> {
        let checks = self.entry_count / CANCEL_CHECK_INTERVAL;
        self.entry_count += count;
        if self.entry_count > MAX_ENTRIES {
            return Err(format!(
                "and what lies beyond it was not looked at, after {MAX_ENTRIES} files and folders"
            ));
        }
        let is_stopped =
            self.entry_count / CANCEL_CHECK_INTERVAL > checks && self.ctx.cancel().is_cancelled();
        if is_stopped { Err("was being looked at when the run was stopped".to_owned()) } else { Ok(()) }
    }

    /// Handles one entry of a folder.
    fn visit_entry(&mut self, folder: &ScanDir, entry: &ListedEntry) {
        let (place, kind) = (folder.full_path.join(&entry.name), entry.kind);
        let is_folder = kind.is_dir();
        if is_folder && self.cover_metier_dir(&place) {
            return;
        }
        let name = entry.name.to_string_lossy();
        let path = folder.entry_path(&name);
        let is_plain = is_folder && !is_git_dir_name(&name) && !folder.is_package_dir;
        let is_protected = folder.is_protected || entry.is_protected;
        if !is_protected {
            if self.can_write && kind.is_file() && runs_on_build(&path) {
                self.build_files.extend(
                    file_version(&place, &self.host_paths).map(|version| (place.clone().into(), version)),
                );
            }
            if folder.is_read_only && kind.is_file() {
                self.note_hard_links(&place);
            }
            if is_plain {
                let is_downloaded = PACKAGE_DIRS.contains(&&*name);
                self.queue.push_back(ScanDir {
                    full_path: place,
                    relative_path: path,
                    is_read_only: folder.is_read_only,
                    is_package_dir: is_downloaded,
                    is_protected,
                });
            }
            return;
        }
        let may = self.script_access(&path);
        if is_git_dir_name(&name) && may == ScriptAccess::Read {
            self.protect_git_targets(&place, &path, &folder.full_path);
        }
        let inner = ScanDir {
            full_path: place,
            relative_path: path,
            is_read_only: folder.is_read_only,
            is_package_dir: false,
            is_protected,
        };
        match may {
            ScriptAccess::Denied if is_folder && self.has_granted_entry(&inner) => {
                self.queue.push_back(inner);
            }
            ScriptAccess::Denied => self.hide(&inner.full_path),
            ScriptAccess::Read if is_plain => self.protect_dir(inner),
            ScriptAccess::Read => {
                if !inner.is_read_only {
                    self.read_only.insert(inner.full_path.clone());
                }
                self.note_hard_links_below(&inner.full_path);
                // Who opens the folder follows the link. What lies in a protected folder may lead anywhere, as linked skills do.
                if kind.is_symlink() && !folder.is_protected && self.can_change && !is_git_dir_name(&name) {
                    self.protect_link_target(&inner.full_path);
                }
            }
            ScriptAccess::ReadWrite if is_plain => self.queue.push_back(inner),
            ScriptAccess::ReadWrite => {}
        }
    }

    /// Covers one of metier's own folders. Returns whether it is one.
    fn cover_metier_dir(&mut self, place: &Path) -> bool {
        if self.covered_dirs.iter().any(|closed| closed.as_os_str() == place.as_os_str()) {
            return true;
        }
        let is_found = is_metier_dir(&self.host_paths.at(place));
        if is_found {
            self.covered_dirs.push(place.to_owned());
            self.metier_dirs.push(place.to_owned());
        }
        is_found
    }

    /// Hides a secret, and its target in the project if it is a symlink.
    fn hide(&mut self, place: &Path) {
        self.hidden.insert(place.to_owned());
        self.note_hard_links_below(place);
        let host_paths = self.host_paths.clone();
        if !host_paths.symlink_metadata(place).is_ok_and(|about| about.is_symlink()) {
            return;
        }
        let real = match host_paths.canonicalize(place) {
            Ok(real) => real,
            Err(error) if is_dangling(&error) => return,
            Err(error) => {
                // A symlink to a folder outside that cannot be read leads a script nowhere either.
                let leads_out = host_paths
                    .read_link(place)
                    .is_ok_and(|to| to.is_absolute() && !to.starts_with(self.project));
                if !(leads_out && error.kind() == io::ErrorKind::PermissionDenied) {
                    self.incomplete_reason =
                        Some(format!("{} cannot be followed: {error}", self.display_path(place)));
                }
                return;
            }
        };
        if self.project.starts_with(&real) {
            self.incomplete_reason =
                Some(format!("{} is a link to the whole project", self.display_path(place)));
        } else if real.starts_with(self.project) && host_paths.symlink_metadata(&real).is_ok() {
            let path = self.relative_path(&real);
            let narrowed = self.ctx.permissions().with_protected_path(&path, true);
            if narrowed.allows(&Access::write(path)) {
                return;
            }
            self.hidden.insert(real.clone());
            self.note_hard_links_below(&real);
        }
    }

    /// Makes a whole folder read-only, and scans it for secrets.
    fn protect_dir(&mut self, folder: ScanDir) {
        if folder.is_read_only || self.read_only.insert(folder.full_path.clone()) {
            self.queue.push_back(ScanDir { is_read_only: true, ..folder });
        }
    }

    /// Protects what a link with a protected name leads to, if it is in the project and no grant names it.
    fn protect_link_target(&mut self, link: &Path) {
        let Ok(target) = self.host_paths.canonicalize(link) else { return };
        let Ok(path) = target.strip_prefix(self.project) else { return };
        let path = path.to_string_lossy().into_owned();
        if path.is_empty() {
            self.incomplete_reason =
                Some(format!("{} is a link to the whole project", self.display_path(link)));
        } else if !self.is_write_granted(&path) {
            self.note_hard_links_below(&target);
            self.read_only.insert(target);
        }
    }

    /// Protects what a `.git` links to and what its configuration makes git run, if it is in the project and no grant names it.
    fn protect_git_targets(&mut self, git: &Path, git_path: &str, tree: &Path) {
        if !self.can_change {
            return;
        }
        let host_paths = self.host_paths.clone();
        let linked = git::linked_paths(git, &host_paths);
        self.aliases.extend(linked.iter().map(|target| (target.clone(), git_path.to_owned())));
        for place in linked.into_iter().chain(git::configured_paths(git, tree, &host_paths)) {
            let Ok(path) = place.strip_prefix(self.project) else { continue };
            let path = path.to_string_lossy().into_owned();
            if self.project.starts_with(&place) {
                // Protecting it would make the whole project read-only.
                self.incomplete_reason =
                    Some(format!("{} leads to the whole project", self.display_path(git)));
            } else if !self.is_write_granted(&path) {
                if host_paths.symlink_metadata(&place).is_ok() {
                    self.note_hard_links_below(&place);
                    self.read_only.insert(place);
                } else {
                    self.absent_git_targets.insert(path);
                }
            }
        }
    }

    /// Whether a grant names this path as one that may be written.
    fn is_write_granted(&self, path: &str) -> bool {
        self.ctx.permissions().with_protected_path(path, false).allows(&Access::write(path))
    }

    fn protect_skill_dirs(&mut self) {
        for path in self.ctx.permissions().protection().skill_folders() {
            if self.script_access(path) != ScriptAccess::Read {
                continue;
            }
            let (links, found) = symlinks_along(self.project, Path::new(path), &self.host_paths);
            self.read_only.extend(links);
            let place = self.project.join(path);
            // The configuration of the project is a file beside the skills.
            if found.as_ref().is_some_and(|found| !found.is_dir()) {
                self.note_hard_links_below(&place);
                self.read_only.insert(place);
            } else if found.is_some() {
                self.protect_dir(ScanDir {
                    full_path: place,
                    relative_path: path.to_owned(),
                    is_protected: true,
                    ..ScanDir::default()
                });
            }
        }
    }

    /// Whether the path is protected because of its own name, not because of the folders above it.
    fn is_protected_name(&self, path: &str) -> bool {
        let protection = self.ctx.permissions().protection();
        protection.protects_read_of_last(path) || protection.protects_change_of_last(path)
    }

    fn script_access(&self, path: &str) -> ScriptAccess {
        let permissions = self.ctx.permissions();
        let protection = permissions.protection();
        let protects_read = protection.protects_read(path);
        let protects_write = protects_read || protection.protects_change(path);
        if !protects_write || permissions.allows(&Access::write(path)) {
            return ScriptAccess::ReadWrite;
        }
        // Programs often read the history of their project, so it is not a secret.
        let is_secret = protects_read && !path.split('/').any(is_git_dir_name);
        if is_secret && !permissions.allows(&Access::read(path)) {
            ScriptAccess::Denied
        } else {
            ScriptAccess::Read
        }
    }

    /// Whether a grant names an entry of a secret folder.
    fn has_granted_entry(&self, folder: &ScanDir) -> bool {
        let mut names =
            fs::read_dir(self.host_paths.at(&folder.full_path)).into_iter().flatten().filter_map(Result::ok);
        names.any(|entry| {
            let name = entry.file_name();
            self.script_access(&format!("{}/{}", folder.relative_path, name.to_string_lossy()))
                != ScriptAccess::Denied
        })
    }

    /// Records a file that has other hard links.
    fn note_hard_links(&mut self, place: &Path) {
        let about =
            self.host_paths.symlink_metadata(place).ok().filter(|about| about.is_file() && about.nlink() > 1);
        if let Some(about) = about {
            self.hard_linked_files.entry(file_id(&about)).or_insert_with(|| place.to_owned());
        }
    }

    /// The same for all files in a folder, except the data that git stores.
    fn note_hard_links_below(&mut self, place: &Path) {
        const GIT_STORAGE_DIRS: [&str; 4] = ["objects", "refs", "logs", "lfs"];
        self.note_hard_links(place);
        if !self.host_paths.symlink_metadata(place).is_ok_and(|about| about.is_dir()) {
            return;
        }
        self.walk(vec![place.to_owned()], |scan, entry| {
            let Ok(kind) = entry.file_type() else { return false };
            if kind.is_dir() && scan.cover_metier_dir(&entry.place()) {
                return false;
            }
            if kind.is_file() {
                scan.note_hard_links(&entry.place());
            }
            kind.is_dir() && !GIT_STORAGE_DIRS.iter().any(|stored| entry.file_name() == *stored)
        });
    }

    /// Protects the other hard links of protected files, wherever the script can read them.
    fn protect_hard_links(&mut self) {
        if self.hard_linked_files.is_empty() || self.incomplete_reason.is_some() {
            return;
        }
        let numbers: HashSet<u64> = self.hard_linked_files.keys().map(|file| file.ino).collect();
        let secret: HashSet<FileId> =
            self.hidden.iter().filter_map(|place| file_id_at(place, &self.host_paths)).collect();
        let in_hidden = self.inodes_in_hidden();
        let skill = self.ctx.skill_files().ok().map(|files| files.root().to_owned());
        let mut folders = vec![self.project.to_owned()];
        folders.extend(skill.filter(|skill| !skill.starts_with(self.project)));
        self.walk(folders, |scan, entry| {
            let Ok(kind) = entry.file_type() else { return false };
            let place = entry.place();
            if kind.is_file() && numbers.contains(&entry.ino()) {
                let Some(found) = file_id_at(&place, &scan.host_paths) else { return false };
                let Some(first_name) = scan.hard_linked_files.get(&found).cloned() else { return false };
                if secret.contains(&found) || in_hidden.contains(&found.ino) {
                    scan.hidden.insert(place.clone());
                } else {
                    scan.read_only.insert(place.clone());
                }
                if place != first_name {
                    scan.second_names.insert(place, first_name);
                }
                return false;
            }
            kind.is_dir() && !scan.hidden.contains(&place) && !scan.covered_dirs.contains(&place)
        });
    }

    /// The inode numbers of the files in hidden folders.
    fn inodes_in_hidden(&mut self) -> HashSet<u64> {
        let is_folder =
            |place: &&PathBuf| self.host_paths.symlink_metadata(place).is_ok_and(|about| about.is_dir());
        let folders = self.hidden.iter().filter(is_folder).cloned().collect();
        let mut numbers = HashSet::new();
        self.walk(folders, |_, entry| {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_folder {
                numbers.insert(entry.ino());
            }
            is_folder
        });
        numbers
    }

    /// Visits the entries of these folders and of the folders for which `visit` returns true. After too many entries, the scan is
    /// incomplete.
    fn walk(&mut self, mut pending: Vec<PathBuf>, mut visit: impl FnMut(&mut Self, &Entry<'_>) -> bool) {
        while let Some(folder) = pending.pop() {
            for entry in self.entries(&folder) {
                if let Err(why) = self.count_entries(1) {
                    self.incomplete_reason = Some(format!("{} {why}", self.display_path(&folder)));
                    return;
                }
                let entry = Entry { folder: &folder, entry };
                if visit(self, &entry) {
                    pending.push(entry.place());
                }
            }
        }
    }

    /// The entries of a folder. If it cannot be read and the script may be able to, the result is incomplete.
    fn entries(&mut self, folder: &Path) -> impl Iterator<Item = DirEntry> + use<> {
        let entries = fs::read_dir(self.host_paths.at(folder));
        let error = entries.as_ref().err();
        if let Some(error) = error.filter(|error| !is_inaccessible(folder, &self.host_paths, error)) {
            self.incomplete_reason =
                Some(format!("{} could not be read ({error})", self.display_path(folder)));
        }
        entries.into_iter().flatten().filter_map(Result::ok)
    }

    fn display_path(&self, place: &Path) -> String {
        let path = place.strip_prefix(self.project).unwrap_or(place);
        path.to_string_lossy().escape_debug().to_string()
    }

    fn relative_path(&self, place: &Path) -> String {
        place.strip_prefix(self.project).unwrap_or(place).to_string_lossy().into_owned()
    }

    fn into_result(self) -> ScanResult {
        let count = self.read_only.len() + self.hidden.len();
        let too_many = || {
            let max = remaining_mounts().saturating_sub(RESERVED_MOUNTS);
            (count > max)
                .then(|| format!("there are {count} of them, and the kernel allows {max} more mounts"))
        };
        let too_many = if count > RESERVED_MOUNTS { too_many() } else { None };
        let relative =
            |(place, first_name): (&PathBuf, &PathBuf)| (place.clone(), self.relative_path(first_name));
        let second_names = self.second_names.iter().map(relative).collect();
        let names = |paths: BTreeSet<PathBuf>| paths.into_iter().map(OsString::from).collect();
        let paths = ProtectedPaths {
            read_only: names(self.read_only),
            hidden: names(self.hidden),
            own: self.metier_dirs.into_iter().map(OsString::from).collect(),
            has_denied: self.can_write && self.ctx.permissions().denies_paths(),
            incomplete_reason: self.incomplete_reason.or(too_many),
            hard_linked_files: self.hard_linked_files.into_keys().collect(),
        };
        let notes = ScanNotes {
            build_files: self.build_files,
            absent_git_targets: self.absent_git_targets.into_iter().collect(),
            aliases: self.aliases,
            second_names,
        };
        ScanResult { paths, notes }
    }
}

/// The number of mounts that the kernel still allows.
fn remaining_mounts() -> usize {
    const DEFAULT_MOUNT_MAX: usize = 100_000;
    let most = fs::read_to_string("/proc/sys/fs/mount-max").ok();
    let most = most.and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT_MOUNT_MAX);
    let used = fs::read("/proc/self/mountinfo").unwrap_or_default();
    most.saturating_sub(used.split(|byte| *byte == b'\n').count())
}

fn file_version(place: &Path, paths: &HostPaths) -> Option<Version> {
    let about = paths.symlink_metadata(place).ok()?;
    Some((about.dev(), about.ino(), about.size(), about.ctime(), about.ctime_nsec()))
}

fn file_id_at(place: &Path, paths: &HostPaths) -> Option<FileId> {
    paths.symlink_metadata(place).ok().as_ref().map(file_id)
}

pub(crate) fn is_git_dir_name(name: &str) -> bool {
    name.eq_ignore_ascii_case(".git")
}
