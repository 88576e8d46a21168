//! Finds the skill that a name refers to.

use unicode_normalization::UnicodeNormalization;

use super::Registry;
use super::root::Scope;
use super::skill::Skill;
use crate::error::{ErrorKind, Result, SkillError};

/// Maximum number of names that an error lists.
const MAX_LISTED_NAMES: usize = 8;
/// Characters of a name that are compared for typos, and repeated in an error.
const MAX_NAME_CHARS: usize = 100;

/// Which skills a lookup may find by a plain name.
#[derive(Clone, Copy)]
pub(super) enum LookupScope<'a> {
    /// A lookup by a person, or by a program on their behalf.
    All,
    /// A lookup by a skill. A project could give its own skills the names of those that a user's skill relies on, and have them
    /// run in their place with the user's grants. So a skill that does not come from a project finds no skills in scopes nearer
    /// than its own.
    VisibleTo(&'a Skill),
}

impl LookupScope<'_> {
    fn includes(self, scope: Scope) -> bool {
        match self {
            Self::All => true,
            Self::VisibleTo(skill) => skill.scope() <= Scope::Project || scope >= skill.scope(),
        }
    }

    /// Whether this lookup may find that skill by the name. A name that spells out the scope may refer to a skill in that
    /// scope.
    fn matches(self, skill: &Skill, name: &str) -> bool {
        let named =
            || name.strip_prefix(skill.scope().name()).is_some_and(|rest| rest.starts_with(['/', ':']));
        self.includes(skill.scope()) || named()
    }
}

/// The skill that the name refers to.
///
/// What parses as a qualified name is first looked up as one, so that no skill can replace another by calling itself
/// `user/metier:deploy`.
pub(super) fn find_skill<'a>(
    registry: &'a Registry,
    name: &str,
    sight: LookupScope<'_>,
) -> Result<&'a Skill> {
    let name = &name.trim().nfkc().collect::<String>();
    if name.contains([':', '@'])
        && let Some(skill) = find_qualified(registry, name, sight)?
    {
        return Ok(skill);
    }
    if let Some(skill) = find_plain(registry, name, sight) {
        return Ok(skill);
    }
    let broken = registry.broken.iter().filter(|broken| sight.includes(broken.address.origin.scope));
    let broken = broken.into_iter().find(|broken| {
        let directory = broken.address.folder_name().nfkc().collect::<String>();
        qualifier(name, &directory, "")
            .is_some_and(|at| at.is_empty() || broken.address.matches_qualifier(at))
    });
    Err(broken.map_or_else(
        || unknown_skill_error(registry, name, sight),
        |broken| broken.error(&printable_name(name)),
    ))
}

/// The nearest skill of that name within the lookup's scope; the skills are sorted by name and precedence.
fn find_plain<'a>(registry: &'a Registry, name: &str, sight: LookupScope<'_>) -> Option<&'a Skill> {
    let first = registry.skills.partition_point(|skill| skill.name() < name);
    let named = registry.skills[first..].iter().take_while(|skill| skill.name() == name);
    named.into_iter().find(|skill| sight.includes(skill.scope()))
}

fn find_qualified<'a>(
    registry: &'a Registry,
    name: &str,
    sight: LookupScope<'_>,
) -> Result<Option<&'a Skill>> {
    let fitting = registry
        .skills
        .iter()
        .filter(|skill| matches_qualified_name(skill, name) && sight.matches(skill, name));
    let fitting: Vec<&Skill> = fitting.collect();
    if let Some(exact) = fitting.iter().find(|skill| skill.qualified_name() == name) {
        return Ok(Some(exact));
    }
    match fitting[..] {
        [] => Ok(None),
        [skill] => Ok(Some(skill)),
        _ => {
            let candidates = join_names(fitting.iter().map(|skill| skill.qualified_name()));
            let message = format!("`{}` may be any of {candidates}", printable_name(name));
            Err(SkillError::new(ErrorKind::UnknownSkill, message)
                .with_help("write more of the qualified name"))
        }
    }
}

/// Whether the name is a part of the skill's qualified name, and more than its plain name.
fn matches_qualified_name(skill: &Skill, name: &str) -> bool {
    let version = skill.version().to_string();
    name != skill.name()
        && qualifier(name, skill.name(), &version)
            .is_some_and(|at| at.is_empty() || skill.address().matches_qualifier(at))
}

/// The part before the colon in `[qualifier:]plain[@version]`; empty when there is none, `None` when the name is another.
fn qualifier<'a>(name: &'a str, plain: &str, version: &str) -> Option<&'a str> {
    let unversioned = name.strip_suffix(version).and_then(|rest| rest.strip_suffix('@'));
    let of = |name: &'a str| match name.strip_suffix(plain)? {
        "" => Some(""),
        rest => rest.strip_suffix(':').filter(|qualifier| !qualifier.is_empty()),
    };
    unversioned.and_then(of).or_else(|| of(name))
}

fn unknown_skill_error(registry: &Registry, name: &str, sight: LookupScope<'_>) -> SkillError {
    if let LookupScope::VisibleTo(caller) = sight
        && let Ok(nearer) = find_skill(registry, name, LookupScope::All)
    {
        let message = format!(
            "no skill is called `{}` where {} may look for one by a plain name; {} lies nearer to the project",
            printable_name(name),
            printable_name(&caller.qualified_name()),
            printable_name(&nearer.qualified_name())
        );
        let full = nearer.qualified_name();
        let full = full.rsplit_once('@').map_or(full.as_str(), |(full, _)| full);
        return SkillError::new(ErrorKind::UnknownSkill, message)
            .with_help(format!("write {} to mean that one", printable_name(full)));
    }
    let error =
        SkillError::new(ErrorKind::UnknownSkill, format!("no skill is called `{}`", printable_name(name)));
    let near = similar_names(registry, name);
    if !near.is_empty() {
        return error.with_help(format!("did you mean {}?", near.join(" or ")));
    }
    if registry.skills.is_empty() {
        return error.with_help("there are no skills here; a skill is a folder with a SKILL.md");
    }
    error.with_help(format!(
        "the skills are {}",
        join_names(registry.visible().map(|skill| skill.name().to_owned()))
    ))
}

/// Up to three names within one or two typos, nearest first.
fn similar_names(registry: &Registry, name: &str) -> Vec<String> {
    let plain = name.rsplit(':').next().unwrap_or(name);
    let plain = plain.split('@').next().unwrap_or(plain).to_lowercase();
    if plain.chars().count() > MAX_NAME_CHARS {
        return Vec::new();
    }
    let slips = (plain.chars().count() / 3).clamp(1, 3);
    let mut near: Vec<(usize, &str)> = registry
        .visible()
        .map(|skill| (strsim::osa_distance(&skill.name().to_lowercase(), &plain), skill.name()))
        .filter(|(distance, _)| *distance <= slips)
        .collect();
    near.sort_unstable();
    near.into_iter().take(3).map(|(_, name)| format!("`{name}`")).collect()
}

fn join_names(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(MAX_LISTED_NAMES);
    names.truncate(MAX_LISTED_NAMES);
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// A name as an error repeats it: on one line, and shortened.
fn printable_name(name: &str) -> String {
    let letter = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
    let mut text: String = name.chars().take(MAX_NAME_CHARS).map(letter).collect();
    if name.chars().nth(MAX_NAME_CHARS).is_some() {
        text.push('…');
    }
    text
}
