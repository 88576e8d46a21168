//! What a skill says about the packages of one script, and what a run that misses one of them is told.

use std::path::PathBuf;

use super::requirements::Ecosystem;
use super::store::{PackageRequest, PreparedFiles};
use metier_core::error::{Hint, Result, SkillError};

/// The packages of a script, as its skill declares them.
#[derive(Clone, Debug)]
pub struct SkillPackages {
    skill: String,
    script: String,
    found: Result<Option<PackageRequest>>,
    others: Vec<PackageRequest>,
}

impl SkillPackages {
    /// What was found for a script of that skill.
    pub fn new(skill: String, script: String, found: Result<Option<PackageRequest>>) -> Self {
        Self { skill, script, found, others: Vec::new() }
    }

    /// What a shell script has, which needs no packages itself, and whose processes are the other scripts of the skill.
    pub fn of_shell_script(skill: String, script: String, others: Vec<PackageRequest>) -> Self {
        Self { skill, script, found: Ok(None), others }
    }

    /// The packages that can be prepared.
    pub fn request(&self) -> Option<&PackageRequest> {
        self.found.as_ref().ok()?.as_ref().filter(|request| !request.requirements.is_empty())
    }

    /// Why they cannot be prepared.
    pub fn error(&self) -> Option<&SkillError> {
        self.found.as_ref().err()
    }

    /// What helps a script that does not find these packages: the lines to add, or that they are to be prepared.
    pub fn missing_help(&self, ecosystem: Ecosystem, packages: &[&str]) -> (String, Option<Hint>) {
        let hint = Some(Hint::Prepare(self.skill.clone()));
        let request = match &self.found {
            Err(error) => return (format!("its packages cannot be prepared: {error}"), None),
            Ok(request) => request.as_ref(),
        };
        let named = |request: &&PackageRequest| {
            let requirements = &request.requirements;
            requirements.ecosystem() == ecosystem
                && packages.iter().all(|package| requirements.declares(package))
        };
        let Some(request) = request.or_else(|| self.others.iter().find(named)) else {
            let file = match ecosystem {
                Ecosystem::Python => "requirements.txt",
                Ecosystem::Npm => "the dependencies of package.json",
            };
            let lines = added_lines(ecosystem, packages);
            let them = pronoun(packages);
            let text = format!(
                "if it should have {them}, add {lines} to {file} in the folder of the skill and prepare its packages, or leave its files as \
                 they are and prepare {them} besides"
            );
            return (text, Some(self.prepare_with(ecosystem, packages)));
        };
        let requirements = &request.requirements;
        let new: Vec<&str> =
            packages.iter().copied().filter(|package| !requirements.declares(package)).collect();
        if new.is_empty() {
            let text = format!(
                "{} names {}; prepare the packages of the skill",
                requirements.source,
                pronoun(packages)
            );
            return (text, hint);
        }
        let place = if requirements.source == self.script {
            format!("the dependencies in the block `/// script` of {}", self.script)
        } else {
            requirements.source.clone()
        };
        let text = format!(
            "if it should have {}, add {} to {place} and prepare the packages of the skill, or leave its files as they are and prepare {} \
             besides",
            pronoun(packages),
            added_lines(ecosystem, &new),
            pronoun(&new)
        );
        (text, Some(self.prepare_with(ecosystem, &new)))
    }

    fn prepare_with(&self, ecosystem: Ecosystem, packages: &[&str]) -> Hint {
        let added = |package: &&str| match ecosystem {
            Ecosystem::Python => (*package).to_owned(),
            Ecosystem::Npm => format!("{package}@latest"),
        };
        Hint::PrepareWith(self.skill.clone(), packages.iter().map(added).collect())
    }

    /// Whether the skill names this package.
    pub fn declares(&self, package: &str) -> bool {
        let own = self.found.as_ref().ok().and_then(Option::as_ref);
        own.into_iter().chain(&self.others).any(|request| request.requirements.declares(package))
    }

    /// What helps a script that misses what this file of requirements lists.
    pub fn file_help(&self, file: &str) -> (String, Option<Hint>) {
        let hint = Some(Hint::Prepare(self.skill.clone()));
        match &self.found {
            Err(error) => (format!("its packages cannot be prepared: {error}"), None),
            Ok(Some(request)) if request.requirements.source == file => {
                ("prepare the packages of the skill".to_owned(), hint)
            }
            Ok(_) => {
                let text = "if it should have them, list them in requirements.txt in the folder of the skill, and prepare its packages";
                (text.to_owned(), hint)
            }
        }
    }
}

/// The packages of all scripts of a skill, for the processes that one of them starts: each set with the program that would run it.
#[derive(Clone, Debug, Default)]
pub struct ChildPackages(pub Vec<(PackageRequest, PathBuf)>);

impl ChildPackages {
    /// What of them is prepared. `untrusted` if somebody has changed the files since.
    pub fn prepared(&self) -> Result<Vec<PreparedFiles>> {
        self.0.iter().filter_map(|(request, program)| request.prepared_for(program).transpose()).collect()
    }
}

fn pronoun(packages: &[&str]) -> &'static str {
    if packages.len() == 1 { "it" } else { "them" }
}

/// The lines to add to a list of packages: `the line a`, or `the lines a, b`.
fn added_lines(ecosystem: Ecosystem, packages: &[&str]) -> String {
    let line = |package: &&str| match ecosystem {
        Ecosystem::Python => (*package).to_owned(),
        Ecosystem::Npm => format!("\"{package}\": \"*\""),
    };
    let lines = packages.iter().map(line).collect::<Vec<_>>().join(", ");
    if packages.len() == 1 { format!("the line {lines}") } else { format!("the lines {lines}") }
}
