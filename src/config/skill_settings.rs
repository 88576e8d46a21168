//! What the configuration says about the runs of one skill.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::configuration::{Configuration, Setting};
use super::key_path::KeyPath;
use super::limit_caps::LimitCaps;
use super::origin::ValueOrigin;
use super::secret_source::ConfiguredSecret;
use super::value::ConfigValue;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::policy::{Permission, SandboxMode};
use metier_core::sanitizer::SanitizeProfile;

/// What the configuration says about the runs of one skill.
#[derive(Clone, Debug, Default)]
pub(crate) struct SkillSettings {
    /// Who switched it off.
    disabled_by: Option<ValueOrigin>,
    pub(crate) caps: LimitCaps,
    /// The sandbox of the skill, if anything is said about it in particular.
    pub(crate) sandbox_mode: Option<SandboxMode>,
    pub(crate) denied: Arc<[Permission]>,
    /// What the user's configuration grants to the skill, and the file that does. They count for trusted skills only.
    pub(crate) grants: Vec<(Permission, PathBuf)>,
    pub(crate) script: Option<String>,
    pub(crate) config: Map<String, Value>,
    pub(crate) secrets: HashMap<String, ConfiguredSecret>,
}

impl SkillSettings {
    /// `unavailable` if the skill is switched off.
    pub(crate) fn check_enabled(&self, skill: &str) -> Result<()> {
        let Some(origin) = &self.disabled_by else { return Ok(()) };
        Err(SkillError::new(ErrorKind::Unavailable, format!("the skill {skill} is switched off by {origin}"))
            .with_help("switch it on there"))
    }
}

/// The settings of every skill: of those that the configuration names, and of all others.
#[derive(Debug, Default)]
pub(crate) struct ResolvedConfiguration {
    named: HashMap<String, SkillSettings>,
    other: SkillSettings,
    ignores_remembered_grants: bool,
    requires_lock: bool,
    is_undoable: bool,
    sanitize: Option<SanitizeProfile>,
}

impl ResolvedConfiguration {
    pub(crate) fn new(configuration: &Configuration) -> Self {
        let general = configuration.general_settings();
        let mut named: HashMap<String, SkillSettings> = HashMap::new();
        for skill in configuration.skills() {
            named.insert(skill.to_owned(), configuration.skill_settings(skill, &general));
        }
        for (path, values) in configuration.iter() {
            let Some(settings) = path.skill().and_then(|skill| named.get_mut(skill)) else { continue };
            if let (Some(entry), Some(Setting { value, .. })) = (path.entry(), values.first()) {
                settings.add_entry(entry, value);
            }
        }
        Self {
            named,
            other: general,
            ignores_remembered_grants: !configuration.uses_remembered_grants(),
            requires_lock: configuration.locked(),
            is_undoable: configuration.is_undoable(),
            sanitize: configuration.word("sanitize"),
        }
    }

    /// The settings of a skill with this name.
    pub(crate) fn of_skill(&self, name: &str) -> &SkillSettings {
        self.named.get(name).unwrap_or(&self.other)
    }

    /// Whether remembered grants do not apply.
    pub(crate) fn ignores_remembered_grants(&self) -> bool {
        self.ignores_remembered_grants
    }

    /// Whether skills of the project count as trusted only as its lock file has them.
    pub(crate) fn requires_lock(&self) -> bool {
        self.requires_lock
    }

    /// Whether runs of skills that write can be undone.
    pub(crate) fn is_undoable(&self) -> bool {
        self.is_undoable
    }

    /// What is changed in all that a model reads.
    pub(crate) fn sanitize(&self) -> Option<SanitizeProfile> {
        self.sanitize
    }

    /// Whether any skill has values for `ctx.config`.
    pub(crate) fn has_config(&self) -> bool {
        self.named.values().any(|settings| !settings.config.is_empty())
    }

    /// Whether any skill has a secret.
    pub(crate) fn has_secrets(&self) -> bool {
        self.named.values().any(|settings| !settings.secrets.is_empty())
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
    /// The value that counts for the sandbox of a skill: that for the skill where its source is not weaker than that of the value for
    /// all skills, and otherwise the stricter one. What a project says only makes it stricter.
    pub(super) fn skill_sandbox_mode(&self, skill: &str) -> Option<&Setting> {
        let own = self.values(KeyPath::of_skill(skill, "sandbox.mode").as_ref());
        let general = self.get("sandbox.mode");
        own.iter().rev().fold(general, |counting, own| {
            let is_stronger = !own.origin.is_project()
                && general.is_none_or(|general| own.origin.rank() >= general.origin.rank());
            let mode = |setting: Option<&Setting>| setting.and_then(sandbox_mode).unwrap_or_default();
            let is_stricter = mode(Some(own)).stricter(mode(counting)) == mode(Some(own));
            if is_stronger || is_stricter { Some(own) } else { counting }
        })
    }

    /// What is said about all skills.
    fn general_settings(&self) -> SkillSettings {
        SkillSettings {
            caps: self.project_caps(),
            denied: self.denied_permissions().into(),
            ..SkillSettings::default()
        }
    }

    fn skill_settings(&self, skill: &str, general: &SkillSettings) -> SkillSettings {
        let all = |name: &str| self.values(KeyPath::of_skill(skill, name).as_ref());
        let first = |name: &str| all(name).first();
        let is_disabled = |setting: &&Setting| setting.value.as_flag() == Some(false);
        let of_skill = LimitCaps::from_values(|name| Some(&first(&format!("limits.{name}"))?.value));
        let denied: Vec<Permission> =
            all("deny").iter().flat_map(|setting| setting.value.as_permissions()).cloned().collect();
        let denied = if denied.is_empty() {
            general.denied.clone()
        } else {
            general.denied.iter().cloned().chain(denied).collect()
        };
        let has_own_mode = first("sandbox.mode").is_some();
        let mode = self.skill_sandbox_mode(skill).filter(|_| has_own_mode).and_then(sandbox_mode);
        SkillSettings {
            disabled_by: all("enabled").iter().find(is_disabled).map(|setting| setting.origin.clone()),
            caps: general.caps.min(of_skill),
            sandbox_mode: mode,
            denied,
            grants: first("grants").map(Setting::grants).unwrap_or_default(),
            script: first("script").and_then(|setting| setting.value.as_text()).map(str::to_owned),
            ..SkillSettings::default()
        }
    }
}

impl SkillSettings {
    /// Adds a value or a secret.
    fn add_entry(&mut self, entry: &str, value: &ConfigValue) {
        match value {
            ConfigValue::Json(value) => {
                self.config.insert(entry.to_owned(), value.clone());
            }
            ConfigValue::Secret(secret) => {
                self.secrets.insert(entry.to_owned(), secret.clone());
            }
            _ => {}
        }
    }

    /// The names of the values and secrets that it gives the skill.
    pub(crate) fn value_names(&self) -> Vec<String> {
        self.config.keys().chain(self.secrets.keys()).cloned().collect()
    }

    /// Whether it gives the skill values or secrets.
    pub(crate) fn has_values(&self) -> bool {
        !self.config.is_empty() || !self.secrets.is_empty()
    }
}

fn sandbox_mode(setting: &Setting) -> Option<SandboxMode> {
    setting.value.as_text()?.parse().ok()
}
