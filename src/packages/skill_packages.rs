//! What a skill says about the packages of one script, and what a run that misses one of them is told.

use super::requirements::Ecosystem;
use super::store::PackageRequest;
use crate::error::{Hint, SkillError};

/// The packages of a script, as its skill declares them.
#[derive(Clone, Debug)]
pub(crate) struct SkillPackages {
    skill: String,
    script: String,
    found: Result<Option<PackageRequest>, SkillError>,
}

impl SkillPackages {
    pub(crate) fn new(
        skill: String,
        script: String,
        found: Result<Option<PackageRequest>, SkillError>,
    ) -> Self {
        Self { skill, script, found }
    }

    /// The packages that can be prepared.
    pub(crate) fn request(&self) -> Option<&PackageRequest> {
        self.found.as_ref().ok()?.as_ref().filter(|request| !request.requirements.is_empty())
    }

    /// Why they cannot be prepared.
    pub(crate) fn error(&self) -> Option<&SkillError> {
        self.found.as_ref().err()
    }

    /// What helps a script that does not find this package: the line to add, or that it is to be prepared.
    pub(crate) fn missing_help(&self, ecosystem: Ecosystem, package: &str) -> (String, Option<Hint>) {
        let hint = Some(Hint::Prepare(self.skill.clone()));
        let line = match ecosystem {
            Ecosystem::Python => package.to_owned(),
            Ecosystem::Npm => format!("\"{package}\": \"*\""),
        };
        let request = match &self.found {
            Err(error) => return (format!("its packages cannot be prepared: {error}"), None),
            Ok(request) => request.as_ref(),
        };
        let Some(request) = request else {
            let file = match ecosystem {
                Ecosystem::Python => "requirements.txt",
                Ecosystem::Npm => "the dependencies of package.json",
            };
            let text = format!(
                "if it should have it, add the line {line} to {file} in the folder of the skill, and prepare its packages"
            );
            return (text, hint);
        };
        let requirements = &request.requirements;
        if requirements.declares(package) {
            return (format!("{} names it; prepare the packages of the skill", requirements.source), hint);
        }
        let place = if requirements.source == self.script {
            format!("the dependencies in the block `/// script` of {}", self.script)
        } else {
            requirements.source.clone()
        };
        (
            format!(
                "if it should have it, add the line {line} to {place}, and prepare the packages of the skill"
            ),
            hint,
        )
    }
}
