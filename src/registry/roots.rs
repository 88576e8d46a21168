//! The ordered list of roots: where skills are looked for, nearest first.

use std::path::Path;

use super::project::{absolute_path, path_in_project, real_path, unresolved_path_in_project};
use super::root::{Root, Scope};
use crate::registry::user_roots;

/// The folder of skills that every client shares, and the folder of clients that read only their own.
const AGENTS_FOLDER: &str = ".agents";
const CLAUDE_FOLDER: &str = ".claude";

/// Where to look for skills, nearest first, and whether the builtin skills come last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    roots: Vec<Root>,
    has_builtin: bool,
}

impl Roots {
    /// The standard roots of a product: in the project `.<product>/skills` and `.agents/skills`, of the user
    /// `$<PRODUCT>_DATA_DIR/skills` (or `<product>/skills` in the platform's data folder) and `~/.agents/skills`, then the
    /// builtin skills.
    pub fn standard(product: &str, project: &Path) -> Self {
        let project = absolute_path(project);
        let own = format!(".{product}");
        let in_project = [own.as_str(), AGENTS_FOLDER]
            .map(|label| Root::new(Scope::Project, label, project.join(label).join("skills")));
        let roots = Self { has_builtin: true, ..Self::empty() };
        in_project.into_iter().chain(user_roots::roots(product)).fold(roots, Self::with)
    }

    /// No roots.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Looks into `.claude/skills` too, right after each `.agents/skills`.
    pub fn with_compat(self) -> Self {
        let mut roots = Vec::new();
        for root in self.roots {
            let compat = compat_root(&root);
            roots.push(root);
            roots.extend(compat);
        }
        Self { roots, ..self }
    }

    /// Adds a root after those of the same or a nearer scope. A label that already exists in its scope gets a number, so that
    /// qualified names stay distinct.
    pub fn with(mut self, mut root: Root) -> Self {
        root.label = self.unique_label(&root);
        root.path = absolute_path(&root.path);
        let at = self.roots.partition_point(|known| known.scope <= root.scope);
        self.roots.insert(at, root);
        self
    }

    /// Leaves out the builtin skills.
    pub fn without_builtin(self) -> Self {
        Self { has_builtin: false, ..self }
    }

    /// Whether the builtin skills are included.
    #[doc(hidden)]
    pub fn has_builtin(&self) -> bool {
        self.has_builtin
    }

    /// The roots on disk, nearest first.
    pub fn iter(&self) -> impl Iterator<Item = &Root> {
        self.roots.iter()
    }

    /// The roots inside a project, whether they exist or not: relative to it, `/`-separated. Includes the targets of links
    /// inside the project, and `.claude/skills`, where other clients would find what a script writes there.
    #[doc(hidden)]
    pub fn protected_folders(&self, project: &Path) -> Vec<String> {
        let project = real_path(&absolute_path(project));
        let mut folders: Vec<String> = Vec::new();
        let others = self.roots.iter().filter_map(compat_root);
        for Root { path: place, .. } in self.roots.iter().cloned().chain(others) {
            let inside =
                [unresolved_path_in_project(&project, &place), path_in_project(&project, &real_path(&place))];
            for folder in inside.into_iter().flatten() {
                if !folders.contains(&folder) {
                    folders.push(folder);
                }
            }
        }
        folders
    }

    fn unique_label(&self, root: &Root) -> String {
        let is_taken =
            |label: &str| self.roots.iter().any(|known| known.scope == root.scope && known.label == label);
        if !is_taken(&root.label) {
            return root.label.clone();
        }
        let numbered = (2..).map(|number: u32| format!("{}-{number}", root.label));
        numbered.into_iter().find(|label| !is_taken(label)).unwrap_or_default()
    }
}

fn compat_root(root: &Root) -> Option<Root> {
    let label = root.label.strip_suffix(AGENTS_FOLDER)?;
    let place = root.path.parent()?.with_file_name(CLAUDE_FOLDER).join("skills");
    Some(Root::new(root.scope, format!("{label}{CLAUDE_FOLDER}"), place))
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
