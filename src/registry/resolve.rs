//! Who shadows whom, and which skill a name means.

use std::collections::HashMap;

use super::{Registry, Skill};
use crate::error::{ErrorKind, Result, SkillError};

/// Puts skills in order of precedence and marks those whose plain name reaches another: the nearer root wins, within a
/// root the higher version, and of equals the first by path.
pub(super) fn shadowed(mut skills: Vec<Skill>) -> Vec<Skill> {
    skills.sort_by(|a, b| {
        let versions = b.version().cmp_precedence(a.version());
        (a.root, a.name()).cmp(&(b.root, b.name())).then(versions).then_with(|| a.path().cmp(&b.path()))
    });
    let mut winners: HashMap<String, String> = HashMap::new();
    for skill in &mut skills {
        match winners.get(skill.name()) {
            Some(winner) => skill.shadowed_by = Some(winner.clone()),
            None => drop(winners.insert(skill.name().to_owned(), skill.qualified())),
        }
    }
    skills
}

impl Registry {
    /// The skill a name means: a plain name the nearest one, `scope/root:name@version` exactly one; any part that is not
    /// needed to tell it apart may be left out.
    ///
    /// `unknown-skill` when there is none or more than one, `invalid-skill` when the only one of that name did not load.
    pub fn find(&self, name: &str) -> Result<&Skill> {
        if let Some(skill) = self.visible().find(|skill| skill.name() == name) {
            return Ok(skill);
        }
        let wanted = Wanted::parse(name);
        let found: Vec<&Skill> = self.skills().iter().filter(|skill| wanted.is(skill)).collect();
        match found.as_slice() {
            [only] => Ok(only),
            [] => Err(self.unknown(name, wanted.name)),
            several => {
                let listed: Vec<String> = several.iter().map(|skill| skill.qualified()).collect();
                Err(SkillError::new(ErrorKind::UnknownSkill, format!("{name} means more than one skill"))
                    .with_help(format!("name one of {}", listed.join(", "))))
            }
        }
    }

    fn unknown(&self, asked: &str, plain: &str) -> SkillError {
        let broken = self.problems().iter().find(|problem| {
            problem.skipped
                && problem
                    .path
                    .ancestors()
                    .take(2)
                    .any(|path| path.file_name().is_some_and(|name| name == plain))
        });
        if let Some(problem) = broken {
            let error =
                SkillError::new(ErrorKind::InvalidSkill, format!("skill {plain} does not load: {problem}"));
            return match problem.diagnostics.iter().find_map(|diagnostic| diagnostic.help.as_deref()) {
                Some(help) => error.with_help(help),
                None => error,
            };
        }
        let error = SkillError::new(ErrorKind::UnknownSkill, format!("no skill is called {asked}"));
        let close = |skill: &&Skill| strsim::damerau_levenshtein(skill.name(), plain);
        match self
            .visible()
            .min_by_key(close)
            .filter(|skill| close(skill) <= plain.chars().count().div_ceil(3))
        {
            Some(nearest) => error.with_help(format!("did you mean {}?", nearest.name())),
            None => error.with_help("`metier list` shows the skills there are"),
        }
    }
}

/// A name taken apart.
struct Wanted<'a> {
    place: Option<&'a str>,
    name: &'a str,
    version: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    fn parse(text: &'a str) -> Self {
        let (place, rest) = match text.split_once(':') {
            Some((place, rest)) => (Some(place), rest),
            None => (None, text),
        };
        match rest.rsplit_once('@') {
            Some((name, version)) => Self { place, name, version: Some(version) },
            None => Self { place, name: rest, version: None },
        }
    }

    fn is(&self, skill: &Skill) -> bool {
        let place = format!("{}/{}", skill.scope(), skill.root_label());
        let placed = |wanted: &str| {
            place == wanted || skill.root_label() == wanted || skill.scope().to_string() == wanted
        };
        skill.name() == self.name
            && self.place.is_none_or(placed)
            && self.version.is_none_or(|version| skill.version().to_string() == version)
    }
}
