//! The permissions that a skill requests: those of its contract, or else its `allowed-tools` parsed as permissions.

use crate::registry::Skill;
use metier_core::executor::RuntimeId;
use metier_core::policy::{
    ConfigField, Permission, RequestedPermissions, client_tool_permission, split_tool_name,
};
use metier_skill::ManifestFacts;
use metier_skill::contract::{CallDefinition, PermissionRequest, ProvidedTool, call_definition};

/// The permissions that a script of this runtime requests in that skill.
pub(super) fn declared_permissions(skill: &Skill, runtime: RuntimeId) -> RequestedPermissions {
    let tools = &skill.manifest().allowed_tools;
    let declared = match skill.contract().and_then(|contract| contract.permissions.as_deref()) {
        Some(permissions) => permissions_from_contract(permissions),
        None => permissions_from_allowed_tools(tools, runtime),
    };
    let variables = skill.manifest().requested_variables();
    with_permissions(declared, declared_values(skill).into_iter().chain(variables))
}

/// The variables and secrets that the contract asks for under `env`, `config` and `secrets`, and the host of its declared HTTP calls, beside other
/// permissions and where it leaves those to `allowed-tools`.
pub(super) fn declared_values(skill: &Skill) -> Vec<Permission> {
    let Some(contract) = skill.contract() else { return Vec::new() };
    let mut declared = contract.env.clone();
    let calls = contract.all_tools().filter_map(ProvidedTool::http).map(call_definition);
    let hosts = calls.filter_map(CallDefinition::literal_host_permission);
    for permission in hosts.chain(contract.config.iter().flat_map(ConfigField::requested_permissions)) {
        if !declared.contains(&permission) {
            declared.push(permission);
        }
    }
    declared
}

/// The requested permissions, with these added.
pub(super) fn with_permissions(
    requested: RequestedPermissions,
    more: impl IntoIterator<Item = Permission>,
) -> RequestedPermissions {
    match requested {
        RequestedPermissions::Listed(mut listed) => {
            for permission in more {
                if !listed.contains(&permission) {
                    listed.push(permission);
                }
            }
            RequestedPermissions::Listed(listed)
        }
        RequestedPermissions::All => RequestedPermissions::All,
    }
}

/// The permissions of a contract that lists them: those that metier knows, and no more. Where `allowed-tools` lists permissions
/// of metier too, the two agree; names of other clients there have no effect. An empty list requests nothing, for an external
/// script too.
fn permissions_from_contract(permissions: &[PermissionRequest]) -> RequestedPermissions {
    let mut asked: Vec<Permission> = Vec::new();
    for permission in permissions.iter().filter_map(|ask| ask.permission.as_ref()) {
        if !asked.contains(permission) {
            asked.push(permission.clone());
        }
    }
    RequestedPermissions::Listed(asked)
}

/// The permissions that a script of this runtime requests through its skill's `allowed-tools`.
///
/// Permissions of metier are taken as they are; names of other clients where they clearly mean one (`Bash` is `exec`); the rest
/// requests nothing. An external script in a skill that lists no permission of metier requests everything: it was written for a
/// shell without permission checks, and the caller's grants decide.
pub(super) fn permissions_from_allowed_tools(
    allowed_tools: &[String],
    runtime: RuntimeId,
) -> RequestedPermissions {
    let own: Vec<Permission> = allowed_tools.iter().filter_map(|tool| tool.parse().ok()).collect();
    if own.is_empty() && runtime == RuntimeId::EXTERNAL {
        return RequestedPermissions::All;
    }
    let foreign = allowed_tools.iter().filter_map(|tool| client_tool_permission(tool));
    RequestedPermissions::Listed(own.into_iter().chain(foreign).collect())
}

/// The permissions to which a tool narrows those of its skill; `None` if it has all of them. A host that a setting decides about comes
/// besides.
pub(super) fn narrowed_permissions(skill: &Skill, tool: &ProvidedTool) -> Option<Vec<Permission>> {
    if let Some(call) = tool.http().map(call_definition) {
        let config = skill.contract().map(|contract| &*contract.config).unwrap_or_default();
        let host = call.literal_host_permission();
        return Some(host.into_iter().chain(call.value_permissions(config)).collect());
    }
    let listed = tool.permissions.as_deref()?;
    Some(listed.iter().filter_map(|ask| ask.permission.clone()).collect())
}

/// Whether a script with these may ask for the values that its skill keeps, or that skills share.
pub(super) fn requests_store(requested: &RequestedPermissions) -> bool {
    match requested {
        RequestedPermissions::All => true,
        RequestedPermissions::Listed(listed) => {
            listed.iter().any(|permission| permission.name() == "state" || permission.name() == "store")
        }
    }
}

/// The names of the skills that these permissions allow to call, themselves or one of their tools.
pub(super) fn callable_skill_names(permissions: &[Permission]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for permission in permissions {
        let name = match (permission.name(), permission.scope()) {
            ("skill", Some(name)) => name,
            ("tool", Some(name)) => match split_tool_name(name) {
                Some((skill, _)) => skill,
                None => continue,
            },
            _ => continue,
        };
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(tools: &[&str], runtime: RuntimeId) -> RequestedPermissions {
        permissions_from_allowed_tools(
            &tools.iter().map(|&tool| tool.to_owned()).collect::<Vec<_>>(),
            runtime,
        )
    }

    #[test]
    fn other_clients_names_map_where_they_plainly_match() {
        let expected = ["write:out", "read", "exec"].map(|text| text.parse().unwrap());
        assert_eq!(
            asked(&["write:out", "Read", "Bash(git:*)", "mcp__x__y", "rewrite"], RuntimeId::LUA),
            RequestedPermissions::Listed(expected.to_vec())
        );
    }

    #[test]
    fn only_an_external_script_without_our_words_asks_for_everything() {
        assert_eq!(asked(&["Read", "Bash"], RuntimeId::EXTERNAL), RequestedPermissions::All);
        assert_eq!(asked(&[], RuntimeId::LUA), RequestedPermissions::Listed(vec![]));
        assert_eq!(
            asked(&["exec"], RuntimeId::EXTERNAL),
            RequestedPermissions::Listed(vec![Permission::EXEC])
        );
    }
}
