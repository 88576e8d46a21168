//! `resources`: what can be read of a skill at addresses of its own, each a file of the skill or the answer of one of its tools.

use metier_core::suggestion::did_you_mean;
use serde::Serialize;

use super::entrypoints::{SourceLocation, normalize_path};
use super::resource_uri::ResourceUri;
use super::tools::{LocatedTool, ProvidedTool};
use crate::contract::schema::Schema;
use crate::contract::{fields, uris_overlap};
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::{Entry, Node};

const KEYS: [&str; 6] = ["uri", "name", "description", "mime_type", "file", "tool"];
/// The most resources of one skill.
const MAX_RESOURCES: usize = 256;
/// The most characters of a type.
const MAX_MIME_TYPE: usize = 100;

/// What can be read at an address.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProvidedResource {
    /// Its address, or the form of its addresses.
    pub uri: ResourceUri,
    /// What people call it.
    pub name: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// The type of its content; if absent, that of the file's extension, or what the answer of the tool is.
    pub mime_type: Option<String>,
    /// Where the content comes from.
    #[serde(flatten)]
    pub source: ResourceSource,
    #[serde(skip)]
    pub(crate) location: SourceLocation,
}

/// Where the content of a resource comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResourceSource {
    /// A file of the skill, by its path in the folder.
    File(String),
    /// A tool of the skill, which is called with the variables of the address.
    Tool(String),
}

/// The resources, in written order.
pub(in crate::contract) fn read(
    node: Option<&Node>,
    tools: &[LocatedTool<'_>],
    report: &mut DiagnosticSink<'_>,
) -> Vec<ProvidedResource> {
    let items = node.and_then(|node| fields::items(node, "resources", report)).unwrap_or_default();
    if let Some(extra) = items.get(MAX_RESOURCES) {
        let message = format!("the skill has {} resources, and may have {MAX_RESOURCES}", items.len());
        report.add(&lint::RESOURCE_INVALID, &extra.span, message).help("use an address with a variable");
        return Vec::new();
    }
    let mut resources: Vec<ProvidedResource> = Vec::new();
    for item in items {
        let Some(found) = read_resource(item, tools, report) else { continue };
        if let Some(other) = resources.iter().find(|other| uris_overlap(&other.uri, &found.uri)) {
            let message = format!("`{}` may be the same address as `{}`", found.uri, other.uri);
            report
                .add(&lint::RESOURCE_INVALID, &found.location.span, message)
                .help("give each resource addresses of its own");
        }
        resources.push(found);
    }
    resources
}

fn read_resource(
    node: &Node,
    tools: &[LocatedTool<'_>],
    report: &mut DiagnosticSink<'_>,
) -> Option<ProvidedResource> {
    let entries = fields::entries(node, "a resource", report)?;
    fields::unknown_keys(entries, &KEYS, "a resource", report);
    let field = |key: &str| fields::find(entries, key).filter(|node| !node.is_null());
    let Some(written) = field("uri") else {
        report.add(&lint::RESOURCE_INVALID, &node.span, "a resource has no `uri`").help("add it");
        return None;
    };
    let text = fields::text(Some(written), "uri", report)?;
    let uri = match ResourceUri::parse(&text) {
        Ok(uri) => uri,
        Err(reason) => {
            let shown = metier_core::excerpt::shorten(&text, 80);
            let message = format!("a skill cannot offer `{}`: {reason}", shown.escape_debug());
            report
                .add(&lint::RESOURCE_INVALID, &written.span, message)
                .help("write an address in a scheme of the skill's own, such as notes://today or notes://day/{date}");
            return None;
        }
    };
    let source = read_source(entries, node, &uri, tools, report)?;
    Some(ProvidedResource {
        location: SourceLocation::from_node(written, report),
        name: fields::text(field("name"), "name", report),
        description: fields::text(field("description"), "description", report),
        mime_type: read_mime_type(field("mime_type"), report),
        uri,
        source,
    })
}

fn read_source(
    entries: &[Entry],
    whole: &Node,
    uri: &ResourceUri,
    tools: &[LocatedTool<'_>],
    report: &mut DiagnosticSink<'_>,
) -> Option<ResourceSource> {
    let field = |key: &str| fields::find(entries, key).filter(|node| !node.is_null());
    match (field("file"), field("tool")) {
        (Some(node), None) => {
            let path = read_file_path(node, &format!("the file of `{uri}`"), report)?;
            if uri.is_template() {
                let message = format!("`{uri}` has variables, and a file has one content");
                report
                    .add(&lint::RESOURCE_INVALID, &node.span, message)
                    .help("name a `tool` that takes them");
            }
            Some(ResourceSource::File(path))
        }
        (None, Some(node)) => {
            let name = fields::text(Some(node), "tool", report)?;
            let Some(tool) = tools.iter().map(|located| &located.tool).find(|tool| tool.name == name) else {
                let names: Vec<&str> = tools.iter().map(|located| located.tool.name.as_str()).collect();
                let help = fields::similar_key(&name, &names)
                    .map_or_else(|| "declare it under `tools`".to_owned(), did_you_mean);
                let message = format!("`{uri}` names `{name}`, which is not a tool of the skill");
                report.add(&lint::RESOURCE_INVALID, &node.span, message).help(help);
                return None;
            };
            if let Some(reason) = unfit_reason(uri, tool) {
                let message = format!("`{uri}` cannot be answered by the tool `{name}`: {reason}");
                report.add(&lint::RESOURCE_INVALID, &node.span, message);
            }
            Some(ResourceSource::Tool(name))
        }
        (found, _) => {
            let (span, message) = match found {
                Some(node) => (&node.span, format!("`{uri}` has a `file` and a `tool`")),
                None => (&whole.span, format!("nothing answers `{uri}`")),
            };
            let help = "name a `file` of the skill or a `tool` of it, one of them";
            report.add(&lint::RESOURCE_INVALID, span, message).help(help);
            None
        }
    }
}

/// Why a tool cannot be called with the variables of an address, and nothing else.
fn unfit_reason(uri: &ResourceUri, tool: &ProvidedTool) -> Option<String> {
    if tool.requires_confirmation {
        return Some(
            "a person must agree to each call of it, and nobody is asked when a resource is read".to_owned(),
        );
    }
    let schema = tool.input_schema.as_ref().map(Schema::json);
    let property = |name: &str| schema?.get("properties")?.get(name);
    for name in uri.variables() {
        let Some(property) = property(name) else { return Some(format!("it has no input `{name}`")) };
        let takes_text = match &property["type"] {
            serde_json::Value::Null => true,
            serde_json::Value::Array(kinds) => kinds.iter().any(|kind| kind == "string"),
            kind => kind == "string",
        };
        if !takes_text {
            return Some(format!("its input `{name}` is not text"));
        }
    }
    let required = schema.and_then(|schema| schema.get("required")?.as_array()).into_iter().flatten();
    let mut required = required.filter_map(serde_json::Value::as_str);
    let missing = required.find(|name| !uri.variables().any(|variable| variable == *name))?;
    Some(format!("its input `{missing}` is required, and no variable of the address"))
}

/// A path of a file in the skill's folder.
fn read_file_path(node: &Node, what: &str, report: &mut DiagnosticSink<'_>) -> Option<String> {
    let written = fields::text(Some(node), what, report)?;
    let path = normalize_path(&written);
    if path.is_none() {
        let message = format!("{what}, `{written}`, is not a path in the skill's folder");
        report
            .add(&lint::RESOURCE_INVALID, &node.span, message)
            .help("write it relative to the folder, such as assets/guide.md");
    }
    path
}

fn read_mime_type(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Option<String> {
    let node = node?;
    let text = fields::text(Some(node), "mime_type", report)?;
    let is_token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    let fits = text.len() <= MAX_MIME_TYPE
        && text.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
    if !fits {
        let message = format!("`{}` is not a type", metier_core::excerpt::shorten(&text, 80).escape_debug());
        report.add(&lint::RESOURCE_INVALID, &node.span, message).help("write one such as text/markdown");
    }
    fits.then_some(text)
}

/// The most files of one prompt.
const MAX_ATTACHMENTS: usize = 16;

/// The paths in the skill's folder, in written order.
pub(in crate::contract) fn read_attachments(
    node: Option<&Node>,
    report: &mut DiagnosticSink<'_>,
) -> Vec<String> {
    let items = node.and_then(|node| fields::items(node, "attachments", report)).unwrap_or_default();
    if let Some(extra) = items.get(MAX_ATTACHMENTS) {
        let message = format!("the skill attaches {} files, and may attach {MAX_ATTACHMENTS}", items.len());
        report
            .add(&lint::RESOURCE_INVALID, &extra.span, message)
            .help("name further files in the text of the skill");
        return Vec::new();
    }
    let mut paths: Vec<String> = Vec::new();
    for item in items {
        let Some(path) = read_file_path(item, "an attachment", report) else { continue };
        if paths.contains(&path) {
            let message = format!("`{path}` is attached twice");
            report.add(&lint::RESOURCE_INVALID, &item.span, message).help("remove one of the two");
        }
        paths.push(path);
    }
    paths
}
