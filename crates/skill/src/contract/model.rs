//! A contract: what it declares, section by section.

use std::sync::Arc;

use metier_core::policy::{ConfigField, Permission};
use metier_core::sanitizer::SanitizeProfile;
use serde::Serialize;
use serde::ser::Serializer;
use serde_json::{Map, Value as Json};

use super::host_needs::HostNeeds;
use super::risk::Sensitivity;
use super::schema::Schema;
use super::sections::dependencies::Dependencies;
use super::sections::entrypoints::{Entrypoint, SourceLocation};
use super::sections::examples::Example;
use super::sections::forms::InputForm;
use super::sections::limits::ContractLimits;
use super::sections::metadata::ContractMetadata;
use super::sections::permissions::PermissionRequest;
use super::sections::resources::ProvidedResource;
use super::sections::tools::ProvidedTool;
use super::serialize::by_key;

/// A contract. In JSON every key is present, `null` or empty where the contract does not set it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Contract {
    /// The format of its file.
    pub format: DefinitionFormat,
    /// The skill's name, in Unicode NFKC.
    pub name: Option<String>,
    /// Its version.
    #[serde(serialize_with = "super::serialize::text")]
    pub version: Option<semver::Version>,
    /// What it does, for people who read contracts.
    pub description: Option<String>,
    /// The runtime of its script, as written.
    pub runtime: Option<String>,
    /// Where the runtime is written.
    #[serde(skip)]
    pub(crate) runtime_location: SourceLocation,
    /// The script that runs when the caller names none.
    pub entrypoint: Option<Entrypoint>,
    /// Scripts that can be run by these names, in written order.
    #[serde(serialize_with = "by_name")]
    pub entrypoints: Vec<(String, Entrypoint)>,
    /// The schema of the input.
    pub inputs: Option<Schema>,
    /// The schema of the output.
    pub outputs: Option<Schema>,
    /// The limits of a run.
    pub limits: ContractLimits,
    /// The requested permissions; `None` if the contract leaves them to `allowed-tools`.
    pub permissions: Option<Vec<PermissionRequest>>,
    /// The environment variables that its external script asks for, each the permission `env:NAME`.
    pub env: Vec<Permission>,
    /// Its settings and secrets, in written order.
    #[serde(serialize_with = "fields_by_key")]
    pub config: Arc<[ConfigField]>,
    /// The programs, skills and infrastructure that it needs.
    pub dependencies: Dependencies,
    /// Facts for callers, such as duration and risk.
    pub metadata: ContractMetadata,
    /// Example calls with their outputs.
    pub examples: Vec<Example>,
    /// Paths below the skill's folder that a running skill writes. They are no part of its digest.
    pub state: Vec<String>,
    /// The key under which its steps are written, if it is a plan.
    pub steps: Option<StepsForm>,
    /// Where the steps are written.
    #[serde(skip)]
    pub(crate) steps_location: SourceLocation,
    /// Who may call it.
    pub sensitivity: Sensitivity,
    /// What is changed besides secrets and invisible characters in what a model reads of its runs.
    pub sanitize: Option<SanitizeProfile>,
    /// What its script expects of the host.
    pub host_needs: HostNeeds,
    /// What a model becomes while the skill is active.
    pub persona: Option<Persona>,
    /// The URL below which its declared HTTP calls stay.
    pub base_url: Option<String>,
    /// The tools that it offers.
    pub tools: Vec<ProvidedTool>,
    /// Those that only its own scripts call.
    pub internal_tools: Vec<ProvidedTool>,
    /// What a person is asked for where a call does not give it, in the order in which it is asked.
    pub forms: Vec<InputForm>,
    /// What can be read of it at addresses of its own.
    pub resources: Vec<ProvidedResource>,
    /// Paths of the files that its prompt has with it.
    pub attachments: Vec<String>,
    /// The server that it brings.
    pub mcp: Option<McpServerAddress>,
    /// Names of tools, each with names that mean the same.
    #[serde(serialize_with = "aliases_by_name")]
    pub tool_aliases: Vec<(String, Vec<String>)>,
    /// The facts of catalogs.
    pub publication: Publication,
    /// All other keys.
    pub unknown: Map<String, Json>,
}

/// The key under which the steps of a plan are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepsForm {
    /// Under `steps`.
    Steps,
    /// Under `composed_of`.
    ComposedOf,
}

impl Contract {
    /// The script that runs when the caller names none: the entrypoint, `main` among the named ones, or the only one of them.
    pub fn main_entrypoint(&self) -> Option<&Entrypoint> {
        let only = match &self.entrypoints[..] {
            [(_, only)] => Some(only),
            _ => None,
        };
        self.entrypoint.as_ref().or_else(|| self.entrypoint_by_name("main")).or(only)
    }

    /// The paths of the scripts that it names, each once, in written order.
    pub(crate) fn named_scripts(&self) -> Vec<&str> {
        let entrypoints = self.entrypoint.iter().chain(self.entrypoints.iter().map(|(_, entry)| entry));
        let all = entrypoints.chain(self.all_tools().filter_map(ProvidedTool::script));
        let mut paths = Vec::new();
        for path in all.map(|entrypoint| entrypoint.path.as_str()) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }

    /// The tool of that name, offered or internal.
    pub fn tool(&self, name: &str) -> Option<&ProvidedTool> {
        self.all_tools().find(|tool| tool.name == name)
    }

    /// The tools that it offers, and those that only its own scripts call.
    pub fn all_tools(&self) -> impl Iterator<Item = &ProvidedTool> {
        self.tools.iter().chain(&self.internal_tools)
    }

    /// The entrypoint of that name; `main` is the one that runs when none is named.
    pub fn entrypoint_by_name(&self, name: &str) -> Option<&Entrypoint> {
        let named =
            self.entrypoints.iter().find(|(known, _)| known == name).map(|(_, entrypoint)| entrypoint);
        named.or_else(|| self.entrypoint.as_ref().filter(|_| name == "main"))
    }
}

/// Where a contract names its runtime.
pub fn runtime_location(contract: &Contract) -> &SourceLocation {
    &contract.runtime_location
}

/// Where a contract has its steps.
pub fn steps_location(contract: &Contract) -> &SourceLocation {
    &contract.steps_location
}

/// Whether a script of that path runs only when a tool is called: a tool names it, and no entrypoint does.
pub fn is_tool_script(contract: &Contract, path: &str) -> bool {
    let named = contract.entrypoints.iter().map(|(_, entrypoint)| entrypoint);
    let mut entrypoints = contract.entrypoint.iter().chain(named);
    contract.all_tools().filter_map(ProvidedTool::script).any(|script| script.path == path)
        && !entrypoints.any(|entrypoint| entrypoint.path == path)
}

fn fields_by_key<S: Serializer>(fields: &[ConfigField], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(fields.iter().map(|field| (&field.key, field)))
}

fn aliases_by_name<S: Serializer>(
    aliases: &[(String, Vec<String>)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(aliases.iter().map(|(name, others)| (name, others)))
}

fn by_name<S: Serializer>(entrypoints: &[(String, Entrypoint)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entrypoints.iter().map(|(name, entrypoint)| (name, entrypoint)))
}

/// What a skill without a script gives a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Persona {
    /// The text that a model reads. Where there is a `SKILL.md` too, its text comes first.
    pub instructions: String,
    /// What a model may be shown: single turns.
    pub examples: Vec<Turn>,
    /// The tools it uses, by their names.
    pub tools: Vec<String>,
    /// The skills that it may hand over to, by their names. They may form a circle.
    pub delegates: Vec<String>,
    /// From 0 to 2; only advice.
    pub temperature: Option<f64>,
}

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Turn {
    /// What is asked.
    pub input: String,
    /// What is answered.
    pub output: String,
}

impl Turn {
    pub(crate) fn new(input: String, output: String) -> Self {
        Self { input, output }
    }
}

/// The facts of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Publication {
    /// A label for people; the name is the identity.
    pub display_name: Option<String>,
    /// The function of the skill, such as `git`.
    pub category: Option<String>,
    /// Who published it.
    pub publisher: Option<String>,
    /// When, as written.
    pub published_at: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Its page.
    pub homepage: Option<String>,
}

/// How to reach a server. Nothing starts or calls it by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct McpServerAddress {
    /// The program that is the server; one of `command` and `url` is set.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// The address of a server on the web.
    pub url: Option<String>,
    /// The headers of each request.
    #[serde(serialize_with = "by_key")]
    pub headers: Vec<(String, String)>,
    /// The environment variables that it needs, each with what it is for.
    #[serde(serialize_with = "by_key")]
    pub env: Vec<(String, String)>,
}

/// A format of definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DefinitionFormat {
    /// The contract of metier, which structured skill definitions (`skill:` with inputs, outputs, dependencies) are part of.
    #[default]
    Contract,
    /// The manifest of a Curia skill, whose script is `handler.ts` or `handler.js`.
    Curia,
    /// A skill object of SWEny.
    Sweny,
    /// The keys that SWEny adds to the frontmatter of a `SKILL.md`.
    #[serde(rename = "sweny-skill-md")]
    SwenyFrontmatter,
    /// A skill of AgentsKit: what a model becomes.
    #[serde(rename = "agentskit")]
    AgentsKit,
    /// A published package of AgentsKit, with one skill.
    #[serde(rename = "agentskit-package")]
    AgentsKitPackage,
    /// A manifest of AgentsKit, with one skill or none, and tools.
    #[serde(rename = "agentskit-manifest")]
    AgentsKitManifest,
}

impl DefinitionFormat {
    /// What people call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Contract => "a contract",
            Self::Curia => "a Curia manifest",
            Self::Sweny => "a SWEny skill",
            Self::SwenyFrontmatter => "a SKILL.md of SWEny",
            Self::AgentsKit => "an AgentsKit skill",
            Self::AgentsKitPackage => "an AgentsKit package",
            Self::AgentsKitManifest => "an AgentsKit manifest",
        }
    }

    /// The scripts in the skill's folder of which the first that exists is run; empty where the contract or the folder `scripts`
    /// says what runs.
    pub fn handlers(self) -> &'static [&'static str] {
        match self {
            Self::Curia => &["handler.ts", "handler.js"],
            _ => &[],
        }
    }
}
