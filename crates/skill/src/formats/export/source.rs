//! What is read of a skill to write it in another form, and what that form cannot hold.

use serde_json::{Value as Json, json};

use crate::Manifest;
use crate::contract::{Contract, Sensitivity};

/// A skill, as what is written of it is read.
#[derive(Clone, Copy, Debug)]
pub struct ExportSource<'a> {
    /// Its manifest.
    pub manifest: &'a Manifest,
    /// Its contract.
    pub contract: Option<&'a Contract>,
    /// The text that a model reads.
    pub text: &'a str,
}

impl ExportSource<'_> {
    /// The schema of the input, or one that accepts any object.
    pub(super) fn input_schema(self) -> Json {
        let inputs = self.contract.and_then(|contract| contract.inputs.as_ref());
        inputs.map_or_else(|| json!({"type": "object"}), |schema| schema.json().clone())
    }
}

/// A value as the text of a file.
pub(super) fn json_text(value: &Json) -> String {
    format!("{value:#}\n")
}

/// A part of a skill, which a form holds or loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SkillPart {
    Text,
    Version,
    License,
    Compatibility,
    Metadata,
    AllowedTools,
    Inputs,
    Outputs,
    OutputDescriptions,
    Risk,
    Sensitivity,
    Timeout,
    Limits,
    Permissions,
    Variables,
    Scripts,
    Dependencies,
    Settings,
    Facts,
    Cases,
    State,
    Steps,
    Capabilities,
    Secrets,
    Timestamps,
    Enrichment,
    Turns,
    Tools,
    Delegates,
    Temperature,
    ProvidedTools,
    Forms,
    Resources,
    Attachments,
    Sanitize,
    Server,
    Aliases,
    Category,
    DisplayName,
    Publisher,
    UnknownKeys,
}

/// What a writer gives back: the text, the parts of a skill that it holds, and what it had to say in other words.
pub(super) type Written = (String, &'static [SkillPart], Vec<String>);

/// A part, what it is called, and whether a contract has it.
type ContractPart = (SkillPart, &'static str, fn(&Contract) -> bool);

/// Each part, what it is called, and whether a contract has it. Those of manifests are below.
const CONTRACT_PARTS: [ContractPart; 33] = [
    (SkillPart::Inputs, "the schema of the input", |c| c.inputs.is_some()),
    (SkillPart::Outputs, "the schema of the output", |c| c.outputs.is_some()),
    (SkillPart::OutputDescriptions, "the descriptions of the output", |c| {
        !c.host_needs.output_descriptions.is_empty()
    }),
    (SkillPart::Risk, "the risk", |c| c.metadata.risk_level.is_some()),
    (SkillPart::Sensitivity, "that only some may call it", |c| c.sensitivity != Sensitivity::Normal),
    (SkillPart::Timeout, "the timeout", |c| c.limits.timeout.is_some()),
    (SkillPart::Limits, "the limits of memory, operations and output", |c| {
        c.limits.memory.is_some() || c.limits.operations.is_some() || c.limits.output.is_some()
    }),
    (SkillPart::Permissions, "the requested permissions", |c| {
        c.permissions.as_ref().is_some_and(|permissions| !permissions.is_empty())
    }),
    (SkillPart::Variables, "the environment variables", |c| !c.env.is_empty()),
    (SkillPart::Scripts, "the runtime and the entrypoints", |c| {
        c.runtime.is_some() || c.entrypoint.is_some() || !c.entrypoints.is_empty()
    }),
    (SkillPart::Dependencies, "the dependencies", |c| {
        let needed = &c.dependencies;
        !needed.tools.is_empty() || !needed.skills.is_empty() || !needed.infrastructure.is_empty()
    }),
    (SkillPart::Settings, "the settings and secrets that it declares", |c| !c.config.is_empty()),
    (SkillPart::Facts, "duration, cost, caching and other facts", |c| {
        let facts = &c.metadata;
        facts.estimated_duration.is_some()
            || facts.cost.is_some()
            || facts.idempotent.is_some()
            || facts.cacheable.is_some()
            || facts.cache_ttl.is_some()
            || !facts.unknown.is_empty()
    }),
    (SkillPart::Cases, "the examples that are tests", |c| !c.examples.is_empty()),
    (SkillPart::State, "the paths of its state", |c| !c.state.is_empty()),
    (SkillPart::Steps, "the steps", |c| c.steps.is_some()),
    (SkillPart::Capabilities, "the capabilities", |c| !c.host_needs.capabilities.is_empty()),
    (SkillPart::Secrets, "the secrets", |c| !c.host_needs.secrets.is_empty()),
    (SkillPart::Timestamps, "that inputs are points in time", |c| !c.host_needs.timestamps.is_empty()),
    (SkillPart::Enrichment, "what the host adds to the input", |c| c.host_needs.enrichment.is_some()),
    (SkillPart::Turns, "the examples for a model", |c| {
        c.persona.as_ref().is_some_and(|persona| !persona.examples.is_empty())
    }),
    (SkillPart::Tools, "the tools that it uses", |c| {
        c.persona.as_ref().is_some_and(|persona| !persona.tools.is_empty())
    }),
    (SkillPart::Delegates, "the skills that it may hand over to", |c| {
        c.persona.as_ref().is_some_and(|persona| !persona.delegates.is_empty())
    }),
    (SkillPart::Temperature, "the temperature", |c| {
        c.persona.as_ref().is_some_and(|persona| persona.temperature.is_some())
    }),
    (SkillPart::ProvidedTools, "the tools that it offers", |c| !c.tools.is_empty()),
    (SkillPart::Forms, "the forms that a person fills in", |c| !c.forms.is_empty()),
    (SkillPart::Resources, "the resources that it offers", |c| !c.resources.is_empty()),
    (SkillPart::Sanitize, "how what a model reads is sanitized", |c| c.sanitize.is_some()),
    (SkillPart::Attachments, "the files that its prompt has with it", |c| !c.attachments.is_empty()),
    (SkillPart::Server, "the server that it brings", |c| c.mcp.is_some()),
    (SkillPart::Aliases, "other names of tools", |c| !c.tool_aliases.is_empty()),
    (SkillPart::Category, "the category", |c| c.publication.category.is_some()),
    (SkillPart::DisplayName, "the label", |c| c.publication.display_name.is_some()),
];

/// What of the skill is not among the parts that a form holds.
pub(super) fn losses(skill: ExportSource<'_>, held: &[SkillPart]) -> Vec<&'static str> {
    let manifest = skill.manifest;
    let publication = skill.contract.map(|contract| &contract.publication);
    let is_published = publication.is_some_and(|facts| {
        facts.publisher.is_some()
            || facts.published_at.is_some()
            || !facts.tags.is_empty()
            || facts.homepage.is_some()
    });
    let has_unknown = skill.contract.is_some_and(|contract| !contract.unknown.is_empty());
    let of_manifest = [
        (SkillPart::Text, "the text", !skill.text.is_empty() && skill.text != manifest.description),
        (SkillPart::Version, "the version", manifest.version != semver::Version::new(0, 0, 0)),
        (SkillPart::License, "the license", manifest.license.is_some()),
        (SkillPart::Compatibility, "the compatibility", manifest.compatibility.is_some()),
        (
            SkillPart::Metadata,
            "the metadata of SKILL.md",
            manifest.metadata.keys().any(|key| key != "version"),
        ),
        (SkillPart::AllowedTools, "the allowed tools", !manifest.allowed_tools.is_empty()),
        (SkillPart::Publisher, "publisher, date, tags and page", is_published),
        (SkillPart::UnknownKeys, "keys that no format knows", has_unknown || !manifest.unknown.is_empty()),
    ];
    let of_contract =
        CONTRACT_PARTS.into_iter().map(|(part, name, has)| (part, name, skill.contract.is_some_and(has)));
    let parts = of_manifest.into_iter().chain(of_contract);
    parts.filter(|(part, _, is_there)| *is_there && !held.contains(part)).map(|(_, name, _)| name).collect()
}
