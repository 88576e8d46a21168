//! Detects paths that are protected because of what they are, not because of their names: targets of a `.git`, git repositories,
//! files that a git configuration names, and targets of links that have the name of a secret.
//!
//! Results are cached per run, and nothing is looked up without an indication: a folder is inspected once.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use super::entry::EntryKind;
use super::open::{NameCounter, NamedEntry};
use super::operation::FileOperation;
use super::path::join_path;
use super::protected_cache::{DirStamp, FolderInfo, ProtectedAlias, SecretLinkSnapshot, SecretLinks};
use super::view::FilesView;
use super::{Files, name_encoding};
use crate::error::Result;
use crate::host::git;
use crate::host::io_error::{into_io_error, is_skill_error};
use crate::host::{FileId, file_id};
use crate::policy::PathProtection;

/// Maximum number of cached folders; when it is reached, the cache is cleared.
const MAX_CACHED_FOLDERS: usize = 1 << 12;

impl FilesView<'_> {
    /// Checks the permission for a path that is protected regardless of its name. Without permissions to check, everything is
    /// allowed.
    pub(super) fn check_protected(&self, operation: FileOperation<'_>, path: &str) -> Result<()> {
        let Some(permissions) = self.permissions else { return Ok(()) };
        match self.files.find_alias_or_repository(operation, path, self.secret_links(operation)?) {
            Some(alias) => alias.require(permissions, operation, path),
            None => Ok(()),
        }
    }

    /// Whether a walk may enter a folder that contains these names.
    pub(super) fn may_enter(&self, path: &str, has: impl Fn(&str) -> bool) -> Result<bool> {
        let Some(permissions) = self.permissions else { return Ok(true) };
        let operation = FileOperation::inspect("search", path);
        let is_found = git::is_repository(has);
        let found = is_found.then(|| ProtectedAlias::repository(path.to_owned()));
        let alias = self.files.find_alias(operation, path, self.secret_links(operation)?);
        Ok(found.into_iter().chain(alias).all(|alias| alias.require(permissions, operation, path).is_ok()))
    }

    /// Whether a search may show the content of this file.
    pub(super) fn may_search_file(&self, path: &str) -> Result<bool> {
        let Some(permissions) = self.permissions else { return Ok(true) };
        let operation = FileOperation::inspect("search", path);
        let alias = self.files.matching_alias(self.secret_links(operation)?, path);
        Ok(alias.is_none_or(|alias| alias.require(permissions, operation, path).is_ok()))
    }

    /// The targets of the symbolic links at the top that have the name of a secret.
    pub(super) fn secret_links(&self, operation: FileOperation<'_>) -> Result<&[ProtectedAlias]> {
        let known = &self.files.protected_cache.secret_links;
        if known.get().is_none() {
            let mut reservation = self.empty_reservation();
            let mut count = |length: usize| {
                let bytes = (length + size_of::<NamedEntry>()) as u64 + 32;
                self.check_cancelled().and_then(|()| reservation.grow(bytes)).map_err(into_io_error)
            };
            let links =
                self.files.current_secret_links(&mut count).map_err(|error| operation.io_error(error))?;
            known.set(links).ok();
        }
        Ok(known.get().map_or(&[], |links| links))
    }
}

impl Files {
    /// The same files, with the cached links at the top of the project from an earlier run.
    pub fn with_secret_links(mut self, links: &SecretLinks) -> Self {
        // Those of a copy are for its run alone.
        if self.host_paths.has_overlay() || self.delta.is_some() {
            return self;
        }
        self.protected_cache.shared_secret_links = links.clone();
        self
    }

    /// The reason why a path needs a permission that its name alone does not need.
    fn find_alias_or_repository(
        &self,
        operation: FileOperation<'_>,
        path: &str,
        links: &[ProtectedAlias],
    ) -> Option<ProtectedAlias> {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_file = operation.is_file_read();
        if is_file && self.unprotected_folders().contains(folder) {
            return None;
        }
        let found = self.find_alias(operation, path, links).or_else(|| self.find_repository(operation, path));
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

    fn unprotected_folders(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.protected_cache.unprotected_folders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The repository that contains a path, or that a write to the path would create.
    fn find_repository(&self, operation: FileOperation<'_>, path: &str) -> Option<ProtectedAlias> {
        let mut folders = containing_folders(path, operation.is_file_read());
        let found = folders.find(|folder| {
            if operation.is_write {
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
        operation: FileOperation<'_>,
        path: &str,
        links: &[ProtectedAlias],
    ) -> Option<ProtectedAlias> {
        if let Some(alias) = self.matching_alias(links, path) {
            return Some(alias);
        }
        containing_folders(path, operation.is_file_read()).find_map(|folder| {
            let known = self.folder_info(folder);
            let configured = if operation.is_write { self.config_targets(folder, &known) } else { &[] };
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
        let folder = name_encoding::decode(path);
        let has = |name: &str| self.exists(&folder.join(name));
        let is_repository = git::is_repository(has);
        if !has(".git") {
            return FolderInfo { is_repository, ..FolderInfo::default() };
        }
        // Most folders have a `.git` directory, which has no other target.
        let is_own = self.metadata_nofollow(&folder.join(".git")).is_ok_and(|metadata| metadata.is_dir())
            && !has(".git/commondir");
        let protected_path = join_path(path, ".git");
        let elsewhere = || git::linked_paths(&self.root.join(&folder).join(".git"), &self.host_paths);
        let git_targets = if is_own { Vec::new() } else { self.aliases(elsewhere(), &protected_path, true) };
        FolderInfo { is_repository, has_git: true, git_targets, config_targets: OnceLock::new() }
    }

    /// The paths that git runs or reads in a folder because of a configuration.
    fn config_targets<'a>(&self, path: &str, folder: &'a FolderInfo) -> &'a [ProtectedAlias] {
        if !folder.has_git {
            return &[];
        }
        folder.config_targets.get_or_init(|| {
            let root = self.root.join(name_encoding::decode(path));
            let named = git::configured_paths(&root.join(".git"), &root, &self.host_paths);
            self.aliases(named, &join_path(path, ".git"), false)
        })
    }

    /// Those of these paths that are in the project and are not protected by name.
    fn aliases(
        &self,
        places: Vec<PathBuf>,
        protected_path: &str,
        protects_read: bool,
    ) -> Vec<ProtectedAlias> {
        let inside = |target: PathBuf| {
            let path = target.strip_prefix(&self.root).ok()?;
            let identity = self.file_id(path).ok();
            let path: Vec<_> = path.iter().map(name_encoding::encode).collect();
            let path = path.join("/");
            let is_own = crate::policy::is_within(&path, protected_path);
            let protected_path = protected_path.to_owned();
            (!is_own && !path.is_empty()).then_some(ProtectedAlias {
                path,
                file_id: identity,
                protected_path,
                protects_read,
            })
        };
        places.into_iter().filter_map(inside).collect()
    }

    /// Whether a folder is a repository, or would become one by a change to `path`.
    fn is_or_becomes_repository(&self, folder: &str, path: &str) -> bool {
        let below = path.get(folder.len()..).unwrap_or_default().trim_start_matches('/');
        let next = below.split('/').next().unwrap_or_default();
        let place = name_encoding::decode(folder);
        git::is_repository(|name| next.eq_ignore_ascii_case(name) || self.exists(&place.join(name)))
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
        let entries = match self.read_dir(Path::new(""), count) {
            Err(error) if is_skill_error(&error) => return Err(error),
            entries => entries.unwrap_or_default(),
        };
        let secrets = PathProtection::default();
        let links = entries.into_iter().filter(|(_, kind)| *kind == EntryKind::Symlink);
        let named = links.map(|(name, _)| name_encoding::encode(&name).into_owned());
        let named = named.filter(|name| secrets.protects_read(name) && !name.eq_ignore_ascii_case(".git"));
        let aliases = named.flat_map(|name| {
            let real = self.host_paths.canonicalize(&self.root.join(name_encoding::decode(&name)));
            self.aliases(real.into_iter().collect(), &name, true)
        });
        Ok(aliases.collect())
    }

    #[cfg(unix)]
    fn root_stamp(&self) -> Option<DirStamp> {
        use cap_std::fs::MetadataExt as _;
        let metadata = self.dir.dir_metadata().ok()?;
        Some((file_id(&metadata), metadata.ctime(), metadata.ctime_nsec()))
    }

    #[cfg(not(unix))]
    fn root_stamp(&self) -> Option<DirStamp> {
        None
    }
}

fn is_settled(seconds: i64, nanos: i64) -> bool {
    const TICK: Duration = Duration::from_millis(100);
    let age = || {
        let since = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.checked_sub(since)
    };
    age().is_some_and(|age| age > TICK)
}

/// The folders that contain a path, the root first; and the path itself, unless it is a file to be read.
fn containing_folders(path: &str, is_file: bool) -> impl Iterator<Item = &str> {
    let own = (!is_file && !path.is_empty()).then_some(path);
    let above = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
    std::iter::once("").chain(above).chain(own)
}
