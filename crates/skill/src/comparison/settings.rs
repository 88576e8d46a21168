//! The settings and secrets of a skill: what it needs from whoever runs it.

use metier_core::policy::{ConfigField, ConfigRequirement};

use super::finding::{Change, FindingList, pointer};
use super::named_pairs::{NamedPair, named_pairs};

pub(super) fn compare(old: &[ConfigField], new: &[ConfigField], list: &mut FindingList) {
    let is_alternative = |field: &ConfigField| field.requirement == ConfigRequirement::AnyOf;
    let had_alternatives = old.iter().any(is_alternative);
    for NamedPair { name, old, new } in named_pairs(old, new, |field| &field.key) {
        let at = pointer("/config", name);
        let what = |field: &ConfigField| if field.secret { "secret" } else { "setting" };
        match (old, new) {
            (Some(old), Some(new)) => compare_fields((old, new), name, &at, list),
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

fn compare_fields((old, new): (&ConfigField, &ConfigField), name: &str, at: &str, list: &mut FindingList) {
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
