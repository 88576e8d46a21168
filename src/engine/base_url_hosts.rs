//! The hosts of declared HTTP calls whose address is a setting: the host that a skill requests follows the setting, and the grant stays the
//! person's.

use super::EngineInner;
use crate::engine::availability::settings_context;
use crate::engine::run_terms::RunTerms;
use crate::registry::Skill;
use metier_core::error::Result;
use metier_core::host::{Providers, SkillContext, skill_settings};
use metier_core::policy::{
    Access, ConfigField, PathProtection, Permission, Permissions, RequestedPermissions, is_secret_setting,
};
use metier_core::template::Reference;
use metier_skill::contract::{BaseUrl, CONFIG, Contract, ProvidedTool, call_definition, named_value};

/// The hosts that calls of the run's tool reach, or of all tools of the skill, as far as settings decide about them. Of variables, those
/// count that the run may read, or about which somebody can be asked.
pub(super) fn base_url_hosts_of_run(terms: &RunTerms<'_>, providers: &Providers) -> Result<Vec<Permission>> {
    let skill = &terms.skill;
    let tool = terms.target().tool.filter(|tool| tool.http().is_some());
    let addresses = settable_addresses(skill, tool);
    if addresses.is_empty() {
        return Ok(Vec::new());
    }
    let is_granted = |variable: &Permission| {
        let access = Access::from(variable);
        terms.granted().any(|granted| granted.covers(&access, &PathProtection::default()))
            || terms.caller.as_ref().is_some_and(|caller| caller.permissions().allows(&access))
            || providers.approver.is_some()
    };
    let fields = skill.contract().map_or(&[][..], |contract| &contract.config);
    let plain = fields.iter().filter(|field| !field.secret).flat_map(ConfigField::requested_permissions);
    let variables: Vec<Permission> = plain.filter(|it| it.name() == "env" && is_granted(it)).collect();
    let requested = RequestedPermissions::Listed(variables.clone());
    let permissions = Permissions::new(requested, variables, PathProtection::default());
    let ctx = settings_context(skill, (providers, &terms.extensions, &terms.facts), terms.cancel.clone());
    hosts(skill, &addresses, &ctx.permissions(permissions).build())
}

impl EngineInner {
    /// The same outside of a run; what cannot be known there is left out. No variable is read: a skill could declare any, and everybody
    /// who reads what it requests would read the value.
    pub(super) fn base_url_hosts(&self, skill: &Skill, tool: Option<&ProvidedTool>) -> Vec<Permission> {
        let addresses = settable_addresses(skill, tool);
        if addresses.is_empty() {
            return Vec::new();
        }
        let found = self.with_settings(&self.skills.set(), skill, |ctx| hosts(skill, &addresses, ctx));
        found.unwrap_or_default()
    }
}

/// The addresses that are made of settings.
fn settable_addresses<'s>(skill: &'s Skill, tool: Option<&'s ProvidedTool>) -> Vec<&'s BaseUrl> {
    let all = skill.contract().into_iter().flat_map(Contract::all_tools);
    let calls = all.filter(|known| tool.is_none_or(|tool| tool.name == known.name));
    let addresses = calls.filter_map(|tool| Some(&call_definition(tool.http()?).base_url));
    addresses.filter(|address| address.written_host().is_none()).collect()
}

/// The permissions to reach these addresses: all hosts for one that is known only to who reads a secret.
fn hosts(skill: &Skill, addresses: &[&BaseUrl], ctx: &SkillContext) -> Result<Vec<Permission>> {
    let settings = serde_json::json!({CONFIG: skill_settings(ctx)?});
    let lookup = |reference: &Reference| reference.resolve_in(settings.get(named_value(reference)?.0)?);
    let is_secret = |address: &BaseUrl| {
        let is_unread = |(_, key): (&str, &str)| {
            let fields = skill.contract().map_or(&[][..], |contract| &contract.config);
            let field = fields.iter().find(|field| field.key == key);
            field.is_some_and(|field| !field.secret && is_secret_setting(&field.key))
                && settings[CONFIG].get(key).is_none()
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
