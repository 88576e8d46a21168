//! The requested permissions: whoever granted the old ones decides anew about each that these do not cover.

use metier_core::policy::{ConfigField, PathProtection, Permission};

use super::finding::{Change, FindingList, pointer};
use crate::contract::{Contract, PermissionRequest, ProvidedTool};

const PLACE: &str = "/permissions";

pub(super) fn compare(old: &Contract, new: &Contract, list: &mut FindingList) {
    let (old_requested, new_requested) = (requested_permissions(old), requested_permissions(new));
    for permission in new_requested.iter().filter(|permission| !is_covered(permission, &old_requested)) {
        let narrower = old_requested.iter().find(|old| covers(permission, old));
        let message = match narrower {
            Some(narrower) => format!("`{permission}` is requested; it was `{narrower}`"),
            None => format!("`{permission}` is requested"),
        };
        list.add(pointer(PLACE, &permission.to_string()), Change::Major, message);
    }
    for permission in old_requested.iter().filter(|permission| !is_covered(permission, &new_requested)) {
        let message = format!("`{permission}` is no longer requested");
        list.add(pointer(PLACE, &permission.to_string()), Change::Minor, message);
    }
    if old.permissions.as_ref().is_some_and(|listed| !listed.is_empty()) && new.permissions.is_none() {
        let message = "cannot tell: no permissions are listed any more, and then every grant applies to an external script";
        list.add(PLACE, Change::Unknown, message);
    }
    let foreign = |contract: &Contract| {
        let listed = contract.permissions.iter().flatten().filter(|request| request.permission.is_none());
        listed.map(|request| request.text.clone()).collect::<Vec<_>>()
    };
    let message = "words that request no permission of metier are different";
    list.add_if_changed(PLACE, (&foreign(old), &foreign(new)), Change::Patch, message);
    let conditions = |contract: &Contract| {
        let listed = contract.permissions.iter().flatten();
        listed.map(|request| (request.text.clone(), request.when.clone())).collect::<Vec<_>>()
    };
    if foreign(old) == foreign(new) && old_requested == new_requested {
        let message = "the order or the conditions of the permissions are different";
        list.add_if_changed(PLACE, (&conditions(old), &conditions(new)), Change::Patch, message);
    }
}

/// What a tool may do of what its skill may: `None` for all of it.
pub(super) fn permissions_of_tool(tool: &ProvidedTool) -> Option<Vec<&Permission>> {
    let listed = tool.permissions.as_ref()?;
    Some(listed.iter().filter_map(|request: &PermissionRequest| request.permission.as_ref()).collect())
}

/// All that the contract requests, each once and in one order: what it lists, the variables, secrets and settings, and the hosts of its
/// HTTP calls, with the defaults of the settings in their addresses.
fn requested_permissions(contract: &Contract) -> Vec<Permission> {
    let listed = contract.permissions.iter().flatten().filter_map(|request| request.permission.clone());
    let values = contract.config.iter().flat_map(ConfigField::requested_permissions);
    let calls = contract.all_tools().filter_map(ProvidedTool::http);
    let hosts = calls.filter_map(|call| call.default_host_permission(&contract.config));
    let mut all: Vec<Permission> =
        listed.chain(contract.env.iter().cloned()).chain(values).chain(hosts).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Whether one of these permissions covers that one. Every run may read the project.
fn is_covered(permission: &Permission, others: &[Permission]) -> bool {
    covers(&Permission::READ, permission) || others.iter().any(|other| covers(other, permission))
}

fn covers(wider: &Permission, permission: &Permission) -> bool {
    wider == permission || wider.covers(&permission.as_access(), &PathProtection::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_covered_by(permission: &str, others: &[&str]) -> bool {
        let parsed = |text: &&str| text.parse::<Permission>().unwrap();
        is_covered(&parsed(&permission), &others.iter().map(parsed).collect::<Vec<_>>())
    }

    #[test]
    fn a_permission_is_covered_by_a_wider_one() {
        for (permission, others) in [
            ("read", &[][..]),
            ("read:src", &[]),
            ("write:out/a", &["write:out"]),
            ("write:out", &["write"]),
            ("net:example.com", &["net"]),
            ("net:a.example.com", &["net:*.example.com"]),
            ("home:.x", &["home-write:.x"]),
            ("secret:K@example.com", &["secret:K@example.com"]),
        ] {
            assert!(is_covered_by(permission, others), "{permission} {others:?}");
        }
        for (permission, others) in [
            ("read:.env", &["read"][..]),
            ("write", &["write:out"]),
            ("write:.git", &["write"]),
            ("net", &["net:example.com", "net:*.example.com"]),
            ("home-write:.x", &["home:.x"]),
            ("exec:unsandboxed", &["exec"]),
            ("skill:b", &["skill:a"]),
            ("state", &[]),
        ] {
            assert!(!is_covered_by(permission, others), "{permission} {others:?}");
        }
    }
}
