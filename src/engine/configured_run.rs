//! What the configuration of an engine says about the runs of a skill. An engine without one asks nothing here.

use std::path::PathBuf;

use super::{Engine, EngineInner, Invocation};
use crate::config::SkillSettings;
use crate::engine::script_selection::{ScriptChoice, SelectedScript, select_script_in};
use crate::engine::skill_set::SkillSet;
use crate::engine::tool_selection::select_tool;
use crate::registry::{Scope, Skill};
use metier_core::error::Result;
use metier_core::host::{Files, WithheldValues};
use metier_core::policy::{CancelToken, GrantOrigin, GrantReport, Permission, SandboxMode};
use metier_core::sanitizer::SanitizeProfile;

impl Engine {
    /// What the user's configuration grants to runs of the skill that nobody else calls. In an engine with a
    /// [trust store](super::EngineBuilder::trust) it takes effect if the skill is trusted.
    pub fn configured_grants(&self, skill: &Skill) -> Vec<GrantReport> {
        let grants = self.0.configured_grants(skill).into_iter();
        grants.map(|(permission, origin)| GrantReport::new(permission, origin)).collect()
    }
}

impl EngineInner {
    /// What the configuration says about runs of this skill.
    pub(super) fn skill_settings(&self, skill: &Skill) -> Option<&SkillSettings> {
        Some(self.configuration.as_ref()?.of_skill(skill.name()))
    }

    /// What its contract or the configuration changes in what a model reads of the skill's runs.
    pub(super) fn sanitize_profile(&self, skill: Option<&Skill>) -> Option<SanitizeProfile> {
        let own = skill.and_then(Skill::contract).and_then(|contract| contract.sanitize);
        own.or_else(|| self.configuration.as_ref()?.sanitize())
    }

    /// `unavailable` if the configuration switches the skill off.
    pub(super) fn check_enabled(&self, skill: &Skill) -> Result<()> {
        self.skill_settings(skill).map_or(Ok(()), |settings| settings.check_enabled(skill.name()))
    }

    /// The script that runs: that of a tool, the named one, that of the configuration, or the skill's own choice.
    pub(super) fn selected_script(&self, skill: &Skill, choice: ScriptChoice<'_>) -> Result<SelectedScript> {
        self.selected_script_in((skill, None), choice)
    }

    /// The same of a skill whose folder may be open.
    pub(super) fn selected_script_in(
        &self,
        (skill, opened): (&Skill, Option<&Files>),
        choice: ScriptChoice<'_>,
    ) -> Result<SelectedScript> {
        let named = match choice {
            ScriptChoice::Tool(name) => return select_tool(&self.runtimes, skill, name),
            ScriptChoice::Named(name) => Some(name),
            ScriptChoice::Main => self.skill_settings(skill).and_then(|settings| settings.script.as_deref()),
        };
        select_script_in(&self.runtimes, (skill, opened), named)
    }

    /// How strictly the sandbox of the run is required. A callee has at least the sandbox of its caller.
    pub(super) fn run_sandbox_mode(&self, skill: &Skill, invocation: &Invocation) -> SandboxMode {
        let configured = self.skill_settings(skill).and_then(|settings| settings.sandbox_mode);
        match (invocation.sandbox_mode, configured) {
            (Some(of_caller), Some(own)) if invocation.caller.is_some() => of_caller.stricter(own),
            (Some(mode), _) | (None, Some(mode)) => mode,
            (None, None) => self.sandbox_mode,
        }
    }

    /// Whether remembered grants do not apply to any run.
    pub(super) fn ignores_remembered_grants(&self) -> bool {
        self.configuration.as_ref().is_some_and(|configuration| configuration.ignores_remembered_grants())
    }

    /// Whether skills of the project count as trusted only as its lock file has them.
    pub(super) fn requires_lock(&self) -> bool {
        self.configuration.as_ref().is_some_and(|configuration| configuration.requires_lock())
    }

    /// Whether the user's configuration grants something to the skill.
    pub(super) fn has_configured_grants(&self, skill: &Skill) -> bool {
        self.skill_settings(skill).is_some_and(|settings| !settings.grants.is_empty())
    }

    /// In an engine without a trust store a skill of a project has none, whatever its name.
    pub(super) fn configured_grants(&self, skill: &Skill) -> Vec<(Permission, GrantOrigin)> {
        let is_foreign = self.trust.is_none() && skill.scope() == Scope::Project;
        let settings = self.skill_settings(skill).filter(|_| !is_foreign);
        let origin = |file: &PathBuf| GrantOrigin::Configuration { file: file.clone() };
        let grants = settings.into_iter().flat_map(|settings| &settings.grants);
        grants.map(|(permission, file)| (permission.clone(), origin(file))).collect()
    }

    /// What the configuration sets for the skill, and whether it is withheld because the skill is not trusted, whatever its name: the user set it for
    /// a skill that he knows. `is_trusted` is what is known of the skill of a run that nobody called.
    pub(super) fn withheld_values(
        &self,
        (set, skill): (&SkillSet, &Skill),
        is_trusted: Option<bool>,
        token: &CancelToken,
    ) -> Option<WithheldValues> {
        let settings = self.skill_settings(skill).filter(|settings| settings.has_values())?;
        let is_trusted = is_trusted.unwrap_or_else(|| self.is_trusted_for_values(set, skill, token));
        Some(WithheldValues { is_withheld: !is_trusted, names: settings.value_names() })
    }
}
