//! From a name to the skill it means.

use unicode_normalization::UnicodeNormalization;

use super::Registry;
use super::root::Scope;
use super::skill::Skill;
use crate::error::{ErrorKind, Result, SkillError};

/// Names an error lists before it stops.
const SHOWN: usize = 8;
/// Letters of a name that are looked at for a slip, and repeated in an error.
const LONGEST: usize = 100;

/// How far the one looks who says a name.
#[derive(Clone, Copy)]
pub(super) enum Sight<'a> {
    /// A person, or a program in their stead.
    Everything,
    /// A skill. A project could give its own skills the names of those that a skill of the user relies on, and be run in their
    /// place with what the user granted. So a skill that no project brought looks no nearer than where it lies itself.
    Of(&'a Skill),
}

impl Sight<'_> {
    fn reaches(self, scope: Scope) -> bool {
        match self {
            Self::Everything => true,
            Self::Of(skill) => skill.scope() <= Scope::Project || scope >= skill.scope(),
        }
    }

    /// Whether the name means that skill by it. Whoever names the scope means what lies there.
    fn means(self, skill: &Skill, name: &str) -> bool {
        let named =
            || name.strip_prefix(skill.scope().name()).is_some_and(|rest| rest.starts_with(['/', ':']));
        self.reaches(skill.scope()) || named()
    }
}

/// The skill that name means.
///
/// What reads as a qualified name is taken as one first, so that no skill can take the place of another by calling itself
/// `user/metier:deploy`.
pub(super) fn find<'a>(registry: &'a Registry, name: &str, sight: Sight<'_>) -> Result<&'a Skill> {
    let name = &name.trim().nfkc().collect::<String>();
    if name.contains([':', '@'])
        && let Some(skill) = qualified(registry, name, sight)?
    {
        return Ok(skill);
    }
    if let Some(skill) = plain(registry, name, sight) {
        return Ok(skill);
    }
    let broken = registry.broken.iter().filter(|broken| sight.reaches(broken.address.origin.scope));
    let broken = broken.into_iter().find(|broken| {
        let directory = broken.address.directory().nfkc().collect::<String>();
        qualifier(name, &directory, "").is_some_and(|at| at.is_empty() || broken.address.is_called(at))
    });
    Err(broken.map_or_else(|| unknown(registry, name, sight), |broken| broken.error(&legible(name))))
}

/// The nearest skill of that name within sight; they are sorted by name and nearness.
fn plain<'a>(registry: &'a Registry, name: &str, sight: Sight<'_>) -> Option<&'a Skill> {
    let first = registry.skills.partition_point(|skill| skill.name() < name);
    let named = registry.skills[first..].iter().take_while(|skill| skill.name() == name);
    named.into_iter().find(|skill| sight.reaches(skill.scope()))
}

fn qualified<'a>(registry: &'a Registry, name: &str, sight: Sight<'_>) -> Result<Option<&'a Skill>> {
    let fitting = registry.skills.iter().filter(|skill| fits(skill, name) && sight.means(skill, name));
    let fitting: Vec<&Skill> = fitting.collect();
    if let Some(exact) = fitting.iter().find(|skill| skill.qualified() == name) {
        return Ok(Some(exact));
    }
    match fitting[..] {
        [] => Ok(None),
        [skill] => Ok(Some(skill)),
        _ => {
            let candidates = listed(fitting.iter().map(|skill| skill.qualified()));
            let message = format!("`{}` may be any of {candidates}", legible(name));
            Err(SkillError::new(ErrorKind::UnknownSkill, message)
                .with_help("write more of the qualified name"))
        }
    }
}

/// Whether the name is a part of the skill's qualified one, and more than its plain one.
fn fits(skill: &Skill, name: &str) -> bool {
    let version = skill.version().to_string();
    name != skill.name()
        && qualifier(name, skill.name(), &version)
            .is_some_and(|at| at.is_empty() || skill.address().is_called(at))
}

/// What stands before the colon in `[qualifier:]plain[@version]`; empty when there is none, nothing when the name is another.
fn qualifier<'a>(name: &'a str, plain: &str, version: &str) -> Option<&'a str> {
    let unversioned = name.strip_suffix(version).and_then(|rest| rest.strip_suffix('@'));
    let of = |name: &'a str| match name.strip_suffix(plain)? {
        "" => Some(""),
        rest => rest.strip_suffix(':').filter(|qualifier| !qualifier.is_empty()),
    };
    unversioned.and_then(of).or_else(|| of(name))
}

fn unknown(registry: &Registry, name: &str, sight: Sight<'_>) -> SkillError {
    if let Sight::Of(caller) = sight
        && let Ok(nearer) = find(registry, name, Sight::Everything)
    {
        let message = format!(
            "no skill is called `{}` where {} may look for one by a plain name; {} lies nearer to the project",
            legible(name),
            legible(&caller.qualified()),
            legible(&nearer.qualified())
        );
        let full = nearer.qualified();
        let full = full.rsplit_once('@').map_or(full.as_str(), |(full, _)| full);
        return SkillError::new(ErrorKind::UnknownSkill, message)
            .with_help(format!("write {} to mean that one", legible(full)));
    }
    let error = SkillError::new(ErrorKind::UnknownSkill, format!("no skill is called `{}`", legible(name)));
    let near = nearest(registry, name);
    if !near.is_empty() {
        return error.with_help(format!("did you mean {}?", near.join(" or ")));
    }
    if registry.skills.is_empty() {
        return error.with_help("there are no skills here; a skill is a folder with a SKILL.md");
    }
    error.with_help(format!(
        "the skills are {}",
        listed(registry.visible().map(|skill| skill.name().to_owned()))
    ))
}

/// Up to three names that are a slip or two away, nearest first.
fn nearest(registry: &Registry, name: &str) -> Vec<String> {
    let plain = name.rsplit(':').next().unwrap_or(name);
    let plain = plain.split('@').next().unwrap_or(plain).to_lowercase();
    if plain.chars().count() > LONGEST {
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

fn listed(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// A name as an error may repeat it: on one line, and not without end.
fn legible(name: &str) -> String {
    let letter = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
    let mut text: String = name.chars().take(LONGEST).map(letter).collect();
    if name.chars().nth(LONGEST).is_some() {
        text.push('…');
    }
    text
}
