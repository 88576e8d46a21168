//! The resources that skills offer at addresses of their own.

use std::collections::HashMap;

use rmcp::model::{Resource, ResourceTemplate};
use serde_json::{Map, Value};

use super::skill_content::shown_line;
use crate::registry::Skill;
use metier_core::excerpt::shorten;
use metier_skill::contract::{ProvidedResource, ResourceSource, ResourceUri};

/// The most resources that all skills offer together.
const MAX_RESOURCES: usize = 10_000;
/// The most characters of a name or a description.
const MAX_TEXT: usize = 500;

/// A resource of a skill.
#[derive(Clone, Debug)]
pub(super) struct OfferedResource {
    pub(super) skill: String,
    pub(super) resource: ProvidedResource,
    /// The type of its content as far as it is known before it is read.
    mime_type: Option<String>,
}

/// What can be read, and sentences about what is not offered because another skill has the address. A tool answers only where it is
/// offered itself.
pub(super) fn offered_resources<'a>(
    skills: impl Iterator<Item = &'a Skill>,
    has_tool: impl Fn(&str, &str) -> bool,
    file_type: impl Fn(&str) -> &'static str,
) -> (Vec<OfferedResource>, Vec<String>) {
    let (mut offered, mut notices): (Vec<OfferedResource>, Vec<String>) = (Vec::new(), Vec::new());
    let mut addresses = OfferedAddresses::default();
    for skill in skills {
        let resources = skill.contract().map_or(&[][..], |contract| &contract.resources);
        for resource in resources {
            let known_type = match &resource.source {
                ResourceSource::File(path) => Some(file_type(path).to_owned()),
                ResourceSource::Tool(tool) if !has_tool(skill.name(), tool) => continue,
                _ => None,
            };
            if let Some(other) = addresses.overlapping(&offered, skill, &resource.uri) {
                notices.push(format!(
                    "the resource {} of the skill {} is not offered, because {} of the skill {} may be the same address",
                    resource.uri,
                    shown_line(skill.name()),
                    other.resource.uri,
                    shown_line(&other.skill)
                ));
            } else if offered.len() == MAX_RESOURCES {
                notices.push(format!(
                    "the resource {} of the skill {} is not offered, because there are {MAX_RESOURCES} others",
                    resource.uri,
                    shown_line(skill.name())
                ));
            } else {
                addresses.add(offered.len(), &resource.uri);
                let mime_type = resource.mime_type.clone().or(known_type);
                offered.push(OfferedResource {
                    skill: skill.name().to_owned(),
                    resource: resource.clone(),
                    mime_type,
                });
            }
        }
    }
    (offered, notices)
}

/// The positions of what is offered, by which an address is compared with few others.
#[derive(Default)]
struct OfferedAddresses {
    plain: HashMap<String, Vec<usize>>,
    templates: Vec<usize>,
}

impl OfferedAddresses {
    fn add(&mut self, position: usize, uri: &ResourceUri) {
        if uri.is_template() {
            self.templates.push(position);
        } else {
            self.plain.entry(uri.as_str().to_owned()).or_default().push(position);
        }
    }

    /// The first of what another skill offers that may have the same address. Two addresses without variables are the same, or
    /// do not overlap.
    fn overlapping<'a>(
        &self,
        offered: &'a [OfferedResource],
        skill: &Skill,
        uri: &ResourceUri,
    ) -> Option<&'a OfferedResource> {
        let is_meant =
            |other: &&OfferedResource| other.skill != skill.name() && other.resource.uri.overlaps(uri);
        if uri.is_template() {
            return offered.iter().find(is_meant);
        }
        let same = self.plain.get(uri.as_str()).into_iter().flatten();
        let mut positions: Vec<usize> = same.chain(&self.templates).copied().collect();
        positions.sort_unstable();
        positions.into_iter().filter_map(|position| offered.get(position)).find(is_meant)
    }
}

impl OfferedResource {
    /// The values of the variables of an address that is one of its.
    pub(super) fn arguments(&self, uri: &str) -> Option<Map<String, Value>> {
        let values = self.resource.uri.values_in(uri)?;
        Some(values.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
    }

    /// The type of this content.
    pub(super) fn mime_type<'a>(&'a self, found: &'a str) -> &'a str {
        self.mime_type.as_deref().unwrap_or(found)
    }

    /// How a client lists it; `None` if its address has variables.
    pub(super) fn listed(&self) -> Option<Resource> {
        if self.resource.uri.is_template() {
            return None;
        }
        let mut listed = Resource::new(self.resource.uri.as_str(), self.name());
        listed.description = self.description();
        listed.mime_type.clone_from(&self.mime_type);
        Some(listed)
    }

    /// How a client lists the form of its addresses; `None` if its address has no variables.
    pub(super) fn listed_template(&self) -> Option<ResourceTemplate> {
        if !self.resource.uri.is_template() {
            return None;
        }
        let mut listed = ResourceTemplate::new(self.resource.uri.as_str(), self.name());
        listed.description = self.description();
        listed.mime_type.clone_from(&self.mime_type);
        Some(listed)
    }

    fn name(&self) -> String {
        let name = self.resource.name.as_deref().unwrap_or(self.resource.uri.as_str());
        shorten(&shown_line(name), MAX_TEXT)
    }

    fn description(&self) -> Option<String> {
        self.resource.description.as_deref().map(|text| shorten(&shown_line(text), MAX_TEXT))
    }
}
