//! What was read of the files of skills, so that nothing is read again that did not change.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::registry::drop_in::virtual_files;
use crate::registry::{FileList, FileListSnapshot, Skill, SkillFolder};
use metier_core::error::Result;
use metier_core::host::Files;
use metier_core::policy::{CancelToken, SkillDigest};
use metier_packages::PackageRequest;

/// Folders of which something is kept, as many as discovery finds in one root; beyond that all are read anew.
const MAX_FOLDERS: usize = 50_000;
/// Files in all lists that are kept.
const MAX_FILES: usize = 500_000;

/// What was read of the skills of an engine.
#[derive(Default)]
pub(super) struct SkillDigests {
    lists: Mutex<CachedLists>,
    embedded: Mutex<HashMap<usize, Arc<FileList>>>,
    callees: Mutex<HashMap<PathBuf, Arc<NamedCallees>>>,
    packages: Mutex<HashMap<PathBuf, Arc<NamedPackages>>>,
}

/// The lists of files by the folders of the skills.
#[derive(Default)]
struct CachedLists {
    folders: HashMap<PathBuf, Arc<ReadFolder>>,
    /// The files of all.
    files: usize,
}

struct ReadFolder {
    state: Vec<String>,
    snapshot: FileListSnapshot,
}

/// The names by which a skill can call others, as long as its files have this digest.
struct NamedCallees {
    files: SkillDigest,
    generation: u64,
    names: Arc<[String]>,
}

/// The packages that the scripts of a skill need, as long as its files have this digest.
struct NamedPackages {
    files: SkillDigest,
    requests: Arc<[PackageRequest]>,
}

impl SkillDigests {
    /// The packages that the scripts of a skill with these files need; `find` reads them.
    pub(super) fn package_requests(
        &self,
        skill: &Skill,
        files: SkillDigest,
        find: impl FnOnce() -> Vec<PackageRequest>,
    ) -> Arc<[PackageRequest]> {
        let Some(path) = skill.folder().disk_path() else { return find().into() };
        let packages = || self.packages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(named) = packages().get(path).filter(|named| named.files == files) {
            return named.requests.clone();
        }
        let requests: Arc<[PackageRequest]> = find().into();
        let named = NamedPackages { files, requests: requests.clone() };
        insert(&mut packages(), path.to_owned(), Arc::new(named));
        requests
    }

    /// The list of a skill's own files, as they are now.
    pub(super) fn list(&self, skill: &Skill, cancel: &CancelToken) -> Result<Arc<FileList>> {
        let path = match skill.folder() {
            SkillFolder::Disk(path) => path,
            SkillFolder::Script(script) => {
                let files = virtual_files(script)?;
                let files = files.iter().map(|(path, content)| (path.as_str(), content.as_slice()));
                return Ok(Arc::new(FileList::of_contents(files)));
            }
            SkillFolder::Embedded(embedded) => {
                let mut lists = self.embedded.lock().unwrap_or_else(PoisonError::into_inner);
                let key = std::ptr::from_ref(*embedded).addr();
                return Ok(lists
                    .entry(key)
                    .or_insert_with(|| Arc::new(FileList::of_embedded(embedded)))
                    .clone());
            }
        };
        let state = skill.contract().map_or(&[][..], |contract| &contract.state);
        let lists = || self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = lists().folders.get(path).filter(|read| read.state == state).cloned();
        let earlier = earlier.as_ref().map(|read| &read.snapshot);
        let snapshot = FileListSnapshot::read(&Files::open(path)?, state, earlier, cancel)?;
        let list = snapshot.list().clone();
        lists().insert(path, ReadFolder { state: state.to_vec(), snapshot });
        Ok(list)
    }

    /// The names by which a skill with these files calls others; `find` reads them.
    pub(super) fn callee_names(
        &self,
        skill: &Skill,
        files: SkillDigest,
        generation: u64,
        find: impl FnOnce() -> Vec<String>,
    ) -> Arc<[String]> {
        let Some(path) = skill.folder().disk_path() else { return find().into() };
        let callees = || self.callees.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = |named: &&Arc<NamedCallees>| (named.files, named.generation) == (files, generation);
        if let Some(named) = callees().get(path).filter(is_current) {
            return named.names.clone();
        }
        let names: Arc<[String]> = find().into();
        insert(
            &mut callees(),
            path.to_owned(),
            Arc::new(NamedCallees { files, generation, names: names.clone() }),
        );
        names
    }
}

impl CachedLists {
    fn insert(&mut self, path: &Path, read: ReadFolder) {
        self.files -= self.folders.remove(path).map_or(0, |earlier| earlier.file_count());
        if self.folders.len() >= MAX_FOLDERS || self.files + read.file_count() > MAX_FILES {
            *self = Self::default();
        }
        self.files += read.file_count();
        self.folders.insert(path.to_owned(), Arc::new(read));
    }
}

impl ReadFolder {
    fn file_count(&self) -> usize {
        self.snapshot.list().files().len()
    }
}

fn insert<T>(known: &mut HashMap<PathBuf, T>, path: PathBuf, value: T) {
    if known.len() >= MAX_FOLDERS && !known.contains_key(&path) {
        known.clear();
    }
    known.insert(path, value);
}
