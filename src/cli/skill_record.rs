//! A skill and its scripts as `list` and `show` print them.

use metier::engine::{
    Availability, Engine, NamedScript, RequestSource, RequestedPermission, SkillContent, TrustState,
};
use metier::registry::Skill;
use serde_json::{Value, json};

use super::trust_words::trust_name;

/// One skill as `--json` lists it.
pub fn skill_record(skill: &Skill, availability: &Availability, trust: &TrustState) -> Value {
    json!({
        "name": skill.name(),
        "qualified": skill.qualified_name(),
        "description": skill.description(),
        "version": skill.version().to_string(),
        "scope": skill.scope().to_string(),
        "path": skill.path(),
        "runtime": availability.runtime,
        "content": availability.content,
        "runnable": availability.is_runnable() || runs_named_script(availability),
        "reason": availability.reason.as_ref().map(ToString::to_string),
        "warnings": availability.warnings,
        "requirements": availability.requirements,
        "shadowed_by": skill.shadowed_by(),
        "trust": trust_name(trust),
        "changed_files": match trust {
            TrustState::Changed { files } => Some(files),
            _ => None,
        },
    })
}

/// The permissions that the scripts and tools of the skill request, without those of its callees; `everything` where an external one
/// lists none.
pub fn permission_names(engine: &Engine, skill: &Skill) -> Vec<String> {
    let is_own = |source: &RequestSource| !matches!(source, RequestSource::Callee(_));
    let requests = engine.requested_permissions(skill);
    let own = requests.iter().filter(|request| request.sources.iter().any(is_own));
    let names = own.map(|RequestedPermission { permission, .. }| permission.to_string());
    if engine.uses_any_grant(skill) {
        return std::iter::once("everything".to_owned()).chain(names.filter(|name| name != "read")).collect();
    }
    names.collect()
}

/// Whether the skill has no main script, and runs one of several that a caller names.
fn runs_named_script(availability: &Availability) -> bool {
    availability.content == Some(SkillContent::Scripts) && availability.cannot_run().is_none()
}

/// The runtimes of these scripts, each once: `lua, external`.
pub fn runtime_names(scripts: &[NamedScript]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in scripts.iter().map(|script| script.runtime.name()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// The first scripts with what runs each: `scripts/a.py in external, scripts/b.lua in lua`.
pub fn script_list(scripts: &[NamedScript]) -> String {
    const MAX_SHOWN: usize = 10;
    let shown = scripts.iter().take(MAX_SHOWN);
    let shown = shown.map(|script| format!("{} in {}", script.path, script.runtime.name()));
    let more = scripts.len().saturating_sub(MAX_SHOWN);
    let more = (more > 0).then(|| format!("and {more} more"));
    shown.chain(more).collect::<Vec<_>>().join(", ")
}
