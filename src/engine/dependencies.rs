//! Checks whether the dependencies of a contract are present: programs on `PATH`, and skills.
//!
//! Nothing runs for this check, so for a program only its presence is known, not its version.

use std::fmt::Write;

use crate::error::{ErrorKind, Result, SkillError};
use crate::registry::{Registry, Skill};
use crate::runtimes;
use crate::skill::contract::Dependency;

const TOOL_HELP: &str = "install the program, and see that it is on PATH";
const SKILL_HELP: &str = "add the skill, in a version that fits, to a folder where skills are found";

struct MissingDependency {
    is_required: bool,
    /// What is missing, and why it is needed.
    sentence: String,
    help: &'static str,
}

/// Refuses a skill whose required dependencies are missing: `unavailable`, with everything that is missing.
pub(super) fn require_dependencies(skill: &Skill, registry: &Registry) -> Result<()> {
    let missing: Vec<_> =
        missing_dependencies(skill, registry).filter(|missing| missing.is_required).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let sentences: Vec<&str> = missing.iter().map(|missing| missing.sentence.as_str()).collect();
    // Tools come before skills, so that equal helps stand side by side.
    let mut help: Vec<&str> = missing.iter().map(|missing| missing.help).collect();
    help.dedup();
    let sentence = format!("skill {} cannot run: {}", skill.name(), sentences.join("; "));
    Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help(help.join("; ")))
}

/// The missing optional dependencies, one sentence each.
pub(super) fn missing_optional(skill: &Skill, registry: &Registry) -> Vec<String> {
    let missing = missing_dependencies(skill, registry).filter(|missing| !missing.is_required);
    missing.map(|missing| missing.sentence).collect()
}

fn missing_dependencies(skill: &Skill, registry: &Registry) -> impl Iterator<Item = MissingDependency> {
    let dependencies = skill.contract().map(|contract| &contract.dependencies);
    let tools = dependencies.map_or(&[][..], |dependencies| &dependencies.tools);
    let skills = dependencies.map_or(&[][..], |dependencies| &dependencies.skills);
    let absent =
        tools.iter().filter(|tool| !runtimes::has_program(&tool.name)).map(|tool| MissingDependency {
            is_required: tool.required,
            sentence: describe_missing(tool, "is not on PATH"),
            help: TOOL_HELP,
        });
    let unmet = skills.iter().filter_map(|needed| {
        let sentence = unmet_reason(skill, needed, registry)?;
        Some(MissingDependency { is_required: needed.required, sentence, help: SKILL_HELP })
    });
    absent.chain(unmet)
}

/// Why a skill dependency is not met, if it is not.
fn unmet_reason(skill: &Skill, needed: &Dependency, registry: &Registry) -> Option<String> {
    let Ok(found) = registry.find_for_caller(skill, &needed.name) else {
        let nearer = registry.find(&needed.name).map(Skill::qualified_name);
        let only = |nearer| format!("is here only nearer to the project, as {nearer}");
        return Some(describe_missing(needed, &nearer.map_or_else(|_| "is no skill here".to_owned(), only)));
    };
    let version = found.version();
    let fits = needed.version.as_ref().is_none_or(|range| range.matches(version));
    (!fits).then(|| describe_missing(needed, &format!("is here as {version}")))
}

/// `helm >=3.12.0 is not on PATH (renders the chart)`
fn describe_missing(needed: &Dependency, state: &str) -> String {
    let mut told = needed.name.clone();
    // Writing to a string does not fail.
    if let Some(range) = &needed.version {
        let _ = write!(told, " {range}");
    }
    let _ = write!(told, " {state}");
    if let Some(reason) = &needed.reason {
        let _ = write!(told, " ({reason})");
    }
    told
}
