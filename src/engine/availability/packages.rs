//! The packages of the script that would run: prepared, to be prepared, or why they cannot be. No program starts for it.

use std::path::{Path, PathBuf};

use super::report::{Requirement, RequirementKind};
use crate::engine::EngineInner;
use crate::registry::Skill;
use crate::runtimes;
use metier_core::error::Result;
use metier_core::host::untrusted::UntrustedDirs;
use metier_packages::{Ecosystem, PackageRequest, SkillPackages};

/// The most characters of the packages that a sentence lists.
const MAX_SHOWN_CHARS: usize = 120;
/// Where a script finds packages that nobody prepared.
const ENVIRONMENTS: [(Ecosystem, &str, &str); 2] =
    [(Ecosystem::Python, ".venv", "pyvenv.cfg"), (Ecosystem::Npm, "node_modules", "")];

const PREPARE_HELP: &str = "prepare the packages of the skill";

impl EngineInner {
    /// The packages that a script of the skill needs; `None` where it names none, and in engines without a store of them.
    ///
    /// Only the lines that name packages are read, and what is prepared is looked up. A script may find packages that nobody prepared,
    /// for example those of its interpreter, so the lack of them refuses no run.
    pub(in crate::engine) fn package_requirement(
        &self,
        skill: &Skill,
        path: &str,
        source: &[u8],
        refused: &[PathBuf],
    ) -> Option<Requirement> {
        let packages = self.script_packages(skill, path, source)?;
        let untrusted = self.package_untrusted_dirs(skill);
        self.state_of_packages(skill, (path, source), &packages, (&untrusted, refused))
    }

    /// The same of packages that were looked up.
    pub(super) fn state_of_packages(
        &self,
        skill: &Skill,
        (path, source): (&str, &[u8]),
        packages: &SkillPackages,
        (untrusted, refused): (&UntrustedDirs, &[PathBuf]),
    ) -> Option<Requirement> {
        if let Some(error) = packages.error() {
            let name = error.location().map_or("packages", |location| location.file.as_str());
            let requirement = Requirement::available(RequirementKind::Packages, name).required(false);
            let reason = format!("the packages of {path} cannot be prepared: {}", error.message());
            return Some(requirement.missing(reason, error.help().unwrap_or(PREPARE_HELP)));
        }
        let request = packages.request()?;
        Some(match self.package_interpreter(skill, path, source, untrusted) {
            Ok(program) => self.prepared_state(skill, request, &program, (untrusted, refused)),
            Err(error) => Requirement::available(RequirementKind::Packages, &request.requirements.source)
                .required(false)
                .unchecked(error.message()),
        })
    }

    /// Whether packages are prepared for a script.
    pub(super) fn has_packages(
        &self,
        skill: &Skill,
        (path, source): (&str, &[u8]),
        packages: Option<&SkillPackages>,
        untrusted: &UntrustedDirs,
    ) -> bool {
        let Some(request) = packages.and_then(SkillPackages::request) else { return false };
        let program = self.package_interpreter(skill, path, source, untrusted);
        program.is_ok_and(|program| request.stored_for(&program).is_some())
    }

    /// Compares the files that were prepared for a script, as a run does it: `untrusted` if somebody has changed them.
    pub(super) fn verify_packages(&self, skill: &Skill, path: &str, source: &[u8]) -> Result<()> {
        let packages = self.script_packages(skill, path, source);
        let Some(request) = packages.as_ref().and_then(SkillPackages::request) else { return Ok(()) };
        let untrusted = self.package_untrusted_dirs(skill);
        let program = self.package_interpreter(skill, path, source, &untrusted)?;
        request.prepared_for(&program).map(drop)
    }

    fn prepared_state(
        &self,
        skill: &Skill,
        request: &PackageRequest,
        program: &Path,
        (untrusted, refused): (&UntrustedDirs, &[PathBuf]),
    ) -> Requirement {
        let requirements = &request.requirements;
        let named = metier_core::excerpt::shorten(&requirements.names().join(", "), MAX_SHOWN_CHARS);
        let requirement =
            Requirement::available(RequirementKind::Packages, &requirements.source).required(false);
        if let Some(stored) = request.stored_for(program) {
            let found = metier_core::excerpt::shorten(&stored.packages.join(", "), MAX_SHOWN_CHARS);
            return requirement.found_version(Some(found));
        }
        let ecosystem = requirements.ecosystem();
        let project = self.folders.first().path.as_path();
        let project = Some(project).filter(|project| !refused.iter().any(|refused| refused == project));
        let folders = skill.folder().disk_path().into_iter().chain(project);
        let is_here = |(of, folder, mark): &(Ecosystem, &str, &str)| {
            *of == ecosystem && folders.clone().any(|above| above.join(folder).join(mark).exists())
        };
        if let Some((_, folder, _)) = ENVIRONMENTS.iter().find(|environment| is_here(environment)) {
            return requirement.unchecked(format!("only a run would tell whether {folder} has {named}"));
        }
        let source = &requirements.source;
        let unprepared = format!("the packages that {source} names are not prepared ({named})");
        let manager = match ecosystem {
            Ecosystem::Python => "uv",
            Ecosystem::Npm => "npm",
        };
        if let Err(error) = runtimes::check_sandbox_built_in() {
            let help = error.help().unwrap_or(PREPARE_HELP).to_owned();
            return requirement.missing(format!("{unprepared}: {}", error.message()), help);
        }
        if runtimes::find_program(manager, untrusted).is_none() {
            let reason = format!("{unprepared}, and {manager}, which prepares them, is not on PATH");
            return requirement.missing(reason, format!("install {manager}, and see that it is on PATH"));
        }
        requirement.preparable(unprepared, PREPARE_HELP)
    }
}
