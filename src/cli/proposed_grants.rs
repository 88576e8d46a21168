//! The grants that a run would have needed, from what its sandbox refused and what it changed in a copy of the project: one line, with the
//! command that remembers it.

use std::collections::BTreeSet;

use metier::changes::{Change, ChangeKind, ChangeSet, EntryType};
use metier::engine::Outcome;
use metier::host::{RefusedAccess, RefusedTarget};
use metier::policy::{GrantOrigin, GrantReport, Permission};
use metier_core::host::opens_more;
use metier_core::policy::{Access, PathProtection, is_secret_variable};

use super::hint::COMMAND;
use super::output;
use super::session::Session;
use super::terminal::{escape_line, shell_word};

/// The most folders and files that are named one by one; beyond that, the folders above them are.
const MAX_PATHS: usize = 6;

/// Of what was refused, and of what is granted, the most that is shown.
const MAX_REFUSED: usize = 40;
const MAX_LASTING: usize = 40;

/// The smallest grants that would have been enough, in their order. What opens more than it seems to is never among them: all rights of the
/// user, hidden files of the project, and addresses of this machine and its network.
pub fn proposed_grants(outcome: &Outcome, changes: Option<&ChangeSet>) -> Vec<String> {
    needed_grants(outcome, changes).into_iter().filter(|name| !opens_more(name)).collect()
}

/// The others of them, which a person has to think about.
fn doubtful_grants(outcome: &Outcome, changes: Option<&ChangeSet>) -> Vec<String> {
    needed_grants(outcome, changes).into_iter().filter(|name| opens_more(name)).collect()
}

fn needed_grants(outcome: &Outcome, changes: Option<&ChangeSet>) -> Vec<String> {
    let lasting = lasting_grants(outcome);
    let refused = outcome.refused.iter().filter_map(|refused| refused.permission.clone());
    let written = changes.map(|set| write_grants(set, &lasting)).unwrap_or_default();
    // Hosts that it had in this run only.
    let is_for_once =
        |grant: &&GrantReport| matches!(grant.origin, GrantOrigin::Caller | GrantOrigin::Approver);
    let hosts = outcome.grants.iter().filter(is_for_once).map(|grant| &grant.permission);
    let hosts = hosts.filter(|permission| permission.name() == "net").map(ToString::to_string);
    let all: BTreeSet<String> = written.into_iter().chain(refused).chain(hosts).collect();
    let is_covered = |name: &str| {
        let Some(path) = name.strip_prefix("write:").filter(|_| !opens_more(name)) else { return false };
        let mut folders = path.match_indices('/').filter_map(|(end, _)| path.get(..end));
        all.contains("write") || folders.any(|folder| all.contains(&format!("write:{folder}")))
    };
    let is_granted = |name: &str| name.parse().is_ok_and(|need: Permission| covers(&lasting, &need));
    all.iter().filter(|name| !is_covered(name) && !is_granted(name)).cloned().collect()
}

/// What every later run of the skill has, too: what was remembered for it, and what a configuration grants it.
fn lasting_grants(outcome: &Outcome) -> Vec<&Permission> {
    let is_lasting = |grant: &&GrantReport| {
        matches!(grant.origin, GrantOrigin::Remembered { .. } | GrantOrigin::Configuration { .. })
    };
    let mut lasting: Vec<&Permission> =
        outcome.grants.iter().filter(is_lasting).map(|grant| &grant.permission).collect();
    lasting.sort_by_cached_key(ToString::to_string);
    lasting.dedup();
    lasting
}

fn covers(grants: &[&Permission], need: &Permission) -> bool {
    let (need, protection) = (Access::from(need), PathProtection::default());
    grants.iter().any(|grant| grant.covers(&need, &protection))
}

/// The grants for what a run changed beyond these: the file that was there, or that is the only new one in its folder, and of others the
/// folder that they are in.
fn write_grants(set: &ChangeSet, lasting: &[&Permission]) -> BTreeSet<String> {
    let is_granted = |path: &str| Permission::write(path).is_ok_and(|need| covers(lasting, &need));
    let is_new = |change: &&Change| {
        let mut paths = std::iter::once(&change.path).chain(&change.from);
        !paths.all(|path| is_granted(path))
    };
    let changes: Vec<Change> = set.changes.iter().filter(is_new).cloned().collect();
    let made: BTreeSet<&str> = set
        .changes
        .iter()
        .filter(|change| is_new_folder(change))
        .map(|change| change.path.as_str())
        .collect();
    let paths = changes.iter().flat_map(|change| {
        let from = change.from.as_deref().map(|from| folder_of(from, &made));
        let own = match change.kind {
            ChangeKind::Changed | ChangeKind::Mode => change.path.as_str(),
            ChangeKind::Created if is_lasting_file(change) && is_alone(change, &changes) => &change.path,
            _ if made.contains(change.path.as_str()) => outermost(&change.path, &made),
            _ => folder_of(&change.path, &made),
        };
        std::iter::once(own).chain(from)
    });
    let mut paths: BTreeSet<&str> = paths.collect();
    if paths.len() > MAX_PATHS {
        paths = paths.into_iter().map(|path| path.split('/').next().unwrap_or_default()).collect();
    }
    if paths.contains("") || paths.len() > MAX_PATHS {
        return BTreeSet::from(["write".to_owned()]);
    }
    let is_inner = |path: &str| {
        paths.iter().any(|outer| path.strip_prefix(*outer).is_some_and(|rest| rest.starts_with('/')))
    };
    paths.iter().filter(|path| !is_inner(path)).map(|path| format!("write:{path}")).collect()
}

/// Whether it is a new file that the next run would probably create, too: its name is that of a file, and has no date.
fn is_lasting_file(change: &Change) -> bool {
    const MAX_DIGITS: usize = 5;
    let name = change.path.rsplit('/').next().unwrap_or_default();
    let is_file = change.after.as_ref().is_some_and(|after| after.entry_type == EntryType::File);
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    is_file && !name.starts_with('.') && name.contains('.') && digits <= MAX_DIGITS
}

/// Whether nothing else is created, removed or renamed in the folder of this change.
fn is_alone(change: &Change, all: &[Change]) -> bool {
    let folder = |path: &str| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let own = folder(&change.path);
    let is_in_place = |other: &&Change| !matches!(other.kind, ChangeKind::Changed | ChangeKind::Mode);
    let paths = |other: &Change| {
        std::iter::once(folder(&other.path)).chain(other.from.as_deref().map(folder)).collect::<Vec<_>>()
    };
    all.iter().filter(is_in_place).flat_map(paths).filter(|other| *other == own).count() == 1
}

fn is_new_folder(change: &Change) -> bool {
    change.before.is_none()
        && change.after.as_ref().is_some_and(|after| after.entry_type == EntryType::Folder)
}

/// The folder that this is in: the outermost of those that the run made, if it made that; empty for the project itself.
fn folder_of<'a>(path: &'a str, made: &BTreeSet<&str>) -> &'a str {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    if made.contains(folder) { outermost(folder, made) } else { folder }
}

fn outermost<'a>(folder: &'a str, made: &BTreeSet<&str>) -> &'a str {
    let above = folder.rsplit_once('/').map(|(above, _)| above).filter(|above| made.contains(above));
    above.map_or(folder, |above| outermost(above, made))
}

/// Prints what a run was refused, and the grants that would have been enough. `skill` is what they are remembered for; `None` for a command.
pub fn print(outcome: &Outcome, changes: Option<&ChangeSet>, skill: Option<&str>, session: &Session) {
    let (grants, doubtful) = (proposed_grants(outcome, changes), doubtful_grants(outcome, changes));
    if !outcome.refused.is_empty() {
        output::eprint("it was refused:");
    }
    for refused in outcome.refused.iter().take(MAX_REFUSED) {
        output::eprint(&refused_line(refused));
    }
    let others = outcome.refused.len().saturating_sub(MAX_REFUSED);
    if others > 0 {
        output::eprint(&format!(" … and {others} more"));
    }
    let lasting = lasting_grants(outcome);
    if !lasting.is_empty() {
        let names: Vec<String> =
            lasting.iter().take(MAX_LASTING).map(|grant| escape_line(&grant.to_string())).collect();
        let others = lasting.len() - names.len();
        let others = if others > 0 { format!(" and {others} more") } else { String::new() };
        output::eprint(&format!("it has already: {}{others}", names.join(", ")));
    }
    if !doubtful.is_empty() {
        let names = escape_line(&doubtful.join(", "));
        output::eprint(&format!("not proposed, since it opens more than it seems to: {names}"));
    }
    let has_secret = grants.iter().any(|grant| grant.strip_prefix("env:").is_some_and(is_secret_variable));
    if has_secret && grants.iter().any(|grant| grant.starts_with("net")) {
        output::eprint("with the secret and the hosts below, it can send the one to the others");
    }
    if grants.is_empty() {
        let sentence =
            if outcome.refused.is_empty() { "it was refused nothing" } else { "no grant opens that" };
        output::eprint(sentence);
        return;
    }
    let words = grants.iter().map(|grant| shell_word(grant)).collect::<Vec<_>>().join(" ");
    let Some(skill) = skill else {
        let options: Vec<String> =
            grants.iter().map(|grant| format!("--allow {}", shell_word(grant))).collect();
        output::eprint(&format!(
            "with these grants it has what it asked for:\n  {COMMAND} exec {} -- …",
            options.join(" ")
        ));
        return;
    };
    let these = if lasting.is_empty() { "these grants" } else { "these grants as well" };
    output::eprint(&format!("with {these} it has what it asked for:"));
    output::eprint(&format!("  {COMMAND} allow {} {words}", shell_word(skill)));
    let is_untrusted = session.engine().is_ok_and(|engine| {
        let registry = engine.registry();
        registry.find(skill).is_ok_and(|skill| !engine.trust_state(skill).is_trusted())
    });
    if is_untrusted {
        output::eprint(&format!("once its files are trusted: {COMMAND} trust"));
    }
}

fn refused_line(refused: &RefusedAccess) -> String {
    let (what, name) = match &refused.target {
        RefusedTarget::Path(path) => ("path", path),
        RefusedTarget::Host(host) => ("host", host),
        RefusedTarget::Name(name) => ("program", name),
        RefusedTarget::Variable(name) => ("variable", name),
        _ => ("access", &refused.reason.clone().unwrap_or_default()),
    };
    let why = match (&refused.permission, &refused.reason) {
        (Some(permission), Some(reason)) => {
            format!(": {} ({})", escape_line(permission), escape_line(reason))
        }
        (why, reason) => {
            why.as_ref().or(reason.as_ref()).map(|why| format!(": {}", escape_line(why))).unwrap_or_default()
        }
    };
    format!(" {what:<9} {}{why}", escape_line(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_folder_is_proposed_in_place_of_its_content() {
        let made = BTreeSet::from(["out", "out/deep"]);
        for (path, folder) in
            [("out/deep/a", "out"), ("out/a", "out"), ("src/a", "src"), ("a", ""), ("src/x/a", "src/x")]
        {
            assert_eq!(folder_of(path, &made), folder, "{path}");
        }
        assert_eq!(shell_word("write:a b"), "'write:a b'");
        assert_eq!(shell_word("net:x.org"), "net:x.org");
    }
}
