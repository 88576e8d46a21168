//! What a skill needs from whoever runs it: permissions, settings, secrets and dependencies.

use metier_core::policy::{Access, ConfigField, ConfigRequirement, PathProtection, Permission};

use super::finding::{Change, FindingList, NamedPair, named_pairs, pointer};
use super::version::{self, RangeChange};
use crate::contract::{
    Contract, Dependencies, Dependency, Infrastructure, PermissionRequest, ProvidedTool, call_definition,
};

const PLACE: &str = "/permissions";

pub(super) fn compare_permissions(old: &Contract, new: &Contract, list: &mut FindingList) {
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
    let calls = contract.all_tools().filter_map(ProvidedTool::http).map(call_definition);
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
    wider == permission || wider.covers(&Access::from(permission), &PathProtection::default())
}

pub(super) fn compare_settings(old: &[ConfigField], new: &[ConfigField], list: &mut FindingList) {
    let is_alternative = |field: &ConfigField| field.requirement == ConfigRequirement::AnyOf;
    let had_alternatives = old.iter().any(is_alternative);
    for NamedPair { name, old, new } in named_pairs(old, new, |field| &field.key) {
        let at = pointer("/config", name);
        let what = |field: &ConfigField| if field.secret { "secret" } else { "setting" };
        match (old, new) {
            (Some(old), Some(new)) => compare_setting((old, new), name, &at, list),
            (None, Some(field)) if is_alternative(field) && had_alternatives => {
                list.add(
                    at,
                    Change::Minor,
                    format!("the {} `{name}` is new, and one of several", what(field)),
                );
            }
            (None, Some(field)) if is_needed(field) => {
                list.add(at, Change::Major, format!("the {} `{name}` is new, and required", what(field)));
            }
            (None, Some(field)) => {
                list.add(at, Change::Minor, format!("the {} `{name}` is new, and optional", what(field)));
            }
            (Some(field), None) => {
                list.add(at, Change::Minor, format!("the {} `{name}` is gone", what(field)));
            }
            (None, None) => {}
        }
    }
}

fn compare_setting((old, new): (&ConfigField, &ConfigField), name: &str, at: &str, list: &mut FindingList) {
    let below = |key: &str| pointer(at, key);
    if old.secret != new.secret {
        let message = if new.secret { "is a secret now" } else { "is no secret any more" };
        list.add(below("secret"), Change::Major, format!("`{name}` {message}, and given in another way"));
    }
    let (was_needed, is_needed) = (is_needed(old), is_needed(new));
    if was_needed != is_needed {
        let (change, message) = if is_needed {
            (Change::Major, format!("`{name}` is required now"))
        } else {
            (Change::Minor, format!("`{name}` is no longer required"))
        };
        list.add(below("required"), change, message);
    } else if old.requirement != new.requirement {
        list.add(below("required"), Change::Patch, format!("`{name}` is required at another time"));
    }
    if old.default != new.default && was_needed == is_needed {
        list.add(below("default"), Change::Minor, format!("the default of `{name}` is different"));
    }
    match (&old.env, &new.env) {
        (old, new) if old == new => {}
        (Some(variable), _) => {
            let message = format!("the variable `{variable}` no longer gives the value of `{name}`");
            list.add(below("env"), Change::Major, message);
        }
        (None, _) => {
            list.add(below("env"), Change::Minor, format!("a variable may give the value of `{name}`"));
        }
    }
    let message = format!("the hosts of `{name}` are different");
    list.add_if_changed(&below("hosts"), (&old.hosts, &new.hosts), Change::Patch, &message);
    let message = format!("the description of `{name}` is different");
    list.add_if_changed(&below("description"), (&old.description, &new.description), Change::Patch, &message);
}

/// Whether somebody must give a value. One that is needed on use is: without it, a run may fail.
fn is_needed(field: &ConfigField) -> bool {
    field.requirement != ConfigRequirement::Optional && field.default.is_none()
}

pub(super) fn compare_dependencies(old: &Dependencies, new: &Dependencies, list: &mut FindingList) {
    compare_programs((&old.tools, &new.tools), "/dependencies/tools", "program", list);
    compare_programs((&old.skills, &new.skills), "/dependencies/skills", "skill", list);
    compare_infrastructure(&old.infrastructure, &new.infrastructure, list);
}

fn compare_programs(
    (old, new): (&[Dependency], &[Dependency]),
    place: &str,
    what: &str,
    list: &mut FindingList,
) {
    for NamedPair { name, old, new } in named_pairs(old, new, |dependency| &dependency.name) {
        let at = pointer(place, name);
        let (Some(old), Some(new)) = (old, new) else {
            let is_required = new.map(|new| new.required);
            add_presence(&at, &format!("the {what} `{name}`"), is_required, list);
            continue;
        };
        add_requirement(&at, name, (old.required, new.required), list);
        let (change, message) = match version::compare_ranges(old.version.as_ref(), new.version.as_ref()) {
            RangeChange::Same => (None, ""),
            RangeChange::Wider => (Some(Change::Minor), "more versions of it are accepted"),
            RangeChange::Narrower if new.required => {
                (Some(Change::Major), "fewer or other versions of it are accepted")
            }
            RangeChange::Narrower => (Some(Change::Minor), "fewer or other versions of it are accepted"),
            RangeChange::Unknown => {
                (Some(Change::Unknown), "cannot tell which of its versions before a release are accepted")
            }
        };
        if let Some(change) = change {
            list.add(pointer(&at, "version"), change, format!("`{name}`: {message}"));
        }
        let message = format!("what is said about `{name}` is different");
        list.add_if_changed(&pointer(&at, "reason"), (&old.reason, &new.reason), Change::Patch, &message);
        let message = format!("`{name}` is asked for its version in another way");
        let arguments = (&old.version_arguments, &new.version_arguments);
        list.add_if_changed(&pointer(&at, "version_command"), arguments, Change::Patch, &message);
    }
}

fn compare_infrastructure(old: &[Infrastructure], new: &[Infrastructure], list: &mut FindingList) {
    for NamedPair { name, old, new } in named_pairs(old, new, |part| &part.name) {
        let at = pointer("/dependencies/infrastructure", name);
        let (Some(old), Some(new)) = (old, new) else {
            add_presence(&at, &format!("`{name}`"), new.map(|new| new.required), list);
            continue;
        };
        add_requirement(&at, name, (old.required, new.required), list);
        let place = |part: &Infrastructure| (part.kind, part.target.clone());
        let change = if new.required { Change::Major } else { Change::Minor };
        let message = format!("`{name}` is needed in another place");
        list.add_if_changed(&pointer(&at, "target"), (&place(old), &place(new)), change, &message);
        let message = format!("what is said about `{name}` is different");
        list.add_if_changed(&pointer(&at, "reason"), (&old.reason, &new.reason), Change::Patch, &message);
    }
}

/// A dependency that is new, with whether it is required, or that is gone.
fn add_presence(at: &str, what: &str, is_required: Option<bool>, list: &mut FindingList) {
    match is_required {
        Some(true) => list.add(at, Change::Major, format!("{what} is required now")),
        Some(false) => list.add(at, Change::Minor, format!("{what} is used where it is there")),
        None => list.add(at, Change::Minor, format!("{what} is no longer needed")),
    }
}

fn add_requirement(at: &str, name: &str, (was_required, is_required): (bool, bool), list: &mut FindingList) {
    match (was_required, is_required) {
        (false, true) => {
            list.add(pointer(at, "required"), Change::Major, format!("`{name}` is required now"));
        }
        (true, false) => {
            list.add(pointer(at, "required"), Change::Minor, format!("`{name}` is no longer required"));
        }
        _ => {}
    }
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
