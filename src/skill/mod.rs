//! A skill as text: `SKILL.md` in, manifest and diagnostics out; `skill.yaml` in, [`contract`] and diagnostics out. Nothing
//! here touches the disk.
//!
//! One parse gives everything: what the skill says about itself ([`Manifest`]), what is wrong with it
//! ([`Diagnostic`]), and two verdicts. [`Parsed::valid`] is the specification's, as a [`Profile`] reads it;
//! [`Parsed::loads`] is the lenient one clients are advised to use, so that a cosmetic fault never hides a skill.

pub mod contract;
mod diagnostic;
mod frontmatter;
mod manifest;
mod metadata;
mod name;
mod parsed;
mod profile;
mod repair;
mod report;
pub(crate) mod rule;
mod runtime;
mod skills_ref;
mod text;
mod tools;
mod unknown;
mod version;
pub(crate) mod yaml;

#[cfg(test)]
mod tests;

pub use contract::{Contract, ParsedContract, Schema};
pub use diagnostic::{Diagnostic, Severity};
pub use frontmatter::{FrontmatterLen, MAX_FRONTMATTER, frontmatter_len};
pub use manifest::Manifest;
pub use name::suggested_name;
pub use parsed::{LoadedSkill, ParsedSkill, SkillLocation, load, parse};
pub use profile::{Profile, UnknownProfile};
pub use rule::{RULES, Rule};
pub use unknown::{KeyClass, UnknownKey};
