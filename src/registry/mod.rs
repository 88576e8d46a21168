//! Which skills a project has: roots and scopes, discovery, who shadows whom, the catalog a model chooses from.

mod catalog;
mod folder;
mod problem;
mod project;
mod resolve;
mod root;
mod scan;
mod shipped;
mod skill;

pub use catalog::Catalog;
pub use folder::Folder;
pub use problem::Problem;
pub use project::project_root;
pub use root::{Root, Roots, Scope};
pub use shipped::Shipped;
pub use skill::Skill;

/// The skills of a project. Discovery reads names and descriptions; bodies and scripts are read when they are asked for.
pub struct Registry {
    skills: Vec<Skill>,
    problems: Vec<Problem>,
}

impl Registry {
    /// Finds the skills below these roots. One bad skill never hides another; what was left out, and why, is in
    /// [`problems`](Self::problems).
    pub fn discover(roots: &Roots) -> Self {
        let (skills, problems) = scan::skills_below(roots);
        Self { skills: resolve::shadowed(skills), problems }
    }

    /// Every skill that loads, shadowed ones included, in the order of precedence.
    pub fn skills(&self) -> &[Skill] {
        &self.skills
    }

    /// The skills a plain name reaches.
    pub fn visible(&self) -> impl Iterator<Item = &Skill> {
        self.skills.iter().filter(|skill| skill.shadowed_by().is_none())
    }

    /// What was left out, cut short or refused, and why.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Names and descriptions of the visible skills.
    pub fn catalog(&self) -> Catalog<'_> {
        Catalog::new(self.visible().collect())
    }
}
