//! A skill's contract: the `skill.yaml` or `skill.json` beside a `SKILL.md`, or alone. Here it is read in the format of metier;
//! `formats` reads the others to the same [`Contract`].
//!
//! A model reads `SKILL.md`, which is enough for a skill. The contract is for programs: it declares inputs, outputs, scripts,
//! limits, permissions and dependencies. Its keys stand below one key `skill` or at the top of the file; [`Contract`] lists them.
//! All are optional, and unknown ones are kept.
//!
//! Parsing gives the [`Contract`] and its [`Diagnostic`](super::Diagnostic)s. With a diagnostic that blocks there is no contract;
//! the skill is still listed, but does not run, because its input could not be validated. If both files name the same thing, they
//! must agree, except for descriptions.

mod composition;
mod consistency;
pub mod fields;
mod host_needs;
mod model;
mod parse;
mod risk;
mod schema;
mod serialize;
mod tool_aliases;

mod sections;
#[cfg(test)]
#[cfg(feature = "json-schema")]
mod tests;

pub use self::composition::{NamedPersona, compose};
pub use self::host_needs::{Enrichment, HostNeeds, time_violations};
pub use self::model::{
    Contract, DefinitionFormat, McpServerAddress, Persona, Publication, StepsForm, Turn, is_tool_script,
    runtime_location, steps_location,
};
pub(crate) use self::parse::KEYS;
pub use self::parse::{
    CheckDepth, MAX_CONTRACT, ParsedContract, check_translated, duplicate_contracts, load,
    load_with_manifest, parse, parse_source, parse_with_manifest, read_definition, unreadable_contract,
};
pub use self::risk::{Sensitivity, risk_level, risk_score};
pub use self::sections::config::{MAX_FIELDS as MAX_SETTINGS, named_setting, variable};
pub use self::sections::dependencies::{
    Dependencies, Dependency, Infrastructure, InfrastructureKind, host_and_port, required_dependency,
};
pub use self::sections::entrypoints::{Entrypoint, SourceLocation, entrypoint_location};
pub use self::sections::examples::{Example, UnknownExampleKey, expected_number, unknown_example_key};
pub use self::sections::forms::InputForm;
pub use self::sections::http::base_url::{BaseUrl, ResolvedBaseUrl};
pub use self::sections::http::call::{
    CallBody, CallDefinition, CallQuery, HttpCall, ItemCount, NextPage, PagePlace, Paging, ResponseFormat,
    ResultTemplate, call_definition,
};
pub(crate) use self::sections::http::reader::read_alone as read_http_call;
pub use self::sections::http::references::{CONFIG, RESPONSE, SECRETS, named_value};
pub use self::sections::limits::ContractLimits;
pub use self::sections::metadata::ContractMetadata;
pub use self::sections::permissions::PermissionRequest;
pub use self::sections::resource_uri::{ResourceUri, uris_overlap};
pub use self::sections::resources::{ProvidedResource, ResourceSource};
pub use self::sections::tools::{ProvidedTool, ToolHandler};
pub use schema::{Schema, ValidationFailure, parse_input_schema, parse_schema, parse_tool_schema, signature};
pub(crate) use schema::{SchemaRole, escape_token, read as read_schema};
pub use tool_aliases::ToolAliases;

/// The names that the file may have. A folder has at most one of them.
pub const CONTRACT_FILES: [&str; 3] = ["skill.yaml", "skill.yml", "skill.json"];
