//! The readings of the specification that a skill can be checked under.

use std::fmt;
use std::str::FromStr;

/// A reading of the specification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// The specification's text: ordinary YAML 1.2, unknown keys only warn.
    #[default]
    Spec,
    /// The reference validator, `skills-ref`, with its strict subset of YAML and its own rules.
    SkillsRef,
    /// What clients of Agent Plugins 1.0 must load: valid by the specification's text and by the reference validator. They skip
    /// every other skill.
    AgentPlugins,
}

const NAMES: [(&str, Profile); 3] =
    [("spec", Profile::Spec), ("skills-ref", Profile::SkillsRef), ("agent-plugins", Profile::AgentPlugins)];

/// The error for a name that is not a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownProfile(String);

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown profile `{}`; there are `spec`, `skills-ref` and `agent-plugins`", self.0)
    }
}

impl std::error::Error for UnknownProfile {}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        let named = NAMES.iter().find(|(name, _)| *name == text);
        named.map(|&(_, profile)| profile).ok_or_else(|| UnknownProfile(text.to_owned()))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spec => "spec",
            Self::SkillsRef => "skills-ref",
            Self::AgentPlugins => "agent-plugins",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_by_the_name_it_prints() {
        for (name, profile) in NAMES {
            assert_eq!(name.parse(), Ok(profile));
            assert_eq!(profile.to_string(), name);
        }
        assert!("strict".parse::<Profile>().is_err());
    }
}
