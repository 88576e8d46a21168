//! What a skill needs of a machine: programs, other skills, infrastructure.

use super::finding::{Change, FindingList, pointer};
use super::named_pairs::{NamedPair, named_pairs};
use super::version_range::{self, RangeChange};
use crate::contract::{Dependencies, Dependency, Infrastructure};

pub(super) fn compare(old: &Dependencies, new: &Dependencies, list: &mut FindingList) {
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
        let (change, message) = match version_range::compare(old.version.as_ref(), new.version.as_ref()) {
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
