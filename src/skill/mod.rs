//! A skill as text: `SKILL.md` in, manifest and diagnostics out; `skill.yaml` in, [`contract`] and diagnostics out. Nothing
//! here touches the disk.
//!
//! One parse gives everything: what the skill says about itself ([`Manifest`]), what is wrong with it
//! ([`Diagnostic`]), and two verdicts. [`ParsedSkill::is_valid`] is the specification's, as a [`Profile`] reads it;
//! [`ParsedSkill::is_loadable`] is the lenient one clients are advised to use, so that a cosmetic fault never hides a skill.

mod allowed_tools;
pub mod contract;
mod diagnostic;
mod diagnostic_sink;
mod frontmatter;
pub(crate) mod lint;
mod manifest;
mod metadata;
mod name;
mod parse;
mod profile;
mod repair;
mod runtime;
mod skills_ref;
mod text_fields;
mod unknown_keys;
mod version;
pub(crate) mod yaml;

#[cfg(test)]
mod tests;

pub use self::lint::{RULES, Rule};
pub use self::parse::{LoadedSkill, ParsedSkill, SkillLocation, load, parse};
pub use self::unknown_keys::{KeyClass, UnknownKey};
pub use contract::{Contract, ParsedContract, Schema};
pub use diagnostic::{Diagnostic, Severity};
pub use frontmatter::{FrontmatterLen, MAX_FRONTMATTER, frontmatter_len};
pub use manifest::Manifest;
pub use name::suggested_name;
pub use profile::{Profile, UnknownProfile};
