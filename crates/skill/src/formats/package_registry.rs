//! A registry of AgentsKit packages: by name and version, found by ranges of versions. It is made of texts; whoever has files reads them.

use std::collections::BTreeMap;

use semver::{Version, VersionReq};

use crate::contract::{Contract, DefinitionFormat};
use metier_core::error::{ErrorKind, Result, SkillError};

/// The most packages of a registry.
const MAX_PACKAGES: usize = 10_000;
/// The most characters of a name and the most versions that an error repeats.
const MAX_SHOWN_CHARS: usize = 100;
const MAX_SHOWN_VERSIONS: usize = 10;

/// A published package.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PublishedPackage {
    /// The name of its skill.
    pub name: String,
    /// Its version.
    pub version: Version,
    /// What it says.
    pub contract: Contract,
    /// Its text, byte for byte.
    pub source: Vec<u8>,
}

/// Which packages a list has: those that all of this is true of.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PackageFilter {
    /// They have this name.
    pub name: Option<String>,
    /// They are by this publisher.
    pub publisher: Option<String>,
    /// They have this tag.
    pub tag: Option<String>,
    /// Their version is in this range.
    pub range: Option<VersionReq>,
}

/// Packages by name and version. What is published does not change afterwards.
#[derive(Clone, Debug, Default)]
pub struct PackageRegistry {
    packages: BTreeMap<String, BTreeMap<Version, PublishedPackage>>,
    count: usize,
}

impl PackageRegistry {
    /// Publishes the package in this text: `invalid-skill`, with the line, for a text that is none; `usage` if there is one of its name and
    /// version.
    pub fn publish(&mut self, source: &[u8]) -> Result<&PublishedPackage> {
        let parsed = super::parse("skill.json", source, None);
        let cause = parsed.diagnostics.iter().find(|found| found.blocks);
        let contract =
            parsed.contract.filter(|contract| contract.format == DefinitionFormat::AgentsKitPackage);
        let Some(contract) = contract else {
            let place = cause.map(|cause| format!(" at {}:{}: {}", cause.line, cause.column, cause.message));
            let place = place.unwrap_or_else(|| ": it has no `version` and `skill`".to_owned());
            let sentence = format!("AK_SKILL_INVALID: the text is not an AgentsKit package{place}");
            return Err(SkillError::new(ErrorKind::InvalidSkill, sentence));
        };
        let (Some(name), Some(version)) = (contract.name.clone(), contract.version.clone()) else {
            let sentence = "AK_SKILL_INVALID: the package has no name or no version";
            return Err(SkillError::new(ErrorKind::InvalidSkill, sentence));
        };
        if self.count == MAX_PACKAGES {
            let sentence = format!("the registry has {MAX_PACKAGES} packages, and takes no more");
            return Err(SkillError::new(ErrorKind::Usage, sentence));
        }
        let versions = self.packages.entry(name.clone()).or_default();
        // Build numbers do not tell versions apart.
        if versions.keys().any(|known| known.cmp_precedence(&version).is_eq()) {
            let sentence = format!("AK_SKILL_DUPLICATE: {name} {version} is published already");
            return Err(
                SkillError::new(ErrorKind::Usage, sentence).with_help("publish it as another version")
            );
        }
        self.count += 1;
        let package = PublishedPackage { name, version: version.clone(), contract, source: source.to_vec() };
        Ok(versions.entry(version).or_insert(package))
    }

    /// The packages of which all of this is true, by name, and the newest version first.
    pub fn list(&self, filter: &PackageFilter) -> Vec<&PublishedPackage> {
        let is_meant = |package: &&PublishedPackage| {
            let facts = &package.contract.publication;
            filter.name.as_ref().is_none_or(|name| *name == package.name)
                && filter
                    .publisher
                    .as_ref()
                    .is_none_or(|publisher| facts.publisher.as_ref() == Some(publisher))
                && filter.tag.as_ref().is_none_or(|tag| facts.tags.contains(tag))
                && filter.range.as_ref().is_none_or(|range| range.matches(&package.version))
        };
        self.packages.values().flat_map(|versions| versions.values().rev()).filter(is_meant).collect()
    }

    /// The newest package of that name in the range; without a range, the newest release, or else the newest of all.
    pub fn find(&self, name: &str, range: Option<&VersionReq>) -> Option<&PublishedPackage> {
        let versions = self.packages.get(name)?;
        if let Some(range) = range.filter(|range| **range != VersionReq::STAR) {
            return versions.values().rev().find(|package| range.matches(&package.version));
        }
        let release = versions.values().rev().find(|package| package.version.pre.is_empty());
        release.or_else(|| versions.values().next_back())
    }

    /// The newest package for `NAME` or `NAME@RANGE`: `usage` for a range that is none, `unknown-skill` where there is no such package.
    pub fn find_named(&self, text: &str) -> Result<&PublishedPackage> {
        let shown = metier_core::excerpt::shorten(text, MAX_SHOWN_CHARS);
        let (name, range) = match text.split_once('@') {
            Some((name, range)) => {
                let range = crate::parse_version_range(range).ok_or_else(|| {
                    let sentence = format!("{} does not end in a range of versions", shown.escape_debug());
                    SkillError::new(ErrorKind::Usage, sentence)
                        .with_help("write the range as ^1.2, ~1.2.3, >=1 or 1.2.3")
                })?;
                (name, Some(range))
            }
            None => (text, None),
        };
        self.find(name, range.as_ref()).ok_or_else(|| {
            let sentence = format!("there is no package {}", shown.escape_debug());
            let error = SkillError::new(ErrorKind::UnknownSkill, sentence);
            let versions = self.packages.get(name).into_iter().flat_map(|versions| versions.keys().rev());
            let versions: Vec<String> = versions.take(MAX_SHOWN_VERSIONS).map(ToString::to_string).collect();
            if versions.is_empty() {
                error
            } else {
                error.with_help(format!("there is {}", versions.join(", ")))
            }
        })
    }

    /// Removes a version; whether there was one.
    pub fn unpublish(&mut self, name: &str, version: &Version) -> bool {
        let removed = self.packages.get_mut(name).and_then(|versions| versions.remove(version));
        self.count -= usize::from(removed.is_some());
        removed.is_some()
    }
}
