//! What the contract and the metadata of a skill require, and whether it is there: the system, programs, other skills, infrastructure,
//! settings, secrets and services of the host.

use std::collections::HashMap;
use std::path::Path;

use semver::VersionReq;

use super::infrastructure::{Probe, check_infrastructure};
use super::report::{Requirement, RequirementKind, RequirementState};
use crate::registry::Skill;
use crate::runtimes::{self, ProgramVersion, RuntimeServices};
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::host::{
    ConfigState, SkillContext, WITHHELD, WITHHELD_HELP, config_help, config_hint, config_states,
};
use metier_core::policy::{ConfigField, ConfigRequirement};
use metier_skill::contract::Dependency;
use metier_skill::{MachineRequirements, ManifestFacts};

const PROGRAM_HELP: &str = "install the program, and see that it is on PATH";
const SYSTEM_HELP: &str = "run it on a system that it is made for";
const CAPABILITY_HELP: &str = "a program that embeds metier offers a capability as a tool of that name";
const VERSION_HELP: &str = "install a version that fits, and see that it is first on PATH";

/// Whether the skill requires anything that could be missing.
pub(super) fn requires_anything(skill: &Skill) -> bool {
    let by_contract = skill.contract().is_some_and(|contract| {
        let needs = &contract.dependencies;
        !(needs.tools.is_empty()
            && needs.skills.is_empty()
            && needs.infrastructure.is_empty()
            && contract.host_needs.capabilities.is_empty()
            && contract.config.is_empty())
    });
    by_contract || requires_machine(skill)
}

/// Whether a run of the skill could be refused by what it requires.
pub(super) fn could_be_refused(skill: &Skill) -> bool {
    let is_required = |field: &ConfigField| {
        matches!(field.requirement, ConfigRequirement::Required | ConfigRequirement::AnyOf)
    };
    let by_contract = skill.contract().is_some_and(|contract| {
        let needs = &contract.dependencies;
        needs.tools.iter().chain(&needs.skills).any(|needed| needed.required)
            || needs.infrastructure.iter().any(|part| part.required)
            || !contract.host_needs.capabilities.is_empty()
            || contract.config.iter().any(is_required)
    });
    by_contract || requires_machine(skill)
}

fn requires_machine(skill: &Skill) -> bool {
    !skill.manifest().metadata.is_empty() && !skill.manifest().machine_requirements().is_empty()
}

/// What the metadata of the skill requires: the system, and the programs that its contract does not name.
pub(super) fn of_machine(skill: &Skill, known: &mut HashMap<String, bool>) -> Vec<Requirement> {
    let needs = skill.manifest().machine_requirements();
    let mut found = Vec::new();
    if !needs.systems.is_empty() {
        let (systems, current) = (needs.systems.join(" or "), MachineRequirements::current_system());
        let requirement = Requirement::available(RequirementKind::System, &systems);
        let is_current = needs.systems.contains(&current);
        found.push(if is_current {
            requirement
        } else {
            let reason = format!("it needs {systems}, and this system is {current}");
            requirement.missing(reason, SYSTEM_HELP)
        });
    }
    let mut is_there =
        |name: &String| *known.entry(name.clone()).or_insert_with(|| runtimes::has_program(name));
    let program = |names: String, is_there: bool, reason: String| {
        let requirement =
            Requirement::available(RequirementKind::Program, names).required(!needs.is_always_offered);
        if is_there { requirement } else { requirement.missing(reason, PROGRAM_HELP) }
    };
    let named = skill.contract().map_or(&[][..], |contract| &contract.dependencies.tools);
    for name in &needs.programs {
        if !named.iter().any(|known| known.name == *name) {
            found.push(program(name.clone(), is_there(name), format!("{name} is not on PATH")));
        }
    }
    if !needs.any_program.is_empty() {
        let alternatives = needs.any_program.join(" or ");
        let is_any_there = needs.any_program.iter().any(&mut is_there);
        let reason = match needs.any_program.as_slice() {
            [only] => format!("{only} is not on PATH"),
            all => format!("none of {} is on PATH", all.join(", ")),
        };
        found.push(program(alternatives, is_any_there, reason));
    }
    found
}

/// The services of the host for which its tools stand.
pub(super) fn capabilities(skill: &Skill, ctx: &SkillContext) -> Vec<Requirement> {
    let declared = skill.contract().map_or(&[][..], |contract| &contract.host_needs.capabilities);
    let tools = &ctx.providers().tools;
    let state = |name: &String| {
        let requirement = Requirement::available(RequirementKind::Capability, name);
        if tools.as_ref().is_some_and(|tools| tools.has(name)) {
            return requirement;
        }
        requirement.missing(format!("this host does not offer the capability {name}"), CAPABILITY_HELP)
    };
    declared.iter().map(state).collect()
}

/// Whether a program is there. It is started only where a range of versions is given.
pub(super) fn program(
    needed: &Dependency,
    services: &RuntimeServices,
    project: &Path,
    known: &mut HashMap<String, bool>,
) -> Requirement {
    let requirement = of_dependency(needed, RequirementKind::Program);
    let missing = |state: &str, help: &str| {
        let reason = requirement.describe(&needed.name, state);
        requirement.clone().missing(reason, help)
    };
    let Some(range) = needed.version.as_ref().filter(|range| **range != VersionReq::STAR) else {
        let is_there = || runtimes::has_program(&needed.name);
        return if *known.entry(needed.name.clone()).or_insert_with(is_there) {
            requirement
        } else {
            missing("is not on PATH", PROGRAM_HELP)
        };
    };
    match runtimes::program_version(services, project, &needed.name, &needed.version_arguments) {
        ProgramVersion::Absent => missing("is not on PATH", PROGRAM_HELP),
        ProgramVersion::Unreadable => missing(
            "is on PATH, but does not say its version",
            "see what it says when it is asked for its version",
        ),
        ProgramVersion::Is(version) if range.matches(&version) => {
            requirement.found_version(Some(version.to_string()))
        }
        ProgramVersion::Is(version) => {
            missing(&format!("is here as {version}"), VERSION_HELP).found_version(Some(version.to_string()))
        }
    }
}

/// The requirement of a program or a skill, as if it were there.
pub(super) fn of_dependency(needed: &Dependency, kind: RequirementKind) -> Requirement {
    Requirement::available(kind, &needed.name)
        .version(needed.version.as_ref().map(ToString::to_string))
        .required(needed.required)
        .purpose(needed.reason.clone())
}

/// The infrastructure of a skill, and its settings and secrets: those that it cannot do without, and those that it declares. `ctx` is
/// that of a run, or of none, with the values that a run would have.
pub(super) fn infrastructure_and_config(
    skill: &Skill,
    ctx: &SkillContext,
    project: &Path,
    probe: Option<&Probe>,
) -> Result<Vec<Requirement>> {
    let Some(contract) = skill.contract() else { return Ok(Vec::new()) };
    let parts = contract.dependencies.infrastructure.iter();
    let mut requirements: Vec<Requirement> =
        parts.map(|part| check_infrastructure(part, ctx, project, probe)).collect();
    if !contract.config.is_empty() {
        let states = config_states(ctx)?;
        let is_absent = |state: ConfigState| {
            matches!(state, ConfigState::Absent | ConfigState::Empty | ConfigState::Withheld)
        };
        let alternatives =
            || states.iter().filter(|(field, _)| field.requirement == ConfigRequirement::AnyOf);
        let lacks_all = alternatives().all(|(_, state)| is_absent(*state));
        requirements.extend(states.iter().map(|(field, state)| {
            let is_required = match field.requirement {
                ConfigRequirement::Required => true,
                ConfigRequirement::AnyOf => lacks_all,
                _ => false,
            };
            setting(field, *state, is_required)
        }));
    }
    Ok(requirements)
}

/// A setting that may be missing without harm is available either way.
fn setting(field: &ConfigField, state: ConfigState, is_required: bool) -> Requirement {
    let (kind, noun) = if field.secret {
        (RequirementKind::Secret, "secret")
    } else {
        (RequirementKind::Setting, "setting")
    };
    let requirement =
        Requirement::available(kind, &field.key).required(is_required).purpose(field.description.clone());
    let missing = |state: &str| {
        let reason = requirement.describe(&format!("the {noun} {}", field.key), state);
        requirement.clone().missing(reason, config_help(field))
    };
    match state {
        ConfigState::Absent => missing("is not provided"),
        ConfigState::Empty if requirement.required => missing("is set to empty"),
        ConfigState::Withheld => {
            let reason = requirement.describe(&format!("the {noun} {}", field.key), WITHHELD);
            requirement.clone().missing(reason, WITHHELD_HELP)
        }
        // Whoever sets an optional value to nothing means that.
        ConfigState::Set | ConfigState::Empty => requirement,
        ConfigState::Unknown => requirement.unchecked("only reading the secret would tell"),
    }
}

/// Why the skill cannot run by its requirements: `unavailable`, with everything that is missing, or `invalid-skill` where skills need
/// each other in a circle.
pub(super) fn requirement_error(
    skill: &Skill,
    requirements: &[Requirement],
    is_in_circle: bool,
) -> Option<SkillError> {
    let missing: Vec<&Requirement> = requirements.iter().filter(|found| found.is_missing()).collect();
    if missing.is_empty() {
        return None;
    }
    let reasons: Vec<&str> = missing.iter().filter_map(|found| found.reason.as_deref()).collect();
    let sentence = format!("skill {} cannot run: {}", skill.name(), reasons.join("; "));
    // Requirements of a kind stand side by side, and so do equal helps.
    let mut help: Vec<&str> = missing.iter().filter_map(|found| found.help.as_deref()).collect();
    help.dedup();
    let kind = if is_in_circle { ErrorKind::InvalidSkill } else { ErrorKind::Unavailable };
    Some(SkillError::new(kind, sentence).with_help(help.join("; ")).with_hint(setting_hint(skill, &missing)))
}

/// The hint, where nothing but one setting is missing, or nothing but trust.
fn setting_hint(skill: &Skill, missing: &[&Requirement]) -> Option<Hint> {
    if missing.iter().all(|found| found.help.as_deref() == Some(WITHHELD_HELP)) {
        return Some(Hint::Trust(skill.path()));
    }
    let [only] = missing else { return None };
    let is_same = |field: &&ConfigField| {
        field.key == only.name && matches!(only.kind, RequirementKind::Setting | RequirementKind::Secret)
    };
    skill.contract()?.config.iter().find(is_same).map(config_hint)
}

/// The optional requirements that are missing and those to be prepared, one sentence each. A setting that nobody gave a value is nothing to warn of.
pub(super) fn warnings(requirements: &[Requirement]) -> Vec<String> {
    let is_worth_knowing = |found: &&Requirement| match found.state {
        RequirementState::Preparable => true,
        RequirementState::Missing => {
            !found.required && !matches!(found.kind, RequirementKind::Setting | RequirementKind::Secret)
        }
        _ => false,
    };
    requirements.iter().filter(is_worth_knowing).filter_map(|found| found.reason.clone()).collect()
}
