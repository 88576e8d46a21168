//! The registry of skills: roots and scopes, discovery, and shadowing.
//!
//! Discovery reads only the frontmatter of `SKILL.md` files and the contracts beside them; bodies, scripts and resources are
//! read on demand. It never fails as a whole: what does not load is a [`Problem`], and one broken skill never hides another.

mod broken;
mod builtin;
mod catalog;
mod command_skill;
mod contract_file;
mod definition;
pub(crate) mod drop_in;
mod edit_check;
mod embedded;
mod file_list;
mod file_names;
mod file_reader;
mod fingerprint;
mod folder_index;
mod frontmatter_reader;
mod home_dirs;
mod inspect;
mod lookup;
mod origin;
mod parallel;
mod precedence;
mod problem;
mod project;
mod root;
mod root_folders;
mod roots;
mod scan;
mod skill;
mod skill_dir;
mod skill_folder;
mod unloaded;
mod user_roots;

pub(crate) use self::command_skill::{COMMAND_SCRIPT, command_skill};
pub use self::embedded::EmbeddedSkill;
pub(crate) use self::file_list::FileListSnapshot;
pub use self::file_list::{FileDifference, FileList, FileListChange, ListedFile};
pub use self::home_dirs::contains_home_dir;
pub use self::skill_folder::SkillFolder;
pub use catalog::Catalog;
pub use problem::Problem;
pub use project::project_root;
pub use root::{Root, Scope};
pub use roots::Roots;
pub use skill::Skill;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::broken::BrokenSkill;
use self::folder_index::FolderIndex;
use unicode_normalization::UnicodeNormalization;

pub(crate) use self::lookup::printable_name;
use self::lookup::{CallingSkill, Lookup, LookupScope};
use self::origin::{RootOrigin, SkillAddress};
pub(crate) use self::parallel::parallel_map;
use self::root_folders::{RootFolders, label_without_number};
use self::scan::Scan;
use self::unloaded::UnloadedSkill;
use metier_core::error::Result;
use metier_skill::contract::CONTRACT_FILES;

/// The skills of a list of roots, and the problems of those that do not load.
///
/// ```
/// use metier::registry::{Registry, Roots};
///
/// # fn main() -> metier::error::Result<()> {
/// let registry = Registry::discover(&Roots::standard("acme", ".".as_ref()));
/// let skill = registry.find("word-count")?;
/// assert_eq!(skill.name(), "word-count");
/// println!("{}", skill.qualified_name());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry {
    skills: Vec<Skill>,
    broken: Vec<BrokenSkill>,
    problems: Vec<Problem>,
    /// How many of the problems are not about shadowing.
    scan_problems: usize,
    /// Sorted by name.
    unloaded: Vec<UnloadedSkill>,
    linked_folders: BTreeSet<PathBuf>,
    root_folders: Arc<RootFolders>,
    folder_index: FolderIndex,
}

impl Registry {
    /// Discovers the skills in these roots. A root that does not exist has none.
    pub fn discover(roots: &Roots) -> Self {
        let mut scan = Scan::default();
        for (rank, root) in roots.iter().enumerate() {
            scan.scan_root(root, rank);
        }
        for (rank, root) in (roots.iter().count()..).zip(roots.embedded()) {
            scan.add_embedded(root, rank);
        }
        let registry = Self::from_scan(scan);
        for problem in &registry.problems {
            tracing::debug!(skipped = problem.skipped, "{problem}");
        }
        registry
    }

    fn from_scan(scan: Scan) -> Self {
        let Scan { mut skills, broken, mut problems, mut unloaded, linked_folders, .. } = scan;
        let scan_problems = problems.len();
        problems.extend(self::precedence::rank_skills(&mut skills));
        unloaded.sort_by(|a, b| a.name.cmp(&b.name));
        Self {
            skills,
            broken,
            problems,
            scan_problems,
            unloaded,
            linked_folders,
            root_folders: Arc::default(),
            folder_index: FolderIndex::default(),
        }
    }

    /// This registry of these roots, for an engine with several folders: no skill of one folder finds a skill of another one.
    pub(crate) fn with_folders(self: Arc<Self>, roots: &Roots, folders: &[PathBuf]) -> Arc<Self> {
        if folders.len() < 2 {
            return self;
        }
        let root_folders = Arc::new(RootFolders::new(roots.iter(), roots.folders_of_roots(folders)));
        Arc::new(Self { root_folders, ..Arc::unwrap_or_clone(self) })
    }

    /// The index of the engine's folder in whose root the skill was found; `None` too where the engine has one folder.
    pub(crate) fn folder_of_skill(&self, skill: &Skill) -> Option<usize> {
        self.root_folders.of_rank(skill.root_rank())
    }

    /// The qualified name without the version, as it is in an engine that has no other folder than that of the skill: what a
    /// person recorded about it there holds in an engine with several, which number the labels of their roots.
    pub(crate) fn unversioned_name(&self, skill: &Skill) -> String {
        let mut name = skill.qualified_name();
        name.truncate(name.rfind('@').unwrap_or(name.len()));
        match (self.folder_of_skill(skill), name.strip_prefix(&skill.root_prefix())) {
            (Some(_), Some(rest)) => {
                format!("{}/{}{rest}", skill.scope(), label_without_number(skill.root_label()))
            }
            _ => name,
        }
    }

    /// This registry with the skills in these folders as they are on disk now: by the rules of discovery, in the same roots. Skills in
    /// subfolders are left as they are.
    pub(crate) fn refreshed(&self, folders: &HashSet<PathBuf>) -> Self {
        let is_here =
            |address: &SkillAddress| address.folder.disk_path().is_some_and(|path| folders.contains(path));
        let is_own_problem = |path: &Path| {
            let is_definition = |name: &str| {
                file_names::SKILL_FILE_NAMES
                    .iter()
                    .chain(&CONTRACT_FILES)
                    .any(|known| name.eq_ignore_ascii_case(known))
            };
            let name = path.file_name().and_then(std::ffi::OsStr::to_str);
            let is_in_folder = || path.parent().is_some_and(|parent| folders.contains(parent));
            folders.contains(path) || name.is_some_and(is_definition) && is_in_folder()
        };
        let (here, skills): (Vec<_>, Vec<_>) =
            self.skills.iter().cloned().partition(|skill| is_here(skill.address()));
        let (unloaded_here, unloaded): (Vec<_>, Vec<_>) =
            self.unloaded.iter().cloned().partition(|unloaded| is_here(&unloaded.address));
        let loaded = here.iter().map(|skill| (skill.name().to_owned(), skill.address().clone()));
        let names = loaded.chain(unloaded_here.into_iter().map(|unloaded| (unloaded.name, unloaded.address)));
        let names: Vec<(String, SkillAddress)> = names.collect();
        if names.is_empty() {
            return self.clone();
        }
        let mut scan = Scan {
            skills,
            broken: self.broken.iter().filter(|broken| !is_here(&broken.address)).cloned().collect(),
            problems: self.problems[..self.scan_problems].to_vec(),
            unloaded,
            linked_folders: self.linked_folders.clone(),
            ..Scan::default()
        };
        scan.problems.retain(|problem| !is_own_problem(&problem.path));
        let mut scanned: HashSet<PathBuf> = HashSet::new();
        for (_, address) in &names {
            if address.folder.disk_path().is_some_and(|path| scanned.insert(path.to_owned())) {
                scan.scan_again(address);
                scan.linked_folders.extend(link_target(address));
            }
        }
        // Whoever asks by a name that the skill had finds it again when it has the name again.
        let loaded = scan.skills.iter().map(|skill| (skill.address(), skill.name()));
        let unloaded = scan.unloaded.iter().map(|unloaded| (&unloaded.address, unloaded.name.as_str()));
        let found = loaded.chain(unloaded).filter(|(address, _)| is_here(address));
        let key = |address: &SkillAddress, name: &str| {
            (address.folder.disk_path().map(Path::to_owned), name.to_owned())
        };
        let mut known: HashSet<(Option<PathBuf>, String)> =
            found.map(|(address, name)| key(address, name)).collect();
        for (name, address) in names {
            if known.insert(key(&address, &name)) {
                scan.unloaded.push(UnloadedSkill::renamed(name, &address));
            }
        }
        Self::from_scan(scan)
    }

    /// The folder of a skill that a lookup of this name may mean, that did not load when it was read, and that changed since.
    pub(crate) fn changed_unloaded(&self, name: &str) -> Option<&Path> {
        if self.unloaded.is_empty() {
            return None;
        }
        let plain = name.rsplit(':').next().unwrap_or(name);
        let plain = plain.split('@').next().unwrap_or(plain).trim().nfkc().collect::<String>();
        let first = self.unloaded.partition_point(|unloaded| unloaded.name < plain);
        let mut named = self.unloaded[first..].iter().take_while(|unloaded| unloaded.name == plain);
        named.find_map(UnloadedSkill::changed_folder)
    }

    /// The skill in this folder, without its subfolders and whatever roots there are, or why it does not load; `None` where nothing there
    /// is meant to be a skill.
    pub fn load_skill_in(folder: &Path) -> Option<Result<Skill>> {
        let root = Root::new(Scope::Explicit, "folder", project::absolute_path(folder));
        let mut scan = Scan::default();
        scan.scan_folder(&Arc::new(RootOrigin::from_root(&root, 0)), &root.path);
        let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
        let error = |broken: &BrokenSkill| Err(broken.error(&name));
        scan.skills.pop().map(Ok).or_else(|| scan.broken.first().map(error))
    }

    /// Every skill that loads, including shadowed ones, sorted by name; for equal names the nearest comes first.
    pub fn skills(&self) -> &[Skill] {
        &self.skills
    }

    /// The skill in that folder, whatever its name is now.
    pub fn skill_with_folder(&self, folder: &SkillFolder) -> Option<&Skill> {
        self.folder_index.skill_in(&self.skills, folder)
    }

    /// The skill whose folder, or whose script, has exactly this path.
    pub(crate) fn skill_at(&self, path: &Path) -> Option<&Skill> {
        self.folder_index.skill_at(&self.skills, path)
    }

    /// The skills with the name of this one, nearest first.
    #[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "only a server asks for it"))]
    pub(crate) fn namesakes(&self, skill: &Skill) -> &[Skill] {
        let first = self.skills.partition_point(|other| other.name() < skill.name());
        let namesakes = &self.skills[first..];
        &namesakes[..namesakes.partition_point(|other| other.name() == skill.name())]
    }

    /// Whether a lookup of this qualified name, without a version or with one, finds a skill that does not load.
    #[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "only a server asks for it"))]
    pub(crate) fn is_broken(&self, name: &str) -> bool {
        self.lookup(LookupScope::All, None).is_broken(name)
    }

    /// The skills that plain names refer to, sorted by name.
    pub fn visible(&self) -> impl Iterator<Item = &Skill> {
        self.skills.iter().filter(|skill| skill.shadowed_by().is_none())
    }

    /// The skill of that name: its plain name, any unambiguous part of `scope/root:name@version`, or a name with a range of
    /// versions such as `name@^1` or `user:name@>=1.2`, which finds the nearest skill of that name whose version is in the range.
    ///
    /// `unknown-skill` when there is none, or several that the name fits equally; `invalid-skill` when there is one that
    /// does not load.
    pub fn find(&self, name: &str) -> Result<&Skill> {
        self.lookup(LookupScope::All, None).find(name)
    }

    /// The folder, or the script, of a skill that does not load, by the name of its folder.
    #[doc(hidden)]
    pub fn broken_folder(&self, name: &str) -> Option<&Path> {
        let name = &name.trim().nfkc().collect::<String>();
        self.lookup(LookupScope::All, None).find_broken(name)?.address.folder.disk_path()
    }

    /// The skill that another skill means by that name. By a plain name, a skill of the user finds no skill of a project, one of
    /// the program only those of the program and builtin ones, and a builtin skill only other builtin skills, so that no nearer
    /// skill replaces one it relies on; `project/.agents:name` finds what it names. Skills of a project, or of a root named by the
    /// caller, find what everybody finds; in an engine with several folders those in a folder find no skill in another one, and
    /// `project/.agents:name` means the root of their own folder.
    ///
    /// Fails as [`Registry::find`] does, with a hint where only a nearer skill has the name.
    pub fn find_for_caller(&self, caller: &Skill, name: &str) -> Result<&Skill> {
        self.lookup(LookupScope::VisibleTo(CallingSkill::Loaded(caller)), None).find(name)
    }

    /// The same for who does not report why there is none.
    pub(crate) fn find_any_for_caller(&self, caller: &Skill, name: &str) -> Option<&Skill> {
        self.lookup(LookupScope::VisibleTo(CallingSkill::Loaded(caller)), None).find_if_any(name)
    }

    /// The same for everybody.
    pub(crate) fn find_any(&self, name: &str) -> Option<&Skill> {
        self.lookup(LookupScope::All, None).find_if_any(name)
    }

    /// The same for a calling skill with that qualified name, which may have changed since its run began; without one, what
    /// everybody finds. `folder` is that on which the run works, in an engine with several: a skill in none of them looks in that
    /// one, and so does everybody else, who finds what only other folders have too.
    pub(crate) fn find_for_run(
        &self,
        caller: Option<&str>,
        folder: Option<usize>,
        name: &str,
    ) -> Result<&Skill> {
        let scope =
            caller.map_or(LookupScope::All, |caller| LookupScope::VisibleTo(CallingSkill::Named(caller)));
        self.lookup(scope, folder).find(name)
    }

    /// Of the skills that the name refers to for everybody in that folder the nearest that `accepts`.
    pub(crate) fn find_accepted(
        &self,
        folder: Option<usize>,
        name: &str,
        accepts: &dyn Fn(&Skill) -> bool,
    ) -> Option<&Skill> {
        Lookup { accepts: Some(accepts), ..self.lookup(LookupScope::All, folder) }.find_namesake(name)
    }

    /// What was not loaded, not searched, or ambiguous, in the order of the roots; shadowing comes last.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The folders inside a project that hold skills because a link in a root leads there: relative to it, `/`-separated.
    /// Together with [`Roots::protected_paths`] they are the folders that scripts may not change.
    pub(crate) fn linked_folders(&self, project: &Path) -> Vec<String> {
        let project = project::real_path(project);
        self.linked_folders.iter().filter_map(|folder| project::path_in_project(&project, folder)).collect()
    }

    /// The skills a model is shown: the visible skills, without those that only people may call.
    pub fn catalog(&self) -> Catalog<'_> {
        Catalog::new(self.visible())
    }

    /// The same for a client that is offered only some skills: of each name the nearest of them.
    pub(crate) fn catalog_of(&self, accepts: impl Fn(&Skill) -> bool + Sync) -> Catalog<'_> {
        Catalog::new(self.nearest_accepted(accepts).into_iter())
    }

    /// Of each name the nearest skill that `accepts`, which is asked of many at a time.
    pub(crate) fn nearest_accepted(&self, accepts: impl Fn(&Skill) -> bool + Sync) -> Vec<&Skill> {
        let is_accepted = parallel_map(&self.skills, accepts);
        let accepted = self.skills.iter().zip(is_accepted).filter(|(_, is_accepted)| *is_accepted);
        let mut nearest: Vec<&Skill> = accepted.map(|(skill, _)| skill).collect();
        nearest.dedup_by(|later, nearer| later.name() == nearer.name());
        nearest
    }

    fn lookup<'s>(&self, scope: LookupScope<'s>, run_folder: Option<usize>) -> Lookup<'_, 's> {
        let folders = &*self.root_folders;
        let folder = match scope {
            LookupScope::VisibleTo(caller) => caller.folder(folders).or(run_folder),
            LookupScope::All => run_folder,
        };
        Lookup { skills: &self.skills, broken: &self.broken, scope, folders, folder, accepts: None }
    }
}

/// Where a link leads to whose target holds the skill there; what it leads to is protected like all skills.
fn link_target(address: &SkillAddress) -> Option<PathBuf> {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let (folder, root) = (real(address.folder.disk_path()?)?, real(&address.origin.path)?);
    (!folder.starts_with(root)).then_some(folder)
}
