//! The contract of a skill, with what only its `SKILL.md` says.

use metier_core::policy::{Permission, client_tool_permission};

use crate::contract::{Contract, Dependency, Entrypoint, PermissionRequest, required_dependency};
use crate::{Manifest, ManifestFacts};

/// The contract with the name, the version, the script and the permissions of the `SKILL.md` where it has none itself, and with the
/// variables, programs and limits of both; for a skill without a contract, those of the `SKILL.md` alone.
pub fn contract_of_skill(contract: Option<&Contract>, manifest: &Manifest) -> Contract {
    let mut whole = contract.cloned().unwrap_or_default();
    whole.name.get_or_insert_with(|| manifest.name.clone());
    whole.version.get_or_insert_with(|| manifest.version.clone());
    // The description for models counts, where both have one.
    whole.description = Some(manifest.description.clone());
    whole.permissions = whole.permissions.or_else(|| listed_permissions(&manifest.allowed_tools));
    for variable in manifest.requested_variables() {
        if !whole.env.contains(&variable) {
            whole.env.push(variable);
        }
    }
    whole.runtime = whole.runtime.or_else(|| manifest.runtime.clone());
    if let Some(path) = manifest.entrypoint().filter(|_| whole.main_entrypoint().is_none()) {
        whole.entrypoint = Some(Entrypoint { path: path.to_owned(), ..Entrypoint::default() });
    }
    let requirements = manifest.machine_requirements();
    for program in requirements.programs {
        let required = !requirements.is_always_offered;
        if !whole.dependencies.tools.iter().any(|known| known.name == program) {
            whole.dependencies.tools.push(Dependency { required, ..required_dependency(program) });
        }
    }
    whole.limits.operations = lower(whole.limits.operations, manifest.limits.operations);
    whole.limits.memory = lower(whole.limits.memory, manifest.limits.memory);
    whole
}

fn lower(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// The permissions that `allowed-tools` lists, in the words of metier or of other clients; `None` if it lists none.
fn listed_permissions(allowed_tools: &[String]) -> Option<Vec<PermissionRequest>> {
    let permission = |tool: &String| tool.parse().ok().or_else(|| client_tool_permission(tool));
    let listed = allowed_tools.iter().filter_map(permission);
    let listed: Vec<PermissionRequest> = listed
        .map(|permission: Permission| {
            PermissionRequest::from_words(&permission.to_string(), &permission.to_string())
        })
        .collect();
    (!listed.is_empty()).then_some(listed)
}
