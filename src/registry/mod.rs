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
pub use self::embedded::{EmbeddedRoot, EmbeddedSkill};
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

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::broken::BrokenSkill;
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
    unloaded: Vec<UnloadedSkill>,
    linked_folders: BTreeSet<PathBuf>,
    root_folders: Arc<RootFolders>,
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
        let Scan { mut skills, broken, mut problems, unloaded, linked_folders, .. } = scan;
        let scan_problems = problems.len();
        problems.extend(self::precedence::rank_skills(&mut skills));
        let root_folders = Arc::default();
        Self { skills, broken, problems, scan_problems, unloaded, linked_folders, root_folders }
    }

    /// This registry of these roots, for an engine with several folders: no skill of one folder finds a skill of another one.
    pub(crate) fn with_folders(self, roots: &Roots, folders: &[PathBuf]) -> Self {
        if folders.len() < 2 {
            return self;
        }
        let root_folders = Arc::new(RootFolders::new(roots.iter(), roots.folders_of_roots(folders)));
        Self { root_folders, ..self }
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

    /// This registry with the skill in that folder as it is on disk now: by the rules of discovery, in the same root. Skills in
    /// subfolders are left as they are.
    pub(crate) fn refreshed(&self, folder: &Path) -> Self {
        let is_here = |address: &SkillAddress| address.folder.disk_path() == Some(folder);
        let is_own_problem = |path: &Path| {
            let is_definition = |name: &str| {
                file_names::SKILL_FILE_NAMES
                    .iter()
                    .chain(&CONTRACT_FILES)
                    .any(|known| name.eq_ignore_ascii_case(known))
            };
            let name = path.file_name().and_then(std::ffi::OsStr::to_str);
            path == folder || path.parent() == Some(folder) && name.is_some_and(is_definition)
        };
        let (here, skills): (Vec<_>, Vec<_>) =
            self.skills.iter().cloned().partition(|skill| is_here(skill.address()));
        let (unloaded_here, unloaded): (Vec<_>, Vec<_>) =
            self.unloaded.iter().cloned().partition(|unloaded| is_here(&unloaded.address));
        let loaded = here.iter().map(|skill| (skill.name().to_owned(), skill.address().clone()));
        let names = loaded.chain(unloaded_here.into_iter().map(|unloaded| (unloaded.name, unloaded.address)));
        let mut names: Vec<(String, SkillAddress)> = names.collect();
        let Some((_, address)) = names.first().cloned() else { return self.clone() };
        let mut scan = Scan {
            skills,
            broken: self.broken.iter().filter(|broken| !is_here(&broken.address)).cloned().collect(),
            problems: self.problems[..self.scan_problems].to_vec(),
            unloaded,
            linked_folders: self.linked_folders.clone(),
            ..Scan::default()
        };
        scan.problems.retain(|problem| !is_own_problem(&problem.path));
        scan.scan_again(&address);
        // A link may lead elsewhere now; what it leads to is protected like all skills.
        let real = [folder, &address.origin.path].map(|path| std::fs::canonicalize(path).ok());
        if let [Some(folder), Some(root)] = real
            && !folder.starts_with(root)
        {
            scan.linked_folders.insert(folder);
        }
        // Whoever asks by a name that the skill had finds it again when it has the name again.
        let is_known = |scan: &Scan, name: &str| {
            scan.skills.iter().any(|skill| is_here(skill.address()) && skill.name() == name)
                || scan.unloaded.iter().any(|unloaded| is_here(&unloaded.address) && unloaded.name == name)
        };
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        names.dedup_by(|a, b| a.0 == b.0);
        for (name, address) in names {
            if !is_known(&scan, &name) {
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
        self.unloaded.iter().find_map(|unloaded| unloaded.changed_folder(&plain))
    }

    /// The skill in this folder, without its subfolders and whatever roots there are; `None` where there is none that loads.
    #[doc(hidden)]
    pub fn skill_in(folder: &Path) -> Option<Skill> {
        let root = Root::new(Scope::Explicit, "folder", project::absolute_path(folder));
        let mut scan = Scan::default();
        scan.scan_folder(&Arc::new(RootOrigin::from_root(&root, 0)), &root.path);
        scan.skills.pop()
    }

    /// Every skill that loads, including shadowed ones, sorted by name; for equal names the nearest comes first.
    pub fn skills(&self) -> &[Skill] {
        &self.skills
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
    pub(crate) fn catalog_of(&self, accepts: impl Fn(&Skill) -> bool) -> Catalog<'_> {
        let namesakes = self.skills.chunk_by(|a, b| a.name() == b.name());
        Catalog::new(namesakes.filter_map(|namesakes| namesakes.iter().find(|skill| accepts(skill))))
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
