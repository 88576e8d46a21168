//! A requirement of a skill as a row of a page.

use metier::engine::{Requirement, RequirementKind, RequirementState};

use super::terminal::escape_line;

/// What the skill of that name requires, and whether it is there.
pub fn requirement_row(skill: &str, requirement: &Requirement) -> (&'static str, String) {
    let kind = match requirement.kind {
        RequirementKind::Runtime => "runtime",
        RequirementKind::Interpreter => "interpreter",
        RequirementKind::Packages => "packages of",
        RequirementKind::Program => "program",
        RequirementKind::Skill => "skill",
        RequirementKind::Infrastructure => "service",
        RequirementKind::Setting => "setting",
        RequirementKind::Secret => "secret",
        RequirementKind::System => "system",
        RequirementKind::Capability => "capability",
        _ => "requirement",
    };
    let name = escape_line(&requirement.name);
    let version = requirement.version.as_ref().map(|range| format!(" {range}")).unwrap_or_default();
    let state = match (requirement.state, requirement.required) {
        (RequirementState::Available, _) if requirement.kind == RequirementKind::Packages => "are prepared",
        (RequirementState::Available, _) => "is there",
        (RequirementState::Missing, true) => "is missing",
        (RequirementState::Missing, false) if requirement.kind == RequirementKind::Packages => {
            "cannot be prepared"
        }
        (RequirementState::Missing, false) => "is missing, and optional",
        (RequirementState::Preparable, _) => "can be prepared",
        _ if requirement.kind == RequirementKind::Packages => "are not checked",
        _ => "is not checked",
    };
    let found = requirement.found.as_ref().map(|found| format!(", as {found}")).unwrap_or_default();
    let reason = requirement.reason.as_deref().map(|reason| format!(": {}", escape_line(reason)));
    let way_out = match requirement.state {
        RequirementState::Preparable => format!("; run `metier prepare {}`", escape_line(skill)),
        _ => String::new(),
    };
    let reason = reason.unwrap_or_default();
    ("requires", format!("{kind} {name}{version} {state}{found}{reason}{way_out}"))
}
