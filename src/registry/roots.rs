//! The ordered list of roots: where skills are looked for, nearest first.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::project::{LinkResolver, absolute_path, path_in_project, real_path, unresolved_path_in_project};
use super::root::{Root, Scope};
use crate::registry::builtin::BUILTIN_SKILLS;
use crate::registry::embedded::{EmbeddedRoot, EmbeddedSkill};
use crate::registry::user_roots;

/// The folder of skills that every client shares.
const AGENTS_FOLDER: &str = ".agents";
/// The folders of clients that read only their own, nearest first, and whether they read one of the user too.
const COMPAT_FOLDERS: [(&str, bool); 3] = [(".sweny", false), (".claude", true), (".gemini", false)];

/// Where to look for skills, nearest first: folders, then skills inside the program, then the builtin skills.
///
/// ```
/// use metier::registry::{Registry, Root, Roots, Scope};
///
/// let roots = Roots::empty().with(Root::new(Scope::Project, "acme", "skills"));
/// let registry = Registry::discover(&roots);
/// println!("{} skills in ./skills", registry.skills().len());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    roots: Vec<Root>,
    /// By scope, so that the builtin skills come last.
    embedded: Vec<EmbeddedRoot>,
}

impl Roots {
    /// The standard roots of a product: in the project `.<product>/skills` and `.agents/skills`, of the user
    /// `$<PRODUCT>_DATA_DIR/skills` (or `<product>/skills` in the platform's data folder) and `~/.agents/skills`, then the
    /// builtin skills.
    pub fn standard(product: &str, project: &Path) -> Self {
        let builtin = EmbeddedRoot {
            scope: Scope::Builtin,
            label: env!("CARGO_PKG_NAME").to_owned(),
            skills: BUILTIN_SKILLS,
        };
        let roots = Self { embedded: vec![builtin], ..Self::empty() };
        user_roots::roots(product).into_iter().fold(roots.with_project(product, project), Self::with)
    }

    /// Adds the roots of a product in a project: `.<product>/skills` and `.agents/skills`, after those of other projects.
    pub fn with_project(self, product: &str, project: &Path) -> Self {
        let project = absolute_path(project);
        let own = format!(".{product}");
        let in_project = [own.as_str(), AGENTS_FOLDER]
            .map(|label| Root::new(Scope::Project, label, project.join(label).join("skills")));
        in_project.into_iter().fold(self, Self::with)
    }

    /// For each root on disk the folder that it belongs to, by its index: the deepest that contains it. Roots of the user belong
    /// to none.
    pub(crate) fn folders_of_roots(&self, folders: &[PathBuf]) -> Vec<Option<usize>> {
        let folder_of = |root: &Root| {
            let contains = |folder: &Path| {
                root.scope <= Scope::Project && unresolved_path_in_project(folder, &root.path).is_some()
            };
            let containing = folders.iter().enumerate().filter(|(_, folder)| contains(folder));
            containing.max_by_key(|(_, folder)| folder.components().count()).map(|(index, _)| index)
        };
        self.roots.iter().map(folder_of).collect()
    }

    /// No roots.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Looks into the folders of other clients too, right after each `.agents/skills`: `.sweny/skills`, `.claude/skills` and
    /// `.gemini/skills` of a project, `.claude/skills` of the user.
    pub fn with_compat(self) -> Self {
        let mut roots = Vec::new();
        for root in self.roots {
            let compat = if root.label.contains(AGENTS_FOLDER) { compat_roots(&root) } else { Vec::new() };
            roots.push(root);
            roots.extend(compat);
        }
        Self { roots, ..self }
    }

    /// Adds a root after those of the same or a nearer scope. A label that already exists in its scope gets a number, so that
    /// qualified names stay distinct.
    pub fn with(mut self, mut root: Root) -> Self {
        root.label = self.unique_label(root.scope, &root.label);
        root.path = absolute_path(&root.path);
        let at = self.roots.partition_point(|known| known.scope <= root.scope);
        self.roots.insert(at, root);
        self
    }

    /// Adds skills that are part of the program, after those of the user and before the builtin ones. Their scope is
    /// `embedded`; a label that already exists there gets a number.
    pub fn with_embedded(mut self, label: &str, skills: &'static [EmbeddedSkill]) -> Self {
        let scope = Scope::Embedded;
        let label = self.unique_label(scope, label);
        let at = self.embedded.partition_point(|known| known.scope <= scope);
        self.embedded.insert(at, EmbeddedRoot { scope, label, skills });
        self
    }

    /// Leaves out the builtin skills.
    pub fn without_builtin(mut self) -> Self {
        self.embedded.retain(|root| root.scope != Scope::Builtin);
        self
    }

    /// Whether the builtin skills are included.
    pub fn has_builtin(&self) -> bool {
        self.embedded.iter().any(|root| root.scope == Scope::Builtin)
    }

    /// The roots inside the program, nearest first.
    pub(crate) fn embedded(&self) -> &[EmbeddedRoot] {
        &self.embedded
    }

    /// The roots on disk, nearest first.
    pub fn iter(&self) -> impl Iterator<Item = &Root> {
        self.roots.iter()
    }

    /// The roots inside a project and its configuration file, whether they exist or not: relative to it, `/`-separated.
    /// Includes the targets of links inside the project, and the folders where other clients would find what a script writes there.
    #[doc(hidden)]
    pub fn protected_paths(&self, project: &Path) -> Vec<String> {
        let project = real_path(&absolute_path(project));
        let mut paths: Vec<String> = Vec::new();
        let others = self.roots.iter().flat_map(compat_roots);
        let skill_folders = self.roots.iter().cloned().chain(others).map(|root| root.path);
        let links = LinkResolver::default();
        for place in skill_folders.chain(self.roots.iter().filter_map(configuration_file)) {
            let inside = [
                links.unresolved_path_in_project(&project, &place),
                path_in_project(&project, &links.real_path(&place)),
            ];
            for path in inside.into_iter().flatten() {
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
        }
        paths
    }

    fn unique_label(&self, scope: Scope, label: &str) -> String {
        let on_disk = self.roots.iter().map(|root| (root.scope, &root.label));
        let known: Vec<_> =
            on_disk.chain(self.embedded.iter().map(|root| (root.scope, &root.label))).collect();
        let is_taken = |label: &str| known.iter().any(|known| known.0 == scope && known.1 == label);
        if !is_taken(label) {
            return label.to_owned();
        }
        let numbered = (2..).map(|number: u32| format!("{label}-{number}"));
        numbered.into_iter().find(|label| !is_taken(label)).unwrap_or_default()
    }
}

/// The configuration file of a project, beside the skills of its product.
fn configuration_file(root: &Root) -> Option<PathBuf> {
    let folder = root.path.parent().filter(|_| root.scope == Scope::Project)?;
    let name = folder.file_name()?.to_str()?;
    let is_of_product = name.starts_with('.') && name != AGENTS_FOLDER;
    is_of_product.then(|| folder.join("config.toml"))
}

/// The roots of other clients beside one that every client shares.
fn compat_roots(root: &Root) -> Vec<Root> {
    let shared = root.path.parent().filter(|folder| folder.file_name() == Some(OsStr::new(AGENTS_FOLDER)));
    let Some(shared) = shared else { return Vec::new() };
    let is_read = |is_of_user: &bool| root.scope <= Scope::Project || *is_of_user;
    let folders = COMPAT_FOLDERS.into_iter().filter(|(_, is_of_user)| is_read(is_of_user));
    let compat_root = |(folder, _): (&str, bool)| {
        let place = shared.with_file_name(folder).join("skills");
        Root::new(root.scope, root.label.replace(AGENTS_FOLDER, folder), place)
    };
    folders.map(compat_root).collect()
}

impl<'a> IntoIterator for &'a Roots {
    type Item = &'a Root;
    type IntoIter = std::slice::Iter<'a, Root>;

    fn into_iter(self) -> Self::IntoIter {
        self.roots.iter()
    }
}

impl Extend<Root> for Roots {
    fn extend<T: IntoIterator<Item = Root>>(&mut self, roots: T) {
        *self = roots.into_iter().fold(std::mem::take(self), Self::with);
    }
}
