//! The settings and secrets of skills from the configuration, behind those of the program.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::skill_settings::{ResolvedConfiguration, SkillSettings};
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::host::{
    ConfigProvider, Providers, RunContext, SecretOrigin, SecretProvider, SkillContext,
    config_from_environment, secret_from_environment,
};

/// The providers, with the settings and the secrets of the configuration where they have none of a name.
pub(crate) fn with_configuration(
    mut providers: Providers,
    resolved: &Arc<ResolvedConfiguration>,
) -> Providers {
    if resolved.has_config() {
        let nearer = providers.config.take();
        providers.config = Some(Arc::new(ConfiguredValues { resolved: resolved.clone(), nearer }));
    }
    if resolved.has_secrets() {
        let nearer = providers.secrets.take();
        providers.secrets = Some(Arc::new(ConfiguredSecrets { resolved: resolved.clone(), nearer }));
    }
    providers
}

struct ConfiguredValues {
    resolved: Arc<ResolvedConfiguration>,
    nearer: Option<Arc<dyn ConfigProvider>>,
}

struct ConfiguredSecrets {
    resolved: Arc<ResolvedConfiguration>,
    nearer: Option<Arc<dyn SecretProvider>>,
}

impl ConfigProvider for ConfiguredValues {
    fn config(&self, ctx: &SkillContext) -> Result<Map<String, Value>> {
        let mut values = settings(&self.resolved, ctx).map(|own| own.config.clone()).unwrap_or_default();
        values.extend(config_from_environment(ctx));
        if let Some(nearer) = &self.nearer {
            values.extend(nearer.config(ctx)?);
        }
        Ok(values)
    }
}

impl SecretProvider for ConfiguredSecrets {
    fn secret(&self, ctx: &SkillContext, name: &str) -> Result<Option<String>> {
        let nearer = self.nearer.as_ref().map_or(Ok(None), |nearer| nearer.secret(ctx, name))?;
        let nearer = nearer.or_else(|| secret_from_environment(ctx, name));
        let configured = settings(&self.resolved, ctx).and_then(|own| own.secrets.get(name));
        let Some(secret) = configured.filter(|_| nearer.is_none()) else {
            return Ok(nearer);
        };
        secret.source.read(ctx).map_err(|reason| {
            let sentence = format!("failed to get the secret {name} of skill {}: {reason}", ctx.skill());
            SkillError::new(ErrorKind::Unavailable, sentence)
                .with_help(format!("set the secret {name}"))
                .with_hint(Hint::Secret(name.to_owned()))
        })
    }

    fn hosts(&self, ctx: &SkillContext, name: &str) -> Option<Vec<String>> {
        // Whoever names hosts means the secret, wherever it is read, and also for a skill that is not trusted.
        let configured = || Some(self.resolved.of_skill(ctx.skill()).secrets.get(name)?.hosts.clone());
        let nearer = self.nearer.as_ref().and_then(|nearer| nearer.hosts(ctx, name));
        nearer.or_else(|| configured().filter(|hosts| !hosts.is_empty()))
    }

    fn origin(&self, ctx: &SkillContext, name: &str) -> SecretOrigin {
        let nearer = self.nearer.as_ref().filter(|nearer| nearer.has(ctx, name) != Some(false));
        let configured = settings(&self.resolved, ctx).and_then(|own| own.secrets.get(name));
        match (nearer, configured) {
            (Some(nearer), _) => nearer.origin(ctx, name),
            (None, _) if secret_from_environment(ctx, name).is_some() => SecretOrigin::DeclaredVariable,
            (None, Some(secret)) => SecretOrigin::Configuration(secret.source.place()),
            (None, None) => SecretOrigin::Provider,
        }
    }

    fn has(&self, ctx: &SkillContext, name: &str) -> Option<bool> {
        let nearer = self.nearer.as_ref().map_or(Some(false), |nearer| nearer.has(ctx, name));
        let configured = settings(&self.resolved, ctx).and_then(|own| own.secrets.get(name));
        match (nearer, configured.map(|secret| secret.source.exists())) {
            (Some(true), _) | (_, Some(Some(true))) => Some(true),
            (Some(false), Some(None)) => None,
            (nearer, _) => nearer,
        }
    }
}

/// What the configuration says about the skill; `None` if its values are not for it.
fn settings<'r>(resolved: &'r ResolvedConfiguration, ctx: &SkillContext) -> Option<&'r SkillSettings> {
    let is_withheld = ctx.facts().withheld_values.as_ref().is_some_and(|values| values.is_withheld);
    (!is_withheld).then(|| resolved.of_skill(ctx.skill()))
}
