//! Checks whether the dependencies of a contract are present: programs on `PATH`, and skills.
//!
//! Nothing runs for this check, so for a program only its presence is known, not its version.

use std::fmt::Write;

use crate::error::{ErrorKind, Result, SkillError};
use crate::registry::{Registry, Skill};
use crate::runtimes;
use crate::skill::contract::Dependency;

/// Refuses a skill whose required dependencies are missing: `unavailable`, with everything that is missing.
pub(super) fn require_dependencies(skill: &Skill, registry: &Registry) -> Result<()> {
    let required = |(dependency, _): &(&Dependency, String)| dependency.required;
    let missing: Vec<_> = missing_dependencies(skill, registry).filter(required).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let is_tool = |dependency: &Dependency| {
        let tools = skill.contract().map(|contract| &contract.dependencies.tools);
        tools.is_some_and(|tools| tools.iter().any(|tool| std::ptr::eq(tool, dependency)))
    };
    let help = match missing.iter().filter(|(dependency, _)| is_tool(dependency)).count() {
        0 => "add the skill, in a version that fits, to a folder where skills are found",
        tools if tools == missing.len() => "install the program, and see that it is on PATH",
        _ => "install the programs, see that they are on PATH, and add the skills where skills are found",
    };
    let missing: Vec<String> = missing.into_iter().map(|(_, sentence)| sentence).collect();
    let sentence = format!("skill {} cannot run: {}", skill.name(), missing.join("; "));
    Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help(help))
}

/// The missing optional dependencies, one sentence each.
pub(super) fn missing_optional(skill: &Skill, registry: &Registry) -> Vec<String> {
    let missing = missing_dependencies(skill, registry).filter(|(dependency, _)| !dependency.required);
    missing.map(|(_, told)| told).collect()
}

fn missing_dependencies<'a>(
    skill: &'a Skill,
    registry: &'a Registry,
) -> impl Iterator<Item = (&'a Dependency, String)> {
    let dependencies = skill.contract().map(|contract| &contract.dependencies);
    let tools = dependencies.map_or(&[][..], |dependencies| &dependencies.tools);
    let skills = dependencies.map_or(&[][..], |dependencies| &dependencies.skills);
    let absent = tools.iter().filter(|tool| !runtimes::has_program(&tool.name));
    let absent = absent.map(|tool| (tool, describe_missing(tool, "is not on PATH")));
    let unmet = skills.iter().filter_map(|needed| Some((needed, unmet_reason(skill, needed, registry)?)));
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
