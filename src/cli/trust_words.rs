//! Trust and remembered grants in words and as JSON names.

use metier::engine::{Engine, TrustReason, TrustState};
use metier::policy::{GrantOrigin, GrantReport};
use metier::registry::{FileDifference, Skill};
use metier::trust::{RememberedGrant, SkillFiles};

use super::hint::COMMAND;
use super::terminal::{escape_line, shorten_line};

/// The state as JSON names it.
pub fn trust_name(state: &TrustState) -> &'static str {
    match state {
        TrustState::Trusted { .. } => "trusted",
        TrustState::Changed { .. } => "changed",
        _ => "untrusted",
    }
}

/// Whether a skill is trusted, why, and what helps.
pub fn trust_line(state: &TrustState) -> String {
    match state {
        TrustState::Trusted { by: TrustReason::Folder } => "yes: everything in its folder is".into(),
        TrustState::Trusted { by: TrustReason::Digest } => "yes, with exactly these files".into(),
        TrustState::Trusted { .. } => "yes: it is your own or part of the program".into(),
        TrustState::Changed { files } => {
            format!("no: changed since ({}); `{COMMAND} trust` shows and trusts it", difference_list(files))
        }
        TrustState::Untrusted { reason: Some(reason) } => format!("no: {reason}"),
        _ => format!("no; `{COMMAND} trust` shows and trusts it"),
    }
}

/// The first differences, such as `scripts/main.lua changed`.
pub fn difference_list(files: &[FileDifference]) -> String {
    const MAX_SHOWN: usize = 10;
    let shown = files.iter().take(MAX_SHOWN).map(|file| format!("{} {}", file.path, file.change));
    let more = files.len().saturating_sub(MAX_SHOWN);
    let more = (more > 0).then(|| format!("and {more} more"));
    shown.chain(more).collect::<Vec<_>>().join(", ")
}

/// The warning that names the skills that were left out because they are not trusted.
pub fn untrusted_sentence(names: &[String]) -> Option<String> {
    const MAX_SHOWN: usize = 10;
    let shown: Vec<String> = names.iter().take(MAX_SHOWN).map(|name| shorten_line(name, 64)).collect();
    let more = names.len().saturating_sub(MAX_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!shown.is_empty()).then(|| {
        format!(
            "not trusted, so not shown to a model: {}{more}; look at them with `{COMMAND} trust`",
            shown.join(", ")
        )
    })
}

/// The remembered grants for a skill with these files, in its project or in all.
pub fn grants_of_skill(engine: &Engine, skill: &Skill, files: &SkillFiles) -> Vec<RememberedGrant> {
    let records = engine.trust_store().and_then(|store| store.records().ok());
    let project = engine.project_identity(skill).ok();
    let is_own = |grant: &&RememberedGrant| {
        grant.skill == skill.name()
            && grant.digest == files.digest
            && (grant.project.is_none() || grant.project == project)
    };
    records.iter().flat_map(|records| records.grants.iter().filter(is_own).cloned()).collect()
}

/// A remembered grant on one line.
pub fn grant_line(grant: &RememberedGrant) -> String {
    let place = grant.project.as_ref().map_or("in all projects", |_| "in this project");
    let arguments =
        if grant.arguments.is_null() { String::new() } else { format!(" for {}", grant.arguments) };
    format!("{} {place}{arguments}, since {} by {}", grant.permission, grant.since, grant.by)
}

/// A grant of the user's configuration on one line.
pub fn configured_grant_line(grant: &GrantReport, is_trusted: bool) -> String {
    let place = match &grant.origin {
        GrantOrigin::Configuration { file } => escape_line(&file.display().to_string()),
        _ => "the configuration".to_owned(),
    };
    let state = if is_trusted { "" } else { "; without effect: the skill is not trusted" };
    format!("{} by {place}{state}", grant.permission)
}
