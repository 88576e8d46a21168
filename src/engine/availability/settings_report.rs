//! Which skills have their settings, and which categories of skills nobody configured.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::report::{Requirement, RequirementKind, RequirementState};
use crate::engine::EngineInner;
use crate::engine::skill_set::SkillSet;
use crate::registry::{Scope, Skill};
use metier_core::policy::{ConfigField, ConfigRequirement};
use metier_skill::Severity;

/// The category of skills that name none.
const NO_CATEGORY: &str = "unknown";
/// Without skills of this category, nothing but a message is missing.
const NOTIFICATION: &str = "notification";

/// Which skills that declare settings have them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SettingsReport {
    /// The qualified names of the skills that have what they need; of settings that are all optional, at least one.
    pub configured: Vec<String>,
    /// The others.
    pub missing: Vec<UnconfiguredSkill>,
    /// The categories of which no skill is configured, those of builtin skills alone left out.
    pub problems: Vec<CategoryProblem>,
}

/// A skill without settings that it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UnconfiguredSkill {
    /// Its qualified name.
    pub skill: String,
    /// Its category, or `unknown`.
    pub category: String,
    /// The environment variables that would provide what is missing.
    pub missing_env: Vec<String>,
}

/// A category of which no skill is configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CategoryProblem {
    /// The category.
    pub category: String,
    /// An error; for notifications a warning.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
}

impl EngineInner {
    /// The report about the skills that plain names refer to.
    pub(in crate::engine) fn settings_report(&self, set: &SkillSet) -> SettingsReport {
        let mut report = SettingsReport::default();
        let mut categories: BTreeMap<String, bool> = BTreeMap::new();
        let is_builtin = |skill: &&Skill| skill.scope() == Scope::Builtin;
        let (builtin, others): (Vec<&Skill>, Vec<&Skill>) = set.registry.visible().partition(is_builtin);
        for skill in others.into_iter().chain(builtin) {
            let fields = skill.contract().map_or(&[][..], |contract| &contract.config);
            if fields.is_empty() {
                continue;
            }
            let requirements = self.setting_requirements(set, skill).unwrap_or_default();
            let missing = missing_fields(fields, &requirements);
            let category = category(skill);
            // Nobody has to set up what ships with metier.
            if !is_builtin(&skill) || missing.is_empty() {
                *categories.entry(category.clone()).or_default() |= missing.is_empty();
            }
            if missing.is_empty() {
                report.configured.push(skill.qualified_name());
            } else {
                let missing_env = missing.into_iter().filter_map(|field| field.env.clone()).collect();
                report.missing.push(UnconfiguredSkill {
                    skill: skill.qualified_name(),
                    category,
                    missing_env,
                });
            }
        }
        let without =
            categories.into_iter().filter(|(category, has_one)| !has_one && category != NO_CATEGORY);
        report.problems = without.map(|(category, _)| CategoryProblem::new(category)).collect();
        report
    }
}

impl CategoryProblem {
    fn new(category: String) -> Self {
        let severity = if category == NOTIFICATION { Severity::Warning } else { Severity::Error };
        let message = format!("no skill of the category {category} has its settings");
        Self { category, severity, message }
    }
}

/// The settings for lack of which the skill is not configured: the required ones that are missing, or all where none is required and
/// none has a value.
fn missing_fields<'a>(fields: &'a [ConfigField], requirements: &[Requirement]) -> Vec<&'a ConfigField> {
    let missing = |field: &ConfigField| {
        requirements.iter().find(|requirement| {
            matches!(requirement.kind, RequirementKind::Setting | RequirementKind::Secret)
                && requirement.name == field.key
                && requirement.state == RequirementState::Missing
        })
    };
    let is_optional = |field: &ConfigField| {
        !matches!(field.requirement, ConfigRequirement::Required | ConfigRequirement::AnyOf)
    };
    if fields.iter().all(is_optional) {
        let is_unset = fields.iter().all(|field| missing(field).is_some());
        return if is_unset { fields.iter().collect() } else { Vec::new() };
    }
    fields.iter().filter(|field| missing(field).is_some_and(|found| found.required)).collect()
}

fn category(skill: &Skill) -> String {
    let declared = skill.contract().and_then(|contract| contract.publication.category.clone());
    let in_metadata = || skill.manifest().metadata.get("category").and_then(Value::as_str).map(str::to_owned);
    let named = declared.or_else(in_metadata);
    named.unwrap_or_else(|| NO_CATEGORY.to_owned())
}
