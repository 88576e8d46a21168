//! The skills of an engine as they are on disk: discovered when it is built and by [`Engine::reload`](super::Engine::reload),
//! and read again one by one when a run finds that they were edited.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use crate::registry::{Registry, Roots, Skill};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::Files;

/// How often a lookup reads a skill that changes meanwhile, before it gives up.
const MAX_ATTEMPTS: u32 = 100;
/// Attempts after which it waits before each further one.
const QUICK_ATTEMPTS: u32 = 10;

/// The skills of an engine at one time. A run keeps the set it started with.
pub(super) struct SkillSet {
    pub(super) registry: Arc<Registry>,
    /// For each folder of the engine: the folders in it that scripts may not change.
    pub(super) protected_folders: Vec<Vec<String>>,
    /// Differs between two sets of one engine.
    pub(super) generation: u64,
}

/// The current skills of an engine.
pub(super) struct CurrentSkills {
    roots: Roots,
    folders: Vec<PathBuf>,
    current: RwLock<Arc<SkillSet>>,
    /// Held while files are read to replace the set, so that no older set replaces a newer one.
    replacement: Mutex<()>,
}

impl CurrentSkills {
    /// Those in these roots; `registry` where they were discovered already.
    pub(super) fn new(roots: Roots, registry: Option<Arc<Registry>>, folders: Vec<PathBuf>) -> Self {
        let registry = registry.unwrap_or_else(|| Arc::new(Registry::discover(&roots)));
        let set = SkillSet::new(registry, &roots, &folders, 0);
        Self { roots, folders, current: RwLock::new(Arc::new(set)), replacement: Mutex::default() }
    }

    pub(super) fn roots(&self) -> &Roots {
        &self.roots
    }

    /// The folders in which skills are looked for, and those that are skills by themselves.
    pub(super) fn folders_of_skills(&self) -> Vec<PathBuf> {
        let roots = self.roots.iter().map(|root| root.path.clone());
        roots.chain(self.folders.iter().cloned()).collect()
    }

    /// The set as it is now. Skills in it may have been edited since.
    pub(super) fn set(&self) -> Arc<SkillSet> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Discovers all skills again.
    pub(super) fn reload(&self) {
        let _replacing = self.replacement.lock().unwrap_or_else(PoisonError::into_inner);
        self.replace(Registry::discover(&self.roots));
    }

    /// What `find` finds, as it is on disk now.
    pub(super) fn find_current(
        &self,
        name: &str,
        find: impl Fn(&Registry) -> Result<&Skill>,
    ) -> Result<(Arc<SkillSet>, Skill)> {
        let mut attempts = Attempts::default();
        loop {
            let set = self.set();
            let found = find(&set.registry).cloned();
            if !self.refresh_changed(&set, name, found.as_ref().ok(), None) {
                return found.map(|skill| (set, skill));
            }
            attempts.next(name)?;
        }
    }

    /// The skill as it is on disk now: the one in the same folder.
    pub(super) fn current_version(&self, skill: &Skill) -> Result<(Arc<SkillSet>, Skill)> {
        self.find_current(skill.name(), |registry| {
            let found = registry.skill_with_folder(skill.folder());
            // Where it does not load any more, the lookup says why.
            found.map_or_else(|| registry.find(&skill.qualified_name()), Ok)
        })
    }

    /// Reads the skill that a lookup of this name found again if its files changed since, and those that the name may mean and
    /// that did not load before. `opened` is the folder from which its script was read. Returns whether anything changed, so that
    /// the lookup must be repeated.
    pub(super) fn refresh_changed(
        &self,
        set: &SkillSet,
        name: &str,
        found: Option<&Skill>,
        opened: Option<&Files>,
    ) -> bool {
        let changed = found.filter(|skill| !skill.is_current(opened));
        let changed = changed.and_then(|skill| skill.folder().disk_path());
        match changed.or_else(|| set.registry.changed_unloaded(name)) {
            Some(folder) => {
                self.refresh(set, &HashSet::from([folder.to_owned()]));
                true
            }
            None => false,
        }
    }

    /// Reads the skills in these folders again, unless somebody replaced this set already.
    pub(super) fn refresh(&self, set: &SkillSet, folders: &HashSet<PathBuf>) {
        let _replacing = self.replacement.lock().unwrap_or_else(PoisonError::into_inner);
        if self.set().generation == set.generation {
            for folder in folders {
                tracing::debug!(folder = %folder.display(), "read the skill again because its files changed");
            }
            self.replace(set.registry.refreshed(folders));
        }
    }

    fn replace(&self, registry: Registry) {
        let generation = self.set().generation + 1;
        let set = SkillSet::new(Arc::new(registry), &self.roots, &self.folders, generation);
        let set = Arc::new(set);
        let old = std::mem::replace(&mut *self.current.write().unwrap_or_else(PoisonError::into_inner), set);
        drop(old);
    }
}

impl SkillSet {
    pub(super) fn skill_by_qualified_name(&self, qualified: Option<&str>) -> Option<&Skill> {
        let qualified = qualified?;
        // To write the names of all takes long.
        let unversioned = qualified.rsplit_once('@')?.0;
        let mut named = self.registry.skills().iter().filter(|skill| unversioned.ends_with(skill.name()));
        named.find(|skill| skill.qualified_name() == qualified)
    }

    fn new(registry: Arc<Registry>, roots: &Roots, folders: &[PathBuf], generation: u64) -> Self {
        let protected = |folder: &PathBuf| {
            let mut protected = roots.protected_paths(folder);
            protected.extend(registry.linked_folders(folder));
            protected
        };
        let protected_folders = folders.iter().map(protected).collect();
        let registry = registry.with_folders(roots, folders);
        Self { registry, protected_folders, generation }
    }
}

/// Counts how often a lookup was repeated because the skill changed.
#[derive(Default)]
pub(super) struct Attempts(u32);

impl Attempts {
    /// Allows one more attempt; `unavailable` when there were too many.
    pub(super) fn next(&mut self, name: &str) -> Result<()> {
        self.0 += 1;
        if self.0 >= MAX_ATTEMPTS {
            let sentence =
                format!("failed to read the skill {name}: its files change faster than they are read");
            return Err(SkillError::new(ErrorKind::Unavailable, sentence)
                .with_help("run it again when nothing writes to its SKILL.md or contract"));
        }
        if self.0 > QUICK_ATTEMPTS {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}
