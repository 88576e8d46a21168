//! The way from a description to a skill.

use super::contract_text::{MAX_TOOLS, SkillFacts, contract_text, skill_text};
use super::document::{Document, text};
use super::operation::{Operation, operations};
use super::report::{OperationGroup, Refusal, count};
use super::schema::WorkBudget;
use super::security::{OAUTH, OPENID_CONNECT, OpenApiAuthentication, SecuritySchemes};
use super::selection::{Choice, choice_help, choose};
use super::server::{first_server, parse_base_url};
use super::service_name::{host_name, secret_prefix, service_name, skill_name};
use super::text::plain_text;
use super::tool::{ImportedTool, ToolScope, check_inputs, translate};
use crate::contract::MAX_CONTRACT;
use crate::formats::{self, ImportedSkill};
use crate::lint;
use crate::name::is_allowed_name;
use crate::yaml::MAX_NODES;
use metier_core::error::{Hint, Result};
use metier_core::excerpt::shorten;

/// The name of the contract.
const CONTRACT_FILE: &str = "skill.yaml";
/// The most characters of what the skill says of itself.
const MAX_TEXT: usize = 400;

/// What is made of a description, and how.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OpenApiOptions {
    /// The name of the skill; by default it is made of the title.
    pub name: Option<String>,
    /// The URL below which all calls stay; by default that of the first server, with the defaults of its variables.
    pub base_url: Option<String>,
    /// Where the description comes from. A server may be written relative to it.
    pub source_url: Option<String>,
    /// Which operations become tools; all of them if there is no pattern. Each pattern is `tag:NAME`, a path, a method and a path, or an
    /// id. `*` stands for any characters, in a path for any but a slash, and `**` for all. Several may be separated by commas.
    pub only: Vec<String>,
    /// Whether deprecated operations become tools that no pattern names.
    pub includes_deprecated: bool,
    /// How calls authenticate, whatever the description says of it.
    pub authentication: Option<OpenApiAuthentication>,
}

/// A skill that was made of a description.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenApiImport {
    /// Its files: a `SKILL.md` and a `skill.yaml`.
    pub skill: ImportedSkill,
    /// How many operations the description has.
    pub operations: usize,
    /// How many of them were chosen.
    pub chosen: usize,
    /// How many of those became tools.
    pub tools: usize,
    /// The chosen operations that became no tool, by the reason.
    pub left_out: Vec<OperationGroup>,
    /// The tools that have less than their operation, by what is missing.
    pub simplified: Vec<OperationGroup>,
}

/// A skill whose tools are the operations of a description in JSON or YAML. Errors name the file.
///
/// `invalid-skill` for what is no description of OpenAPI 3.0 or 3.1, has no operation that can be called, or has more than a contract
/// has place for; `usage` for options that do not fit it. Calls are declared for methods, paths, queries, headers and JSON bodies;
/// an operation that needs more is listed under [`OpenApiImport::left_out`].
pub fn import_openapi(file_name: &str, source: &[u8], options: &OpenApiOptions) -> Result<OpenApiImport> {
    make(source, options).map_err(|refusal| refusal.into_error(file_name))
}

fn make(source: &[u8], options: &OpenApiOptions) -> std::result::Result<OpenApiImport, Refusal> {
    if let Some(place) = &options.authentication
        && !place.is_possible()
    {
        return Err(Refusal::usage("calls cannot carry a secret in a header or parameter of that name"));
    }
    let document = Document::parse(source)?;
    let source_url = options.source_url.as_deref();
    let own_server = first_server(document.root().get("servers"), source_url);
    let base_url = match &options.base_url {
        Some(url) => parse_base_url(url).map_err(|reason| {
            let help = "write one such as https://api.example.com/v1";
            Refusal::usage(reason).with_help(help).with_hint(Hint::BaseUrl)
        })?,
        None => own_server.clone().map_err(|reason| {
            Refusal::invalid(reason).with_help("name the base URL of the calls").with_hint(Hint::BaseUrl)
        })?,
    };
    let info = document.map(&["info"]);
    let service = service_name(text(info, "title").unwrap_or_default());
    let service = service.or_else(|| host_name(&base_url).map(str::to_owned));
    let name = skill_name_of(options, service.as_deref())?;
    let service = service.unwrap_or_else(|| name.clone());
    let operations = operations(&document)?;
    let chosen = choose(&operations, &options.only)?;
    let schemes = SecuritySchemes::read(&document, &secret_prefix(&name), options.authentication.as_ref());
    let scope = ToolScope {
        document: &document,
        schemes: &schemes,
        base_url: &base_url,
        own_server: own_server.as_deref().ok(),
        source_url,
    };
    let (tools, left_out, simplified) = tools(&scope, &chosen, options.includes_deprecated);
    if tools.is_empty() {
        return Err(no_tool(&left_out, chosen.len()));
    }
    let description = description(&service, text(info, "description").unwrap_or_default());
    let facts = SkillFacts { name: &name, service: &service, description: &description, base_url: &base_url };
    let contract =
        contract_text(&facts, &tools).map_err(|count| too_many(tools.len(), count, &operations))?;
    check_contract(&contract, &name)?;
    let files = vec![
        ("SKILL.md".to_owned(), skill_text(&facts, &tools).into_bytes()),
        (CONTRACT_FILE.to_owned(), contract.into_bytes()),
    ];
    let skill = ImportedSkill { name: name.clone(), files, diagnostics: Vec::new(), missing: Vec::new() };
    let (operations, chosen, tools) = (operations.len(), chosen.len(), tools.len());
    Ok(OpenApiImport { skill, operations, chosen, tools, left_out, simplified })
}

fn skill_name_of(options: &OpenApiOptions, service: Option<&str>) -> std::result::Result<String, Refusal> {
    match &options.name {
        Some(name) if is_allowed_name(name) => Ok(name.clone()),
        Some(name) => {
            let shown = shorten(name, 80).escape_debug().to_string();
            let refusal = Refusal::usage(format!("`{shown}` cannot be the name of a skill"));
            let help = match crate::suggested_name(name) {
                Some(other) => format!("write {other}"),
                None => "write small letters, digits and hyphens".to_owned(),
            };
            Err(refusal.with_help(help).with_hint(Hint::SkillName))
        }
        None => service.and_then(skill_name).ok_or_else(|| {
            Refusal::usage("its title makes no name of a skill")
                .with_help("name the skill")
                .with_hint(Hint::SkillName)
        }),
    }
}

/// The tools of the operations, those that become none, and what is missing of others.
type Tools<'d> = (Vec<ImportedTool<'d>>, Vec<OperationGroup>, Vec<OperationGroup>);

fn tools<'d>(scope: &ToolScope<'d>, chosen: &[Choice<'_, 'd>], includes_deprecated: bool) -> Tools<'d> {
    let mut work = WorkBudget::new();
    let (mut tools, mut left_out, mut simplified) = (Vec::new(), Vec::new(), Vec::new());
    for Choice { operation, is_named } in chosen {
        let translated = if operation.is_deprecated && !includes_deprecated && !is_named {
            Err("it is deprecated, and no pattern names it".to_owned())
        } else {
            translate(scope, operation, &mut work)
        };
        // Schemas are compiled for as many as there can be.
        let checked = translated.and_then(|mut tool| {
            if tools.len() < MAX_TOOLS {
                check_inputs(&mut tool)?;
            }
            Ok(tool)
        });
        match checked {
            Ok(mut tool) => {
                tool.notes.dedup();
                tool.notes.iter().for_each(|note| count(&mut simplified, note, &operation.line()));
                tools.push(tool);
            }
            Err(reason) => count(&mut left_out, &reason, &operation.line()),
        }
    }
    for groups in [&mut left_out, &mut simplified] {
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    }
    (tools, left_out, simplified)
}

/// What the skill is for, to whoever chooses one.
fn description(service: &str, written: &str) -> String {
    let sentence = format!("Calls operations of {service}.");
    let written = plain_text(written, MAX_TEXT.saturating_sub(sentence.chars().count() + 1));
    if written.is_empty() { sentence } else { format!("{sentence} {written}") }
}

fn no_tool(left_out: &[OperationGroup], chosen: usize) -> Refusal {
    if chosen == 0 {
        return Refusal::invalid("it has no operations");
    }
    let first = left_out.first().map(|group| format!(": {} ({} of {chosen})", group.reason, group.count));
    let refusal =
        Refusal::invalid(format!("none of its operations can be called{}", first.unwrap_or_default()));
    let needs_token = |group: &OperationGroup| matches!(group.reason.as_str(), OAUTH | OPENID_CONNECT);
    if left_out.iter().all(needs_token) {
        let help = "get a token in another way, and say that calls carry it";
        return refusal.with_help(help).with_hint(Hint::Authentication);
    }
    refusal
}

fn too_many(tools: usize, count: usize, operations: &[Operation<'_>]) -> Refusal {
    let reason = format!(
        "a contract has place for the first {count} of {tools} tools: it has at most {} KiB, {MAX_NODES} values and {MAX_TOOLS} tools",
        MAX_CONTRACT / 1024
    );
    Refusal::invalid(reason).with_help(choice_help(operations)).with_hint(Hint::OperationChoice)
}

/// What is written must be read without a diagnostic, but for what this build cannot check.
fn check_contract(contract: &str, name: &str) -> std::result::Result<(), Refusal> {
    let (_, parsed) = formats::parse_alone(CONTRACT_FILE, contract.as_bytes(), name);
    match parsed.diagnostics.iter().find(|found| found.code != lint::SCHEMA_UNCHECKED.code) {
        None => Ok(()),
        Some(found) => {
            let reason =
                format!("what was made of it is no contract: line {}: {}", found.line, found.message);
            Err(Refusal::invalid(reason)
                .with_help("leave out the operation at that line")
                .with_hint(Hint::OperationChoice))
        }
    }
}
