//! Checks one target: its diagnostics, and whether it is valid.

use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use metier::engine::{Runtimes, main_script_runtime};
use metier::error::{ErrorKind, SkillError};
use metier::registry::{Problem, Registry, Skill};
use metier::skill::{Diagnostic, Profile, Severity, SkillLocation, parse};
use metier_core::host::outward_link::{open_linked_skill_file, outward_link_error};
use metier_skill::contract::CONTRACT_FILES;
use serde::Serialize;

use super::contract::ContractValidation;
use super::sequence::{SequenceValidation, sequences};
use super::skill_file::{self, MAX_BYTES, SkillFile};
use super::target::Target;
use crate::cli::validate::folder_checks::FolderChecks;
use crate::cli::validate::lints;
use crate::cli::validate::project_skills::ProjectSkills;
use crate::cli::validate::script_texts::{misread_script, misread_scripts};

/// The answer for one target, as it is in JSON.
#[derive(Serialize)]
pub struct SkillValidation {
    /// The skill's folder, or the path with the error.
    pub path: String,
    /// The skill's name, if it loads.
    pub name: Option<String>,
    /// Whether it is valid under the profile.
    pub valid: bool,
    /// Whether metier loads it, valid or not.
    pub loads: bool,
    /// What is wrong or worth knowing.
    pub diagnostics: Vec<Diagnostic>,
    /// Its contract, if there is one.
    pub contract: Option<ContractValidation>,
    /// Its sequences: `scripts/sequence.json`, and entrypoints that are sequences.
    pub sequences: Vec<SequenceValidation>,
    /// Whether it is trusted, if it is a skill of the project.
    pub trust: Option<&'static str>,
    /// The file the diagnostics point into.
    #[serde(skip)]
    pub file: String,
    /// Its text; empty if it cannot be read.
    #[serde(skip)]
    pub text: String,
}

impl SkillValidation {
    /// Reads and checks a target.
    pub fn from_target(target: Target, profile: Profile, project: &ProjectSkills) -> Self {
        let Target { path, file } = target;
        if file.as_ref().is_ok_and(String::is_empty)
            && let Some(found) = project.script_skill(&path)
        {
            return Self::from_script(&path, found, project);
        }
        let read = file.and_then(|file| {
            let (dir, bytes) = open_skill_file(&path, &file)?;
            Ok((dir, file, bytes))
        });
        match read {
            Ok((dir, file, read)) if CONTRACT_FILES.contains(&file.as_str()) => {
                Self::from_definition(&path, &dir, (&file, &read), profile, project)
            }
            Ok((dir, file, read)) => Self::from_skill(&path, &dir, (&file, &read), profile, project),
            Err(diagnostic) => Self::from_diagnostic(&path, diagnostic),
        }
    }

    fn from_diagnostic(path: &Path, diagnostic: Diagnostic) -> Self {
        Self { diagnostics: vec![diagnostic], ..Self::empty(path) }
    }

    /// The validation of a script that is a skill by itself.
    fn from_script(path: &Path, found: Result<Skill, Problem>, project: &ProjectSkills) -> Self {
        let skill = match found {
            Ok(skill) => skill,
            Err(problem) => {
                let found = Diagnostic::new(&lints::SCRIPT_UNFIT, "", &(0..0), problem.message);
                let found = match problem.help {
                    Some(help) => found.with_help(help),
                    None => found,
                };
                return Self::from_diagnostic(path, found);
            }
        };
        let mut diagnostics = skill.diagnostics().to_vec();
        diagnostics.extend_from_slice(skill.contract_diagnostics());
        let refused = main_script_runtime(&Runtimes::built_in(), &skill).err();
        if let Some(error) = refused.filter(|error| error.kind() == ErrorKind::InvalidSkill) {
            diagnostics.push(Diagnostic::new(&lints::SCRIPT_UNFIT, "", &(0..0), error.message()));
        }
        let script = std::fs::read(path).unwrap_or_default();
        diagnostics.extend(misread_script(&file_name(path), &script));
        Self {
            name: Some(skill.name().to_owned()),
            valid: !diagnostics.iter().any(|found| found.severity == Severity::Error),
            loads: true,
            diagnostics,
            trust: project.trust(path),
            text: String::from_utf8_lossy(&script).into_owned(),
            ..Self::empty(path)
        }
    }

    fn empty(path: &Path) -> Self {
        let path = path.display().to_string();
        Self {
            file: path.clone(),
            path,
            name: None,
            valid: false,
            loads: false,
            diagnostics: Vec::new(),
            contract: None,
            sequences: Vec::new(),
            trust: None,
            text: String::new(),
        }
    }

    fn from_skill(
        path: &Path,
        dir: &Dir,
        (file, read): (&str, &SkillFile),
        profile: Profile,
        project: &ProjectSkills,
    ) -> Self {
        let parsed = parse(&read.bytes, SkillLocation { directory: &folder_name(path), file_name: file });
        let text = read.bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let mut diagnostics: Vec<Diagnostic> = parsed.diagnostics(profile).cloned().collect();
        if read.is_truncated {
            let message = format!("{file} is larger than {} KiB; the rest is not checked", MAX_BYTES / 1024);
            let large = Diagnostic::new(&lints::SKILL_FILE_LARGE, text, &(0..0), message);
            diagnostics.push(large.with_help("move long parts into files of their own"));
        }
        let is_found = profile != Profile::AgentPlugins || file == "SKILL.md";
        if !is_found {
            let message = format!("clients of Agent Plugins do not find a file called {file}");
            let misnamed = Diagnostic::new(&lints::SKILL_FILE_NAME, text, &(0..0), message);
            diagnostics.push(misnamed.with_help("rename it to SKILL.md"));
        }
        if let Some(manifest) = &parsed.manifest {
            diagnostics.extend(FolderChecks { dir, file, text, manifest }.diagnostics());
            diagnostics.extend(misread_scripts(dir));
        }
        let manifest = parsed.manifest.as_ref();
        let contract = ContractValidation::from_folder(path, dir, manifest, project);
        let has_no_contract = contract.as_ref().is_none_or(ContractValidation::is_left_out);
        let of_frontmatter = manifest.filter(|_| has_no_contract && profile == Profile::Spec);
        let of_frontmatter = of_frontmatter
            .and_then(|manifest| metier_skill::formats::frontmatter_contract(&read.bytes, manifest));
        diagnostics.extend(of_frontmatter.into_iter().flat_map(|parsed| parsed.diagnostics));
        let parsed_contract = contract.as_ref().and_then(|checked| checked.contract.as_ref());
        let sequences = sequences(path, dir, manifest, parsed_contract, project);
        let mut checked = Self {
            path: path.display().to_string(),
            name: parsed.manifest.as_ref().map(|manifest| manifest.name.clone()),
            valid: parsed.is_valid(profile)
                && is_found
                && sequences.iter().all(SequenceValidation::is_valid)
                && contract.as_ref().is_none_or(ContractValidation::is_valid),
            loads: parsed.is_loadable(),
            diagnostics,
            contract,
            sequences,
            trust: project.trust(path),
            file: path.join(file).display().to_string(),
            text: text.to_owned(),
        };
        if profile == Profile::Spec && checked.valid {
            checked.check_main_script(path);
        }
        checked
    }

    /// The validation of a definition without a SKILL.md.
    fn from_definition(
        path: &Path,
        dir: &Dir,
        (file, read): (&str, &SkillFile),
        profile: Profile,
        project: &ProjectSkills,
    ) -> Self {
        let (loaded, _) = metier_skill::formats::parse_alone(file, &read.bytes, &folder_name(path));
        let manifest = loaded.manifest.as_ref();
        let mut diagnostics = if manifest.is_some() { loaded.diagnostics } else { Vec::new() };
        diagnostics.extend(misread_scripts(dir));
        if profile != Profile::Spec {
            let found =
                Diagnostic::new(&lints::SKILL_FILE_MISSING, "", &(0..0), "Missing required file: SKILL.md");
            diagnostics.push(found.with_help("other clients read nothing else"));
        }
        let contract = ContractValidation::from_folder(path, dir, None, project);
        let parsed_contract = contract.as_ref().and_then(|checked| checked.contract.as_ref());
        let sequences = sequences(path, dir, manifest, parsed_contract, project);
        let is_valid = !diagnostics.iter().any(|found| found.severity == Severity::Error)
            && sequences.iter().all(SequenceValidation::is_valid)
            && contract.as_ref().is_none_or(ContractValidation::is_valid);
        let mut checked = Self {
            path: path.display().to_string(),
            name: manifest.map(|manifest| manifest.name.clone()),
            valid: is_valid,
            loads: manifest.is_some(),
            diagnostics,
            contract,
            sequences,
            trust: project.trust(path),
            file: path.join(file).display().to_string(),
            text: read.bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid()).to_owned(),
        };
        if checked.valid {
            checked.check_main_script(path);
        }
        checked
    }

    /// A skill whose main script `metier run` refuses is not valid, by the same rule.
    fn check_main_script(&mut self, folder: &Path) {
        let refused = Registry::load_skill_in(folder)
            .and_then(|skill| main_script_runtime(&Runtimes::built_in(), &skill.ok()?).err());
        let Some(error) = refused.filter(|error| error.kind() == ErrorKind::InvalidSkill) else { return };
        self.valid = false;
        let about_runtime = [lints::RUNTIME_UNKNOWN.code, lints::RUNTIME_UNFIT.code];
        if let Some(found) = self.diagnostics.iter_mut().find(|found| about_runtime.contains(&found.code)) {
            found.severity = Severity::Error;
            return;
        }
        let found = Diagnostic::new(&lints::SCRIPT_UNFIT, &self.text, &(0..0), error.message());
        self.diagnostics.push(match error.help() {
            Some(help) => found.with_help(help),
            None => found,
        });
    }
}

/// The folder's own name, also when it was called `.`.
fn folder_name(path: &Path) -> String {
    let real = || path.canonicalize().ok().and_then(|real| real.file_name().map(ToOwned::to_owned));
    let name = path.file_name().map(ToOwned::to_owned).or_else(real).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn open_skill_file(path: &Path, file: &str) -> Result<(Dir, SkillFile), Diagnostic> {
    let failed = |error| {
        let attempt = format!("failed to read {}", path.join(file).display());
        if let Some(link) = outward_link_error(path, file) {
            let message = format!("{attempt}: {}", link.message());
            let found = Diagnostic::new(&lints::UNREADABLE, "", &(0..0), message);
            return found.with_help(link.help().unwrap_or_default());
        }
        Diagnostic::new(&lints::UNREADABLE, "", &(0..0), SkillError::io(attempt, error).message())
    };
    let dir = Dir::open_ambient_dir(path, ambient_authority()).map_err(failed)?;
    let read = skill_file::read(&dir, file).or_else(|error| {
        let linked = open_linked_skill_file(path, file).ok_or(error)?;
        skill_file::read_open(linked, skill_file::MAX_BYTES)
    });
    let read = read.map_err(failed)?;
    Ok((dir, read))
}
