//! A skill as `list --json` and `show --json` print it.

use metier::engine::{Availability, Engine, TrustState};
use metier::registry::Skill;
use serde_json::{Value, json};

use super::trust_words::trust_name;

/// One skill as `--json` lists it.
pub fn skill_record(engine: &Engine, skill: &Skill, availability: &Availability) -> Value {
    let trust = engine.trust_state(skill);
    json!({
        "name": skill.name(),
        "qualified": skill.qualified_name(),
        "description": skill.description(),
        "version": skill.version().to_string(),
        "scope": skill.scope().to_string(),
        "path": skill.path(),
        "runtime": availability.runtime,
        "runnable": availability.is_runnable(),
        "reason": availability.reason.as_ref().map(ToString::to_string),
        "warnings": availability.warnings,
        "requirements": availability.requirements,
        "shadowed_by": skill.shadowed_by(),
        "trust": trust_name(&trust),
        "changed_files": match &trust {
            TrustState::Changed { files } => Some(files),
            _ => None,
        },
    })
}
