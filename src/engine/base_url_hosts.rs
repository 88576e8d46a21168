//! The hosts of declared HTTP calls whose address is a setting: the host that a skill requests follows the setting, and the grant stays the
//! person's.

use std::time::{Duration, Instant};

use super::EngineInner;
use crate::engine::skill_set::SkillSet;
use crate::registry::Skill;
use metier_core::error::Result;
use metier_core::host::{Extensions, Providers, SkillContext};
use metier_core::policy::{
    CancelToken, ConfigField, PathProtection, Permission, Permissions, RequestedPermissions,
};
use metier_core::template::Reference;
use metier_skill::contract::{BaseUrl, CONFIG, Contract, ProvidedTool, named_value};

/// The time in which providers say what settings there are.
const SETTINGS_TIMEOUT: Duration = Duration::from_secs(5);

/// The hosts that calls of this tool reach, or of all tools of the skill, as far as settings decide about them; those of a run.
pub(super) fn base_url_hosts_of_run(
    (skill, tool): (&Skill, Option<&ProvidedTool>),
    (providers, extensions): (&Providers, &Extensions),
    token: &CancelToken,
) -> Result<Vec<Permission>> {
    let addresses = settable_addresses(skill, tool);
    if addresses.is_empty() {
        return Ok(Vec::new());
    }
    let ctx = settings_reader(skill, providers.clone(), extensions.clone(), token.clone(), true);
    hosts(skill, &addresses, &ctx)
}

impl EngineInner {
    /// The same outside of a run; what cannot be known there is left out. No variable is read: a skill could declare any, and everybody
    /// who reads what it requests would read the value.
    pub(super) fn base_url_hosts(&self, skill: &Skill, tool: Option<&ProvidedTool>) -> Vec<Permission> {
        let addresses = settable_addresses(skill, tool);
        if addresses.is_empty() {
            return Vec::new();
        }
        let cancel = CancelToken::new();
        let _armed = self.watchdog.arm(Instant::now() + SETTINGS_TIMEOUT, &cancel);
        let mut extensions = Extensions::default();
        let set: &SkillSet = &self.skills.set();
        self.withhold_values_of_untrusted(set, skill, &mut extensions, &cancel);
        let ctx = settings_reader(skill, self.providers.clone(), extensions, cancel, false);
        hosts(skill, &addresses, &ctx).unwrap_or_default()
    }
}

/// The addresses that are made of settings.
fn settable_addresses<'s>(skill: &'s Skill, tool: Option<&'s ProvidedTool>) -> Vec<&'s BaseUrl> {
    let all = skill.contract().into_iter().flat_map(Contract::all_tools);
    let calls = all.filter(|known| tool.is_none_or(|tool| tool.name == known.name));
    let addresses = calls.filter_map(|tool| Some(&tool.http()?.base_url));
    addresses.filter(|address| address.written_host().is_none()).collect()
}

/// A context that reads the settings of the skill, in a run with the variables that it declares for them, and no secret.
fn settings_reader(
    skill: &Skill,
    providers: Providers,
    extensions: Extensions,
    cancel: CancelToken,
    is_run: bool,
) -> SkillContext {
    let fields = skill.contract().map(|contract| contract.config.clone());
    let plain = fields.iter().flat_map(|fields| fields.iter()).filter(|field| !field.secret);
    let variables: Vec<Permission> = plain.flat_map(ConfigField::requested_permissions).collect();
    let permissions = Permissions::new(
        RequestedPermissions::Listed(variables.clone()),
        variables.into_iter().filter(|permission| is_run && permission.has_name("env")),
        PathProtection::default(),
    );
    SkillContext::builder(skill.name())
        .qualified_name(skill.qualified_name())
        .providers(providers)
        .extensions(extensions)
        .config_fields(fields)
        .permissions(permissions)
        .cancel(cancel)
        .build()
}

/// The permissions to reach these addresses: all hosts for one that is known only to who reads a secret.
fn hosts(skill: &Skill, addresses: &[&BaseUrl], ctx: &SkillContext) -> Result<Vec<Permission>> {
    let settings = serde_json::json!({CONFIG: ctx.settings()?});
    let lookup = |reference: &Reference| reference.resolve_in(settings.get(named_value(reference)?.0)?);
    let is_secret = |address: &BaseUrl| {
        let is_unread = |(_, key): (&str, &str)| {
            let fields = skill.contract().map_or(&[][..], |contract| &contract.config);
            let field = fields.iter().find(|field| field.key == key);
            field.is_some_and(ConfigField::is_secret_setting) && settings[CONFIG].get(key).is_none()
        };
        address.has_secret() || address.references().filter_map(named_value).any(is_unread)
    };
    let mut permissions = Vec::new();
    for address in addresses {
        let permission = if is_secret(address) {
            Some(Permission::NET)
        } else {
            address.resolve(lookup).ok().and_then(|url| url.host_permission())
        };
        permissions.extend(permission.filter(|found| !permissions.contains(found)));
    }
    Ok(permissions)
}
