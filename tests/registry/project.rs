//! A folder with skills below several roots.

use metier::error::{ErrorKind, SkillError};
use metier::registry::{Problem, Registry, Root, Roots, Scope, Skill};

/// The suite of discovery.
pub struct RegistrySuite;

pub type Project = crate::support::project::Project<RegistrySuite>;

/// Scope, label and folder of the roots these tests have, nearest first.
const ROOTS: [(Scope, &str, &str); 4] = [
    (Scope::Project, ".metier", ".metier/skills"),
    (Scope::Project, ".agents", ".agents/skills"),
    (Scope::User, "metier", "home/data/skills"),
    (Scope::User, ".agents", "home/.agents/skills"),
];

impl Project {
    /// A skill in that folder, called as the folder is.
    pub fn skill(self, folder: &str) -> Self {
        let name = folder.rsplit('/').next().unwrap().to_owned();
        self.skill_named(folder, &name, "")
    }

    pub fn skills<T: AsRef<str>>(self, folders: impl IntoIterator<Item = T>) -> Self {
        folders.into_iter().fold(self, |project, folder| project.skill(folder.as_ref()))
    }

    pub fn versioned(self, folder: &str, version: &str) -> Self {
        let name = folder.rsplit('/').next().unwrap().to_owned();
        self.skill_named(folder, &name, &format!("metadata: {{version: {version}}}\n"))
    }

    /// A skill in that folder under a name of its own, described by its folder.
    pub fn skill_named(self, folder: &str, name: &str, more: &str) -> Self {
        let text = format!("---\nname: {name:?}\ndescription: {folder:?}\n{more}---\nbody of {folder}\n");
        self.file(&format!("{folder}/SKILL.md"), text)
    }

    pub fn roots(&self) -> Roots {
        ROOTS.into_iter().fold(Roots::empty(), |roots, (scope, label, place)| {
            roots.with(Root::new(scope, label, self.path(place)))
        })
    }

    pub fn registry(&self) -> Registry {
        Registry::discover(&self.roots())
    }

    /// The names of the skills that are found, and nothing is wrong.
    #[track_caller]
    pub fn finds(&self, expected: &[&str]) {
        let registry = self.registry();
        assert_eq!(names(&registry), expected, "{:?}", registry.problems());
    }
}

pub fn names(registry: &Registry) -> Vec<&str> {
    registry.skills().iter().map(Skill::name).collect()
}

pub fn qualified(registry: &Registry) -> Vec<String> {
    registry.skills().iter().map(Skill::qualified_name).collect()
}

/// Every skill is what its own qualified name leads to.
#[track_caller]
pub fn each_answers_to_its_qualified_name(registry: &Registry) {
    for skill in registry.skills() {
        let found = registry.find(&skill.qualified_name()).unwrap();
        assert_eq!(found.path(), skill.path(), "{}", skill.qualified_name());
    }
}

/// The folder a name leads to, as the skill's description has it.
#[track_caller]
pub fn folder_of_name<'a>(registry: &'a Registry, name: &str) -> &'a str {
    registry.find(name).unwrap().description()
}

#[track_caller]
pub fn refused(registry: &Registry, name: &str, kind: ErrorKind) -> SkillError {
    let error = registry.find(name).err().unwrap_or_else(|| panic!("{name:?} was found"));
    assert_eq!(error.kind(), kind, "{name:?}: {error}");
    error
}

/// What was left out, and why.
pub fn skipped(registry: &Registry) -> Vec<&Problem> {
    registry.problems().iter().filter(|problem| problem.skipped).collect()
}

/// All that is said about the skills, a line each.
pub fn problems(registry: &Registry) -> String {
    registry.problems().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
