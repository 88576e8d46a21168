//! A requirement of a skill as a row of a page.

use metier::engine::{Requirement, RequirementKind, RequirementState};

use super::terminal::escape_line;

/// What is required, and whether it is there.
pub fn requirement_row(requirement: &Requirement) -> (&'static str, String) {
    let kind = match requirement.kind {
        RequirementKind::Runtime => "runtime",
        RequirementKind::Interpreter => "interpreter",
        RequirementKind::Program => "program",
        RequirementKind::Skill => "skill",
        RequirementKind::Infrastructure => "service",
        RequirementKind::Setting => "setting",
        RequirementKind::Secret => "secret",
        _ => "requirement",
    };
    let name = escape_line(&requirement.name);
    let version = requirement.version.as_ref().map(|range| format!(" {range}")).unwrap_or_default();
    let state = match (requirement.state, requirement.required) {
        (RequirementState::Available, _) => "is there",
        (RequirementState::Missing, true) => "is missing",
        (RequirementState::Missing, false) => "is missing, and optional",
        _ => "is not checked",
    };
    let found = requirement.found.as_ref().map(|found| format!(", as {found}")).unwrap_or_default();
    let reason = requirement.reason.as_deref().map(|reason| format!(": {}", escape_line(reason)));
    ("requires", format!("{kind} {name}{version} {state}{found}{}", reason.unwrap_or_default()))
}
