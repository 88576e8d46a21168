//! Parses the text of a `SKILL.md` to a [`Manifest`] and the text of a `skill.yaml` to a [`Contract`](contract::Contract), each with
//! [`Diagnostic`]s. Nothing here accesses the disk.
//!
//! A skill gets two verdicts. [`ParsedSkill::is_valid`] applies the specification, as a [`Profile`] reads it.
//! [`ParsedSkill::is_loadable`] is lenient, as clients are advised to be, so that a cosmetic error never hides a skill.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod comparison;
pub mod contract;
mod diagnostic;
pub(crate) mod diagnostic_sink;
mod dropped_text;
pub mod formats;
mod frontmatter;
mod frontmatter_fields;
pub mod inline_metadata;
pub mod lint;
mod manifest;
mod metadata;
pub mod name;
pub mod openapi;
mod parse;
mod profile;
mod repair;
mod skills_ref;
mod unknown_keys;
mod untitled;
pub mod version;
pub mod yaml;

#[cfg(test)]
mod tests;

pub use self::frontmatter::typed_frontmatter;
pub use self::lint::{RULES, Rule};
pub use self::manifest::SkillLocation;
pub use self::metadata::MachineRequirements;
pub use self::parse::{LoadedSkill, ParsedSkill, frontmatter_entries, load, parse};
pub use self::unknown_keys::{KeyClass, UnknownKey};
pub use self::untitled::MAX_UNTITLED_HEAD;
pub use diagnostic::{Diagnostic, Severity};
pub use frontmatter::{FrontmatterLen, MAX_FRONTMATTER, frontmatter_len};
pub use manifest::{EntrypointForm, Manifest, ManifestFacts, ManifestLimits, ManifestLines, empty_manifest};
pub use name::suggested_name;
pub use profile::{Profile, UnknownProfile};
pub use version::parse_version_range;
