//! Finds the skill that a name refers to.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use semver::{Version, VersionReq};
use unicode_normalization::UnicodeNormalization;

use super::broken::BrokenSkill;
use super::origin::SkillAddress;
use super::root::Scope;
use super::root_folders::RootFolders;
use super::skill::Skill;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::excerpt::shorten;
use metier_core::suggestion::closest_few;
use metier_skill::parse_version_range;

/// Maximum number of names that an error lists.
const MAX_LISTED_NAMES: usize = 8;
/// Colons of a name up to which its parts are looked up one by one, instead of the names of all skills in it.
const MAX_COLONS: usize = 16;
/// Characters of a name that an error repeats.
const MAX_NAME_CHARS: usize = 100;

/// Which skills a lookup may find by a plain name.
#[derive(Clone, Copy)]
pub(super) enum LookupScope<'a> {
    /// A lookup by a person, or by a program on their behalf.
    All,
    /// A lookup by a skill. A project could give its own skills the names of those that a user's skill relies on, and have them
    /// run in their place with the user's grants. So a skill that does not come from a project finds no skills in scopes nearer
    /// than its own.
    VisibleTo(CallingSkill<'a>),
}

/// The skill that looks up another one.
#[derive(Clone, Copy)]
pub(super) enum CallingSkill<'a> {
    Loaded(&'a Skill),
    /// By its qualified name when its run began; it may have changed since.
    Named(&'a str),
}

impl CallingSkill<'_> {
    /// The folder of the engine that its root belongs to.
    pub(super) fn folder(self, folders: &RootFolders) -> Option<usize> {
        match self {
            Self::Loaded(skill) => folders.of_rank(skill.root_rank()),
            Self::Named(name) => folders.of_qualified_name(name),
        }
    }

    /// The scope of its root; the strictest one where the name has none.
    fn scope(self) -> Scope {
        match self {
            Self::Loaded(skill) => skill.scope(),
            Self::Named(name) => Scope::from_qualified_name(name).unwrap_or(Scope::Builtin),
        }
    }

    fn qualified_name(self) -> String {
        match self {
            Self::Loaded(skill) => skill.qualified_name(),
            Self::Named(name) => name.to_owned(),
        }
    }
}

impl LookupScope<'_> {
    fn includes(self, scope: Scope) -> bool {
        match self {
            Self::All => true,
            Self::VisibleTo(caller) => caller.scope() <= Scope::Project || scope >= caller.scope(),
        }
    }
}

/// What a lookup searches.
#[derive(Clone, Copy)]
pub(super) struct Lookup<'a, 's> {
    /// The skills that load, sorted by name and precedence.
    pub(super) skills: &'a [Skill],
    pub(super) broken: &'a [BrokenSkill],
    pub(super) scope: LookupScope<'s>,
    pub(super) folders: &'a RootFolders,
    /// The folder of an engine with several on whose behalf it looks: that of the calling skill, or that on which the run works.
    /// A skill finds none of another folder, which could otherwise replace what it relies on; a person finds those of other
    /// folders last.
    pub(super) folder: Option<usize>,
    /// The skills that may be found by [`Lookup::find_namesake`]; without it all.
    pub(super) accepts: Option<&'s dyn Fn(&Skill) -> bool>,
}

impl<'a> Lookup<'a, '_> {
    /// The skill that the name refers to.
    ///
    /// What parses as a qualified name or names a range of versions is first looked up as such, so that no skill can replace
    /// another by calling itself `user/metier:deploy` or `deploy@^1`.
    pub(super) fn find(self, name: &str) -> Result<&'a Skill> {
        let found = self.find_outside_other_folders(name);
        match (&found, self.scope) {
            (Err(error), LookupScope::All)
                if self.folder.is_some() && error.kind() == ErrorKind::UnknownSkill =>
            {
                Lookup { folder: None, ..self }.find_outside_other_folders(name)
            }
            _ => found,
        }
    }

    /// The nearest skill of a plain name, or of a name with a range of versions, that is accepted.
    pub(super) fn find_namesake(self, name: &str) -> Option<&'a Skill> {
        let name = &name.trim().nfkc().collect::<String>();
        let versioned = VersionedName::parse(name);
        versioned.and_then(|versioned| self.find_in_range(&versioned)).or_else(|| self.find_plain(name))
    }

    /// The skill that the name refers to, for who does not report why there is none: the names that an error suggests are
    /// compared with those of all skills.
    pub(super) fn find_if_any(self, name: &str) -> Option<&'a Skill> {
        self.find_loaded(&name.trim().nfkc().collect::<String>()).ok()?
    }

    /// Whether the name refers to a skill that does not load.
    pub(super) fn is_broken(self, name: &str) -> bool {
        let name = &name.trim().nfkc().collect::<String>();
        self.find_broken(name).is_some() && self.find_loaded(name).is_ok_and(|loaded| loaded.is_none())
    }

    fn find_outside_other_folders(self, name: &str) -> Result<&'a Skill> {
        let name = &name.trim().nfkc().collect::<String>();
        if let Some(skill) = self.find_loaded(name)? {
            return Ok(skill);
        }
        if let Some(broken) = self.find_broken(name) {
            return Err(broken.error(&printable_name(name)));
        }
        Err(VersionedName::parse(name)
            .and_then(|name| self.no_such_version_error(&name))
            .unwrap_or_else(|| self.unknown_skill_error(name)))
    }

    /// The skill that the name refers to; an error where several fit it equally.
    fn find_loaded(self, name: &str) -> Result<Option<&'a Skill>> {
        if name.contains([':', '@'])
            && let Some(skill) = self.find_qualified(name)?
        {
            return Ok(Some(skill));
        }
        let versioned = VersionedName::parse(name);
        let in_range = versioned.as_ref().and_then(|versioned| self.find_in_range(versioned));
        Ok(in_range.or_else(|| self.find_plain(name)))
    }

    /// The skill that does not load whose folder has that name.
    pub(super) fn find_broken(self, name: &str) -> Option<&'a BrokenSkill> {
        let mut broken = self.broken.iter().filter(|broken| self.includes(&broken.address));
        broken.find(|broken| {
            qualifier(name, &broken.name, "").is_some_and(|at| self.is_at(&broken.address, at))
        })
    }

    /// The nearest skill of that name.
    fn find_plain(self, name: &str) -> Option<&'a Skill> {
        let mut named = self.skills[self.positions_of(name)].iter();
        named.find(|skill| self.includes(skill.address()) && self.is_accepted(skill))
    }

    fn find_qualified(self, name: &str) -> Result<Option<&'a Skill>> {
        let unversioned = name.rsplit_once('@').map_or(name, |(unversioned, _)| unversioned);
        let fitting: Vec<&Skill> = self
            .skills_at_end_of([name, unversioned])
            .into_iter()
            .filter(|skill| self.matches(skill, name) && self.has_qualified_name(skill, name))
            .collect();
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

    /// The nearest skill of that name whose version is in the range.
    fn find_in_range(self, name: &VersionedName<'_>) -> Option<&'a Skill> {
        self.skills_with_name(name).find(|skill| name.accepts(skill.version()) && self.is_accepted(skill))
    }

    fn is_accepted(self, skill: &Skill) -> bool {
        self.accepts.is_none_or(|accepts| accepts(skill))
    }

    /// The skills of that name in any version, nearest first.
    fn skills_with_name(self, name: &VersionedName<'_>) -> impl Iterator<Item = &'a Skill> {
        let unversioned = name.unversioned;
        let without_sign = unversioned.strip_suffix('@').unwrap_or(unversioned);
        let named = self.skills_at_end_of([unversioned, without_sign]).into_iter();
        named.filter(move |skill| self.matches(skill, unversioned)).filter(move |skill| {
            qualifier(unversioned, skill.name(), "").is_some_and(|at| self.is_at(skill.address(), at))
        })
    }

    /// The skills whose plain name is one of these texts, or what follows a colon in one, in their order.
    fn skills_at_end_of(self, texts: [&str; 2]) -> Vec<&'a Skill> {
        if texts[0].matches(':').count() > MAX_COLONS {
            let is_at_end = |skill: &&Skill| texts.iter().any(|text| text.ends_with(skill.name()));
            return self.skills.iter().filter(is_at_end).collect();
        }
        let ends = texts.into_iter().flat_map(|text| {
            std::iter::once(text).chain(text.match_indices(':').map(move |(at, _)| &text[at + 1..]))
        });
        let positions: BTreeSet<usize> = ends.flat_map(|name| self.positions_of(name)).collect();
        positions.into_iter().filter_map(|position| self.skills.get(position)).collect()
    }

    /// Where the skills with that plain name are.
    fn positions_of(self, name: &str) -> Range<usize> {
        let first = self.skills.partition_point(|skill| skill.name() < name);
        let count = self.skills[first..].partition_point(|skill| skill.name() == name);
        first..first + count
    }

    /// Whether a skill there may be found by its plain name.
    fn includes(self, address: &SkillAddress) -> bool {
        self.scope.includes(address.origin.scope) && !self.is_in_other_folder(address)
    }

    /// Whether this lookup may find that skill by the name. A name that spells out the scope may refer to a skill in that
    /// scope.
    fn matches(self, skill: &Skill, name: &str) -> bool {
        let is_scope_named =
            || name.strip_prefix(skill.scope().name()).is_some_and(|rest| rest.starts_with(['/', ':']));
        (self.scope.includes(skill.scope()) || is_scope_named()) && !self.is_in_other_folder(skill.address())
    }

    fn is_in_other_folder(self, address: &SkillAddress) -> bool {
        let is_other = |folder| self.folders.of_rank(address.origin.rank).is_some_and(|own| own != folder);
        self.folder.is_some_and(is_other)
    }

    /// Whether the name is a part of the skill's qualified name, and more than its plain name.
    fn has_qualified_name(self, skill: &Skill, name: &str) -> bool {
        let version = skill.version().to_string();
        name != skill.name()
            && qualifier(name, skill.name(), &version).is_some_and(|at| self.is_at(skill.address(), at))
    }

    /// Whether the qualifier fits. Skills write the labels that roots have where their folder is the only one.
    fn is_at(self, address: &SkillAddress, qualifier: &str) -> bool {
        let is_by_skill = matches!(self.scope, LookupScope::VisibleTo(_));
        let is_in_own_folder =
            || self.folder.is_some() && self.folder == self.folders.of_rank(address.origin.rank);
        qualifier.is_empty() || address.matches_qualifier(qualifier, is_by_skill && is_in_own_folder())
    }

    fn no_such_version_error(self, name: &VersionedName<'_>) -> Option<SkillError> {
        let existing: Vec<String> = self.skills_with_name(name).map(Skill::qualified_name).collect();
        (!existing.is_empty()).then(|| {
            let (skill, version) = (printable_name(name.unversioned), printable_name(name.version));
            let message = format!("no skill `{skill}` has a version that fits `{version}`");
            let help = format!("there are {}", join_names(existing.into_iter()));
            SkillError::new(ErrorKind::UnknownSkill, message).with_help(help)
        })
    }

    fn unknown_skill_error(self, name: &str) -> SkillError {
        if let LookupScope::VisibleTo(caller) = self.scope
            && let Ok(nearer) = (Lookup { scope: LookupScope::All, ..self }).find(name)
        {
            if self.is_in_other_folder(nearer.address()) {
                let message = format!(
                    "no skill is called `{}` where {} may look for one; {} is in another folder of the engine",
                    printable_name(name),
                    printable_name(&caller.qualified_name()),
                    printable_name(&nearer.qualified_name())
                );
                return SkillError::new(ErrorKind::UnknownSkill, message)
                    .with_help("add the skill to the folder of its caller, or to those of the user");
            }
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
        let message = format!("no skill is called `{}`", printable_name(name));
        let error = SkillError::new(ErrorKind::UnknownSkill, message);
        if let Some(skill) = self.skill_in_folder(name) {
            let help = format!(
                "the skill in the folder {} is called {}: use that name, or make the two equal",
                printable_name(name),
                printable_name(skill.name())
            );
            return error.with_help(help);
        }
        let near = self.similar_names(name);
        if !near.is_empty() {
            return error.with_help(format!("did you mean {}?", near.join(" or ")));
        }
        if self.skills.is_empty() {
            return error.with_help("there are no skills here; a skill is a folder with a SKILL.md");
        }
        let visible = self.visible().map(|skill| skill.name().to_owned());
        error.with_help(format!("the skills are {}", join_names(visible)))
    }

    fn visible(self) -> impl Iterator<Item = &'a Skill> {
        self.skills.iter().filter(|skill| skill.shadowed_by().is_none())
    }

    /// The skill in a folder of this name, which has another one itself.
    fn skill_in_folder(self, name: &str) -> Option<&'a Skill> {
        let is_there = |skill: &&Skill| {
            let folder = skill.folder().disk_path().and_then(Path::file_name);
            folder.is_some_and(|folder| folder == name)
        };
        self.visible().find(is_there)
    }

    /// Up to three names within a few typing errors, nearest first.
    fn similar_names(self, name: &str) -> Vec<String> {
        let plain = name.rsplit(':').next().unwrap_or(name);
        let plain = plain.split('@').next().unwrap_or(plain);
        let broken = self.broken.iter().map(|broken| broken.name.as_str());
        let names = self.visible().map(Skill::name).chain(broken);
        let near = closest_few(plain, names, 3);
        near.into_iter().map(|name| format!("`{name}`")).collect()
    }
}

/// `[qualifier:]name@version`, where the version is a range or one that no skill of that name may have.
struct VersionedName<'n> {
    /// What stands before the `@`.
    unversioned: &'n str,
    version: &'n str,
    /// `None` for a full version such as `1.2.0`, which means exactly that one.
    range: Option<VersionReq>,
}

impl<'n> VersionedName<'n> {
    fn parse(name: &'n str) -> Option<Self> {
        let (unversioned, version) = name.rsplit_once('@')?;
        let is_exact = Version::parse(version).is_ok();
        let range = if is_exact { None } else { Some(parse_version_range(version)?) };
        Some(Self { unversioned, version, range })
    }

    fn accepts(&self, version: &Version) -> bool {
        self.range.as_ref().is_some_and(|range| range.matches(version))
    }
}

/// The part before the colon in `[qualifier:]plain[@version]`; empty when there is none, `None` when the name is another.
fn qualifier<'a>(name: &'a str, plain: &str, version: &str) -> Option<&'a str> {
    let unversioned = name.strip_suffix(version).and_then(|rest| rest.strip_suffix('@'));
    let before_plain = |name: &'a str| match name.strip_suffix(plain)? {
        "" => Some(""),
        rest => rest.strip_suffix(':').filter(|qualifier| !qualifier.is_empty()),
    };
    unversioned.and_then(before_plain).or_else(|| before_plain(name))
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
pub(crate) fn printable_name(name: &str) -> String {
    shorten(name, MAX_NAME_CHARS).replace(char::is_control, "\u{fffd}")
}
