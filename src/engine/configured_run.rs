//! What the configuration of an engine says about the runs of a skill. An engine without one asks nothing here.

use std::path::PathBuf;

use super::{Engine, EngineInner, Invocation};
use crate::config::SkillSettings;
use crate::engine::contract_validation::narrow_limits;
use crate::engine::invocation::StoredGrants;
use crate::engine::limit_support::effective_limits;
use crate::engine::run_target::RunTarget;
use crate::engine::script_selection::{ScriptChoice, SelectedScript, select_script_in};
use crate::engine::skill_set::SkillSet;
use crate::engine::tool_selection::select_tool;
use crate::engine::trust::RunTrust;
use crate::registry::{Scope, Skill};
use metier_core::error::Result;
use metier_core::host::{Extensions, Files, WithheldValues};
use metier_core::policy::{
    CancelToken, GrantOrigin, GrantReport, Limits, Permission, RuntimeLimit, SandboxMode,
};
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

    /// The limits of the invocation or the engine, narrowed by the contract and the configuration.
    pub(super) fn run_limits(&self, skill: &Skill, invocation: &Invocation) -> Limits {
        let given = invocation.limits.as_ref().unwrap_or(&self.limits).clone();
        let narrowed = narrow_limits(RunTarget::new(skill, invocation), given);
        match self.skill_settings(skill) {
            Some(settings) => settings.caps.narrow(narrowed),
            None => narrowed,
        }
    }

    /// The limits that apply to a run of this script with the given limits, and those that are not applied.
    pub(super) fn effective_limits(
        &self,
        skill: &Skill,
        selected: &SelectedScript,
        given: Limits,
    ) -> Result<(Limits, Vec<RuntimeLimit>)> {
        let caps = self.skill_settings(skill).map(|settings| &settings.caps);
        effective_limits(&self.runtimes, skill, selected, given, caps)
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

    /// Adds the grants of the user's configuration to those of the invocation. Trust removes them again where the skill is not
    /// trusted.
    pub(super) fn add_configured_grants(&self, skill: &Skill, invocation: &mut Invocation) {
        if invocation.caller.is_none() && invocation.trust.stored_grants != StoredGrants::None {
            invocation.grants.extend(self.configured_grants(skill));
        }
    }

    /// In an engine without a trust store a skill of a project has none, whatever its name.
    fn configured_grants(&self, skill: &Skill) -> Vec<(Permission, GrantOrigin)> {
        let is_foreign = self.trust.is_none() && skill.scope() == Scope::Project;
        let settings = self.skill_settings(skill).filter(|_| !is_foreign);
        let origin = |file: &PathBuf| GrantOrigin::Configuration { file: file.clone() };
        let grants = settings.into_iter().flat_map(|settings| &settings.grants);
        grants.map(|(permission, file)| (permission.clone(), origin(file))).collect()
    }

    /// Withholds the values and secrets of the configuration from a skill that is not trusted, whatever its name: the user set them
    /// for a skill that he knows.
    pub(super) fn withhold_configured_values(
        &self,
        found: (&SkillSet, &Skill),
        trust: Option<&RunTrust>,
        invocation: &mut Invocation,
        token: &CancelToken,
    ) {
        if let Some(settings) = self.skill_settings(found.1).filter(|settings| settings.has_values()) {
            let is_withheld = !self.is_trusted_with_values(found, trust, invocation, token);
            invocation.extensions.insert(WithheldValues { is_withheld, names: settings.value_names() });
        }
    }

    /// Whether a skill is trusted with what the user set for it: every skill is in engines without a trust store.
    fn is_trusted_with_values(
        &self,
        (set, skill): (&SkillSet, &Skill),
        trust: Option<&RunTrust>,
        invocation: &Invocation,
        token: &CancelToken,
    ) -> bool {
        if self.trust.is_some() && invocation.caller.is_none() {
            return trust.is_some_and(|trust| trust.is_trusted);
        }
        self.is_trusted_for_values(set, skill, token)
    }

    /// Withholds them where nothing runs.
    pub(super) fn withhold_values_of_untrusted(
        &self,
        set: &SkillSet,
        skill: &Skill,
        extensions: &mut Extensions,
        token: &CancelToken,
    ) {
        if let Some(settings) = self.skill_settings(skill).filter(|settings| settings.has_values()) {
            let is_withheld = !self.is_trusted_for_values(set, skill, token);
            extensions.insert(WithheldValues { is_withheld, names: settings.value_names() });
        }
    }
}
