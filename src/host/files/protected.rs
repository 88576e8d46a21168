//! Detects paths that are protected because of what they are, not because of their names: targets of a `.git`, git repositories,
//! files that a git configuration names, and secrets under other names.
//!
//! Results are cached per run, and nothing is looked up without an indication: a folder is inspected once, a file only if it has
//! several hard links.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use cap_fs_ext::MetadataExt;

use super::walk::{EntryKind, WalkFilter, WalkOptions};
use crate::error::{ErrorKind, Result};
use crate::host::files::open::{NameCounter, NamedEntry};
use crate::host::files::operation::FileOperation;
use crate::host::files::{Files, FilesView, name_encoding};
use crate::host::git;
use crate::host::memory::{HostMemoryReservation, into_io_error, is_skill_error};
use crate::policy::{CancelToken, PathProtection, Permissions};

/// Device and inode number.
type FileId = (u64, u64);

/// Maximum number of cached folders; when it is reached, the cache is cleared.
const MAX_CACHED_FOLDERS: usize = 1 << 12;

/// The cache of protected paths in a project. Lives as long as a run.
#[derive(Default)]
pub(super) struct ProtectedCache {
    folders: Mutex<HashMap<String, Arc<FolderInfo>>>,
    /// Folders in which only names decide what is protected.
    unprotected_folders: Mutex<HashSet<String>>,
    hard_linked_secrets: OnceLock<Option<HardLinkedSecrets>>,
    secret_links: OnceLock<Arc<[ProtectedAlias]>>,
    shared_secret_links: SecretLinks,
}

/// The symbolic links at the top of a project that have the name of a secret. Cached between runs as long as no entry is added or
/// removed there, which no script can hide.
#[derive(Clone, Default)]
pub(crate) struct SecretLinks(Arc<Mutex<Option<SecretLinkSnapshot>>>);

/// The time of the last change at the top of a project, and the links found there.
struct SecretLinkSnapshot {
    root_stamp: DirStamp,
    links: Arc<[ProtectedAlias]>,
}

/// A folder and the time of its last change (ctime), which no program can set.
type DirStamp = (FileId, i64, i64);

/// The properties of a folder, and the targets of its `.git`.
#[derive(Default)]
struct FolderInfo {
    is_repository: bool,
    has_git: bool,
    git_targets: Vec<ProtectedAlias>,
    /// The paths that the git configuration names, if they were needed.
    config_targets: OnceLock<Vec<ProtectedAlias>>,
}

/// Secrets with several names, by file identity.
struct HardLinkedSecrets {
    secrets: HashMap<FileId, String>,
    /// The memory that they hold.
    _held: HostMemoryReservation,
}

/// Another path to something that is protected by its name.
#[derive(Clone)]
struct ProtectedAlias {
    /// Relative to the root, without symbolic links.
    path: String,
    file_id: Option<FileId>,
    /// The protected path that leads there; a permission for it covers this path as well.
    protected_path: String,
    protects_read: bool,
}

impl FilesView<'_> {
    /// Checks the permission for a path that is protected regardless of its name. Without permissions to check, everything is
    /// allowed.
    pub(super) fn check_protected(&self, attempt: FileOperation<'_>, path: &str) -> Result<()> {
        let Some(permissions) = self.permissions else { return Ok(()) };
        match self.files.find_alias_or_repository(attempt, path, self.secret_links(attempt)?) {
            Some(alias) => alias.require(permissions, attempt, path),
            None => Ok(()),
        }
    }

    /// Refuses a file that is a secret under another name. Checked after opening: only then is its number of hard links known.
    pub(super) fn check_opened_file(
        &self,
        attempt: FileOperation<'_>,
        path: &str,
        about: &impl MetadataExt,
    ) -> Result<()> {
        let Some(permissions) = self.permissions.filter(|_| about.nlink() > 1) else { return Ok(()) };
        if permissions.protection().protects_read(path) {
            // The permission for this name was checked already.
            return Ok(());
        }
        let identity = (about.dev(), about.ino());
        let known = &self.files.protected_cache.hard_linked_secrets;
        if known.get().is_none() {
            // An error that stopped the search is not cached for the next operation.
            let links = self.secret_links(attempt)?;
            let found = self.find_hard_linked_secrets(permissions.protection(), links);
            let found = found.map_err(|error| attempt.with_context(error))?;
            known.set(found).ok();
        }
        let stands_for = match known.get().and_then(Option::as_ref) {
            Some(linked) => match linked.secrets.get(&identity) {
                Some(secret) => secret.clone(),
                None => return Ok(()),
            },
            // The search could not cover everything.
            None => path.to_owned(),
        };
        let alias = ProtectedAlias {
            path: path.to_owned(),
            file_id: None,
            protected_path: stands_for,
            protects_read: true,
        };
        alias.require(permissions, attempt, path)
    }

    /// The secrets of the project that have other names, including the targets of symbolic links; `None` if the search could not
    /// cover everything.
    fn find_hard_linked_secrets(
        &self,
        protection: &PathProtection,
        links: &[ProtectedAlias],
    ) -> Result<Option<HardLinkedSecrets>> {
        let never = CancelToken::new();
        let cancel = self.limits.map_or(&never, |bounds| bounds.cancel);
        let walk = WalkOptions { cancel, filter: WalkFilter::SkipNothing, depth: None };
        let files = FilesView { permissions: None, ..*self };
        let (mut secrets, mut held) = (HashMap::new(), self.empty_reservation());
        let walked = files.walk("", &walk, |entry| {
            let is_led_to = |link: &&ProtectedAlias| crate::policy::is_within(&entry.path, &link.path);
            let stands_for = if protection.protects_read(&entry.path) {
                Some(&entry.path)
            } else {
                links.iter().find(is_led_to).map(|link| &link.protected_path)
            };
            if entry.kind == EntryKind::File
                && let Some(stands_for) = stands_for
                && let Ok(about) = self.files.metadata_nofollow(&name_encoding::decode(&entry.path))
                && about.nlink() > 1
            {
                held.grow(entry.memory_size())?;
                secrets.insert((about.dev(), about.ino()), stands_for.clone());
            }
            Ok(())
        });
        match walked {
            Ok(_) => Ok(Some(HardLinkedSecrets { secrets, _held: held })),
            Err(error) if ends_run(error.kind()) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Whether a walk may enter a folder that contains these names.
    pub(super) fn may_enter(&self, path: &str, has: impl Fn(&str) -> bool) -> Result<bool> {
        let Some(permissions) = self.permissions else { return Ok(true) };
        let attempt = FileOperation::inspect("search", path);
        let is_found = git::is_repository(has);
        let found = is_found.then(|| ProtectedAlias::repository(path.to_owned()));
        let alias = self.files.find_alias(attempt, path, self.secret_links(attempt)?);
        Ok(found.into_iter().chain(alias).all(|alias| alias.require(permissions, attempt, path).is_ok()))
    }

    /// Whether a search may show the content of this file.
    pub(super) fn may_search_file(&self, path: &str) -> Result<bool> {
        let Some(permissions) = self.permissions else { return Ok(true) };
        let attempt = FileOperation::inspect("search", path);
        let alias = self.files.matching_alias(self.secret_links(attempt)?, path);
        Ok(alias.is_none_or(|alias| alias.require(permissions, attempt, path).is_ok()))
    }

    /// The targets of the symbolic links at the top that have the name of a secret.
    fn secret_links(&self, attempt: FileOperation<'_>) -> Result<&[ProtectedAlias]> {
        let known = &self.files.protected_cache.secret_links;
        if known.get().is_none() {
            let mut held = self.empty_reservation();
            let mut count = |length: usize| {
                let bytes = (length + size_of::<NamedEntry>()) as u64 + 32;
                self.check_cancelled().and_then(|()| held.grow(bytes)).map_err(into_io_error)
            };
            let links =
                self.files.current_secret_links(&mut count).map_err(|error| attempt.io_error(error))?;
            known.set(links).ok();
        }
        Ok(known.get().map_or(&[], |links| links))
    }
}

impl Files {
    /// The same files, with the cached links at the top of the project from an earlier run.
    pub(crate) fn with_secret_links(mut self, links: &SecretLinks) -> Self {
        self.protected_cache.shared_secret_links = links.clone();
        self
    }

    /// The reason why a path needs a permission that its name alone does not need.
    fn find_alias_or_repository(
        &self,
        attempt: FileOperation<'_>,
        path: &str,
        links: &[ProtectedAlias],
    ) -> Option<ProtectedAlias> {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_file = attempt.is_file_read();
        if is_file && self.unprotected_folders().contains(folder) {
            return None;
        }
        let found = self.find_alias(attempt, path, links).or_else(|| self.find_repository(attempt, path));
        if is_file && found.is_none() && links.is_empty() {
            let leads_nowhere = |folder: &str| self.folder_info(folder).git_targets.is_empty();
            if containing_folders(path, true).all(leads_nowhere)
                && self.unprotected_folders().len() < MAX_CACHED_FOLDERS
            {
                self.unprotected_folders().insert(folder.to_owned());
            }
        }
        found
    }

    fn unprotected_folders(&self) -> MutexGuard<'_, HashSet<String>> {
        self.protected_cache.unprotected_folders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The repository that contains a path, or that a write to the path would create.
    fn find_repository(&self, attempt: FileOperation<'_>, path: &str) -> Option<ProtectedAlias> {
        let mut folders = containing_folders(path, attempt.is_file_read());
        let found = folders.find(|folder| {
            if attempt.is_write {
                self.is_or_becomes_repository(folder, path)
            } else {
                self.folder_info(folder).is_repository
            }
        });
        found.map(|folder| ProtectedAlias::repository(folder.to_owned()))
    }

    /// Whether a path is, or is in, the target of a protected name.
    fn find_alias(
        &self,
        attempt: FileOperation<'_>,
        path: &str,
        links: &[ProtectedAlias],
    ) -> Option<ProtectedAlias> {
        if let Some(alias) = self.matching_alias(links, path) {
            return Some(alias);
        }
        containing_folders(path, attempt.is_file_read()).find_map(|folder| {
            let known = self.folder_info(folder);
            let configured = if attempt.is_write { self.config_targets(folder, &known) } else { &[] };
            self.matching_alias(known.git_targets.iter().chain(configured), path)
        })
    }

    fn matching_alias<'a>(
        &self,
        aliases: impl IntoIterator<Item = &'a ProtectedAlias>,
        path: &str,
    ) -> Option<ProtectedAlias> {
        let mut way: Option<Vec<Option<FileId>>> = None;
        let mut is_on_the_way = |alias: &&ProtectedAlias| {
            crate::policy::is_within(path, &alias.path)
                || alias.file_id.is_some_and(|identity| {
                    let identities = way.get_or_insert_with(|| {
                        containing_folders(path, false)
                            .map(|part| self.file_id(&name_encoding::decode(part)).ok())
                            .collect()
                    });
                    identities.contains(&Some(identity))
                })
        };
        aliases.into_iter().find(|alias| is_on_the_way(alias)).cloned()
    }

    /// The properties of a folder, cached.
    fn folder_info(&self, path: &str) -> Arc<FolderInfo> {
        let mut folders = self.protected_cache.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = folders.get(path) {
            return known.clone();
        }
        if folders.len() >= MAX_CACHED_FOLDERS {
            folders.clear();
        }
        let found = Arc::new(self.inspect_folder(path));
        folders.insert(path.to_owned(), found.clone());
        found
    }

    fn inspect_folder(&self, path: &str) -> FolderInfo {
        let place = name_encoding::decode(path);
        let has = |name: &str| (self.backend.exists)(&self.dir, &place.join(name));
        let is_repository = git::is_repository(has);
        if !has(".git") {
            return FolderInfo { is_repository, ..FolderInfo::default() };
        }
        // Most folders have a `.git` directory, which has no other target.
        let is_own = self.metadata_nofollow(&place.join(".git")).is_ok_and(|about| about.is_dir())
            && !has(".git/commondir");
        let stands_for = super::walk::join_path(path, ".git");
        let elsewhere = || git::linked_paths(&self.root.join(&place).join(".git"));
        let leads_to = if is_own { Vec::new() } else { self.aliases(elsewhere(), &stands_for, true) };
        FolderInfo { is_repository, has_git: true, git_targets: leads_to, config_targets: OnceLock::new() }
    }

    /// The paths that git runs or reads in a folder because of a configuration.
    fn config_targets<'a>(&self, path: &str, folder: &'a FolderInfo) -> &'a [ProtectedAlias] {
        if !folder.has_git {
            return &[];
        }
        folder.config_targets.get_or_init(|| {
            let place = self.root.join(name_encoding::decode(path));
            let named = git::configured_paths(&place.join(".git"), &place);
            self.aliases(named, &super::walk::join_path(path, ".git"), false)
        })
    }

    /// Those of these paths that are in the project and are not protected by name.
    fn aliases(&self, places: Vec<PathBuf>, stands_for: &str, guards_read: bool) -> Vec<ProtectedAlias> {
        let inside = |place: PathBuf| {
            let path = place.strip_prefix(&self.root).ok()?;
            let identity = self.file_id(path).ok();
            let path: Vec<_> = path.iter().map(name_encoding::encode).collect();
            let path = path.join("/");
            let is_own = crate::policy::is_within(&path, stands_for);
            let stands_for = stands_for.to_owned();
            (!is_own && !path.is_empty()).then_some(ProtectedAlias {
                path,
                file_id: identity,
                protected_path: stands_for,
                protects_read: guards_read,
            })
        };
        places.into_iter().filter_map(inside).collect()
    }

    /// Whether a folder is a repository, or would become one by a change to `path`.
    fn is_or_becomes_repository(&self, folder: &str, path: &str) -> bool {
        let below = path.get(folder.len()..).unwrap_or_default().trim_start_matches('/');
        let next = below.split('/').next().unwrap_or_default();
        let place = name_encoding::decode(folder);
        git::is_repository(|name| {
            next.eq_ignore_ascii_case(name) || (self.backend.exists)(&self.dir, &place.join(name))
        })
    }

    /// The symbolic links at the top that have the name of a secret, from the cache or read now.
    fn current_secret_links(&self, count: &mut NameCounter<'_>) -> io::Result<Arc<[ProtectedAlias]>> {
        let top = self.root_stamp();
        let mut seen =
            self.protected_cache.shared_secret_links.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = seen.as_ref().filter(|known| Some(known.root_stamp) == top) {
            return Ok(known.links.clone());
        }
        let links: Arc<[ProtectedAlias]> = self.find_secret_links(count)?.into();
        // Two changes within one tick of the clock have the same time.
        let settled = top.filter(|(_, seconds, nanos)| is_settled(*seconds, *nanos));
        *seen = settled.map(|top| SecretLinkSnapshot { root_stamp: top, links: links.clone() });
        Ok(links)
    }

    fn find_secret_links(&self, count: &mut NameCounter<'_>) -> io::Result<Vec<ProtectedAlias>> {
        let entries = match (self.backend.read_dir)(&self.dir, Path::new(""), count) {
            Err(error) if is_skill_error(&error) => return Err(error),
            entries => entries.unwrap_or_default(),
        };
        let secrets = PathProtection::default();
        let links = entries.into_iter().filter(|(_, kind)| *kind == EntryKind::Symlink);
        let named = links.map(|(name, _)| name_encoding::encode(&name).into_owned());
        let named = named.filter(|name| secrets.protects_read(name) && !name.eq_ignore_ascii_case(".git"));
        let aliases = named.flat_map(|name| {
            let real = std::fs::canonicalize(self.root.join(name_encoding::decode(&name)));
            self.aliases(real.into_iter().collect(), &name, true)
        });
        Ok(aliases.collect())
    }

    /// The metadata of a path without symbolic links.
    fn metadata_nofollow(&self, path: &Path) -> io::Result<cap_std::fs::Metadata> {
        let Some(name) = path.file_name() else { return self.dir.dir_metadata() };
        (self.backend.open_dir)(&self.dir, path.parent().unwrap_or(Path::new("")))?.symlink_metadata(name)
    }

    #[cfg(unix)]
    fn root_stamp(&self) -> Option<DirStamp> {
        use cap_std::fs::MetadataExt as _;
        let about = self.dir.dir_metadata().ok()?;
        Some(((MetadataExt::dev(&about), MetadataExt::ino(&about)), about.ctime(), about.ctime_nsec()))
    }

    #[cfg(not(unix))]
    fn root_stamp(&self) -> Option<DirStamp> {
        None
    }
}

/// Whether an error concerns the run and not the files.
fn ends_run(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Memory | ErrorKind::Cancelled | ErrorKind::Timeout)
}

fn is_settled(seconds: i64, nanos: i64) -> bool {
    const TICK: Duration = Duration::from_millis(100);
    let age = || {
        let since = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.checked_sub(since)
    };
    age().is_some_and(|age| age > TICK)
}

impl ProtectedAlias {
    fn repository(path: String) -> Self {
        Self { protected_path: path.clone(), path, file_id: None, protects_read: true }
    }

    /// Requires a permission that names the path, or the protected path that leads to it.
    fn require(&self, permissions: &Permissions, attempt: FileOperation<'_>, path: &str) -> Result<()> {
        if self.protected_path != self.path
            && permissions.allows(&attempt.required_access(&self.protected_path))
        {
            return Ok(());
        }
        permissions
            .with_protected_path(&self.path, self.protects_read)
            .require(&attempt.required_access(path), attempt)
    }
}

/// The folders that contain a path, the root first; and the path itself, unless it is a file to be read.
fn containing_folders(path: &str, is_file: bool) -> impl Iterator<Item = &str> {
    let own = (!is_file && !path.is_empty()).then_some(path);
    let above = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
    std::iter::once("").chain(above).chain(own)
}
