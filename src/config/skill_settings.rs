//! What the configuration says about the runs of one skill.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::configuration::{Configuration, Setting};
use super::key_path::KeyPath;
use super::limit_caps::LimitCaps;
use super::origin::ValueOrigin;
use super::secret_source::SecretSource;
use super::value::ConfigValue;
use crate::error::{ErrorKind, Result, SkillError};
use crate::policy::{Permission, SandboxMode};
use crate::registry::Scope;

/// What the configuration says about the runs of one skill.
#[derive(Clone, Debug, Default)]
pub(crate) struct SkillSettings {
    /// Who switched it off.
    disabled_by: Option<ValueOrigin>,
    pub(crate) caps: LimitCaps,
    /// The sandbox that the user or the program asks for.
    pub(crate) sandbox_mode: Option<SandboxMode>,
    /// The sandbox that the project's file asks for: it holds where it is stricter.
    pub(crate) project_sandbox_mode: Option<SandboxMode>,
    pub(crate) denied: Vec<Permission>,
    /// What the user's configuration grants to the skill, and the file that does. They count for trusted skills only.
    pub(crate) grants: Vec<(Permission, PathBuf)>,
    pub(crate) script: Option<String>,
    pub(crate) config: Map<String, Value>,
    pub(crate) secrets: HashMap<String, SecretSource>,
}

impl SkillSettings {
    /// `unavailable` if the skill is switched off.
    pub(crate) fn check_enabled(&self, skill: &str) -> Result<()> {
        let Some(origin) = &self.disabled_by else { return Ok(()) };
        Err(SkillError::new(ErrorKind::Unavailable, format!("the skill {skill} is switched off by {origin}"))
            .with_help("switch it on there"))
    }
}

/// The settings of every skill: for skills of the project itself, for all others, and for skills that the configuration does not
/// name.
#[derive(Debug, Default)]
pub(crate) struct ResolvedConfiguration {
    named: HashMap<String, [SkillSettings; 2]>,
    other: SkillSettings,
    ignores_remembered_grants: bool,
}

impl ResolvedConfiguration {
    pub(crate) fn new(configuration: &Configuration) -> Self {
        let settings =
            |name: &str| [true, false].map(|is_own| configuration.skill_settings(Some(name), is_own));
        Self {
            named: configuration.skills().map(|name| (name.to_owned(), settings(name))).collect(),
            other: configuration.skill_settings(None, false),
            ignores_remembered_grants: !configuration.uses_remembered_grants(),
        }
    }

    /// The settings of a skill with this name in a root of this scope.
    pub(crate) fn of_skill(&self, name: &str, scope: Scope) -> &SkillSettings {
        self.named
            .get(name)
            .map_or(&self.other, |[own, foreign]| if scope == Scope::Project { own } else { foreign })
    }

    /// Whether remembered grants do not apply.
    pub(crate) fn ignores_remembered_grants(&self) -> bool {
        self.ignores_remembered_grants
    }

    /// Whether any skill has values for `ctx.config`.
    pub(crate) fn has_config(&self) -> bool {
        self.named.values().flatten().any(|settings| !settings.config.is_empty())
    }

    /// Whether any skill has a secret.
    pub(crate) fn has_secrets(&self) -> bool {
        self.named.values().flatten().any(|settings| !settings.secrets.is_empty())
    }
}

impl Setting {
    /// The permissions of a list, each with the file that it comes from.
    fn grants(&self) -> Vec<(Permission, PathBuf)> {
        let file = match &self.origin {
            ValueOrigin::User { file, .. } | ValueOrigin::Project { file, .. } => file.clone(),
            _ => PathBuf::new(),
        };
        self.value.as_permissions().iter().map(|permission| (permission.clone(), file.clone())).collect()
    }
}

impl Configuration {
    /// What the project's file, or another source, says about the sandbox of a skill, if nothing stronger says something else.
    pub(super) fn skill_sandbox_mode(&self, skill: &str, is_project: bool) -> Option<&Setting> {
        let values = self.values(KeyPath::of_skill(skill, "sandbox.mode").as_ref());
        let setting = values.iter().find(|setting| setting.origin.is_project() == is_project)?;
        (!is_project || values.first() == Some(setting)).then_some(setting)
    }

    fn skill_settings(&self, skill: Option<&str>, is_own: bool) -> SkillSettings {
        let general = SkillSettings {
            caps: self.project_caps(),
            denied: self.denied_permissions(),
            ..SkillSettings::default()
        };
        let Some(skill) = skill else { return general };
        let all = |name: &str| self.values(KeyPath::of_skill(skill, name).as_ref());
        let first = |name: &str| all(name).first();
        let is_disabled = |setting: &&Setting| setting.value.as_flag() == Some(false);
        // What only skills of the project get from its file.
        let counts = |setting: &&Setting| is_own || !setting.origin.is_project();
        let entries = |name: &'static str| {
            let is_named = |path: &KeyPath| {
                path.skill() == Some(skill) && path.key().name.strip_prefix("skills.NAME.") == Some(name)
            };
            let values = self.iter().filter(move |(path, _)| is_named(path));
            values.filter_map(|(path, values)| {
                Some((path.entry()?.to_owned(), values.iter().find(counts)?.value.clone()))
            })
        };
        let script = all("script").iter().find(counts).and_then(|setting| setting.value.as_text());
        let of_skill = LimitCaps::from_values(|name| Some(&first(&format!("limits.{name}"))?.value));
        let denied = all("deny").iter().flat_map(|setting| setting.value.as_permissions());
        SkillSettings {
            disabled_by: all("enabled").iter().find(is_disabled).map(|setting| setting.origin.clone()),
            caps: general.caps.min(of_skill),
            sandbox_mode: self.skill_sandbox_mode(skill, false).and_then(sandbox_mode),
            project_sandbox_mode: self.skill_sandbox_mode(skill, true).and_then(sandbox_mode),
            denied: general.denied.iter().chain(denied).cloned().collect(),
            grants: first("grants").map(Setting::grants).unwrap_or_default(),
            script: script.map(str::to_owned),
            config: entries("config.ENTRY").map(|(entry, value)| (entry, value.to_json())).collect(),
            secrets: entries("secrets.ENTRY")
                .filter_map(|(entry, value)| {
                    if let ConfigValue::Secret(source) = value { Some((entry, source)) } else { None }
                })
                .collect(),
        }
    }
}

fn sandbox_mode(setting: &Setting) -> Option<SandboxMode> {
    setting.value.as_text()?.parse().ok()
}
