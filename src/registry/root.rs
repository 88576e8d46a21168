//! Where skills are looked for, nearest first.

use std::fmt;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

/// Whose folder a root is, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A folder the caller named.
    Explicit,
    /// The project's.
    Project,
    /// The user's.
    User,
    /// Inside the program.
    Shipped,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Explicit => "explicit",
            Self::Project => "project",
            Self::User => "user",
            Self::Shipped => "shipped",
        })
    }
}

/// One folder of skills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Whose it is.
    pub scope: Scope,
    /// What qualified names call it: `.metier`, `.agents`.
    pub label: String,
    /// The folder; it need not exist.
    pub place: PathBuf,
}

/// The roots of a registry, nearest first.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    nearest_first: Vec<Root>,
    shipped: bool,
    compat: Option<PathBuf>,
}

impl Roots {
    /// No roots, not even the skills that ship.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The roots of a product: `.<product>/skills` and `.agents/skills` in the project, `<product>/skills` in the user's
    /// data folder (or `$<PRODUCT>_DATA_DIR/skills`), `~/.agents/skills`, and the skills that ship.
    pub fn standard(product: &str, project: &Path) -> Self {
        let mut roots =
            Self { shipped: true, compat: Some(project.join(".claude/skills")), ..Self::default() };
        for folder in [format!(".{product}"), ".agents".into()] {
            roots = roots.with(Root {
                scope: Scope::Project,
                place: project.join(&folder).join("skills"),
                label: folder,
            });
        }
        let base = etcetera::choose_base_strategy().ok();
        let own = std::env::var_os(format!("{}_DATA_DIR", product.to_uppercase().replace('-', "_")))
            .map(PathBuf::from);
        let data =
            own.filter(|path| path.is_absolute()).or_else(|| Some(base.as_ref()?.data_dir().join(product)));
        if let Some(data) = data {
            roots = roots.with(Root {
                scope: Scope::User,
                label: product.to_owned(),
                place: data.join("skills"),
            });
        }
        if let Some(home) = base.map(|base| base.home_dir().to_owned()) {
            let place = home.join(".agents/skills");
            roots = roots.with(Root { scope: Scope::User, label: ".agents".into(), place });
        }
        roots
    }

    /// Adds a root after the others of its scope.
    pub fn with(mut self, root: Root) -> Self {
        let at = self
            .nearest_first
            .iter()
            .position(|other| other.scope > root.scope)
            .unwrap_or(self.nearest_first.len());
        self.nearest_first.insert(at, root);
        self
    }

    /// Adds the project's `.claude/skills`, after its other roots.
    pub fn with_compat(mut self) -> Self {
        match self.compat.take() {
            Some(place) => self.with(Root { scope: Scope::Project, label: ".claude".into(), place }),
            None => self,
        }
    }

    /// Leaves out the skills that ship.
    pub fn without_shipped(mut self) -> Self {
        self.shipped = false;
        self
    }

    /// Whether the skills that ship are among them.
    pub fn has_shipped(&self) -> bool {
        self.shipped
    }

    /// The folders, nearest first.
    pub fn iter(&self) -> impl Iterator<Item = &Root> {
        self.nearest_first.iter()
    }

    /// The folders that lie in the project, relative to it, whether they exist or not: what no script may change.
    pub fn protected_folders(&self, project: &Path) -> Vec<String> {
        let inside = |root: &Root| {
            let real = std::fs::canonicalize(&root.place).unwrap_or_else(|_| root.place.clone());
            let written = root.place.strip_prefix(project).ok().map(Path::to_owned);
            let resolved = real.strip_prefix(project).ok().map(Path::to_owned);
            [written, resolved].into_iter().flatten().collect::<Vec<_>>()
        };
        let mut folders: Vec<String> = self
            .nearest_first
            .iter()
            .chain(&self.compat.clone().map(|place| Root {
                scope: Scope::Project,
                label: String::new(),
                place,
            }))
            .flat_map(inside)
            .filter_map(|path| path.to_str().map(|text| text.replace('\\', "/")))
            .filter(|path| !path.is_empty())
            .collect();
        folders.sort();
        folders.dedup();
        folders
    }
}
