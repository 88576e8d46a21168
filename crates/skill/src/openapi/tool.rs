//! An operation as a tool of a contract: its inputs, and the call that they are sent with.

use std::collections::HashSet;

use serde_json::{Map, Value as Json};

use super::body::{self, Body};
use super::document::{Document, items};
use super::operation::Operation;
use super::parameters::{self, Parameter, ParameterPlace};
use super::schema::{SchemaReader, WorkBudget};
use super::security::{Credential, OpenApiAuthentication, SecuritySchemes};
use super::server;
use super::text::plain_text;
use crate::contract::parse_tool_schema;
use metier_core::excerpt::shorten;
use metier_core::template::{PathSegment, Reference, ReferenceBody, ReferenceRoot};

/// How many levels of fields and items are described, from the first that is small enough.
const DEPTHS: [usize; 6] = [8, 5, 4, 3, 2, 1];
/// The most values of the inputs of one tool, and what is accepted where they cannot be described with less.
const MAX_VALUES: usize = 500;
const MAX_FLAT_VALUES: usize = 2_000;
/// The most characters of the name of an input.
const MAX_INPUT_NAME: usize = 64;
/// The most characters of a description.
const MAX_DESCRIPTION: usize = 300;

/// What the operations of a description have in common.
pub(super) struct ToolScope<'d> {
    pub(super) document: &'d Document,
    pub(super) schemes: &'d SecuritySchemes<'d>,
    pub(super) base_url: &'d str,
    /// The server of the description, where the base URL is another.
    pub(super) own_server: Option<&'d str>,
    pub(super) source_url: Option<&'d str>,
}

/// A tool, as a contract has it.
pub(super) struct ImportedTool<'d> {
    pub(super) definition: Map<String, Json>,
    pub(super) credentials: Vec<&'d Credential>,
    /// What the operation has and the tool has not.
    pub(super) notes: Vec<&'static str>,
}

/// The tool of an operation, or why calls cannot make it.
pub(super) fn translate<'d>(
    scope: &ToolScope<'d>,
    operation: &Operation<'d>,
    work: &mut WorkBudget,
) -> Result<ImportedTool<'d>, String> {
    if matches!(operation.method, "OPTIONS" | "TRACE") {
        return Err("its method is none of a call".to_owned());
    }
    check_server(scope, operation)?;
    check_path(operation)?;
    let credentials = scope.schemes.of_operation(operation)?;
    let answer = body::read_responses(scope.document, operation)?;
    work.start_operation();
    let mut smallest = Err("its schemas are too large".to_owned());
    for depth in DEPTHS {
        let max = if depth == 1 { MAX_FLAT_VALUES } else { MAX_VALUES };
        // Each schema has a name and a value at least.
        let mut schemas = SchemaReader::new(scope.document, work, (depth, max / 2));
        let read = request(scope.document, operation, &credentials, &mut schemas);
        let is_simplified = schemas.is_simplified;
        match read {
            // At a lower depth there is less to do.
            Err(reason) if reason == TOO_LARGE && depth > 1 => work.start_operation(),
            Err(reason) => return Err(reason),
            Ok(request) => {
                let size = count_values(&request.inputs);
                if size <= max {
                    smallest = Ok((request, is_simplified));
                    break;
                }
            }
        }
    }
    let (mut request, is_simplified) = smallest?;
    if is_simplified {
        request
            .notes
            .push("parts of its schemas are described as open: recursion, depth, or what inputs cannot say");
    }
    if answer.is_text {
        request.call.insert("response".to_owned(), "text".into());
    }
    if let Some(accept) = answer.accept {
        request.headers.insert("Accept".to_owned(), escape(&accept).into());
    }
    if !request.headers.is_empty() {
        request.call.insert("headers".to_owned(), request.headers.into());
    }
    let mut definition = Map::new();
    definition.insert("name".to_owned(), operation.name.as_str().into());
    definition.insert("description".to_owned(), description(operation).into());
    definition.insert("risk_level".to_owned(), risk_level(operation.method).into());
    definition.insert("inputs".to_owned(), request.inputs);
    definition.insert("http".to_owned(), ordered(request.call).into());
    Ok(ImportedTool { definition, credentials, notes: request.notes })
}

/// Whether the inputs of a tool are a schema that values can be validated against, perhaps without their patterns.
pub(super) fn check_inputs(tool: &mut ImportedTool<'_>) -> Result<(), String> {
    let Some(inputs) = tool.definition.get_mut("inputs") else { return Ok(()) };
    if parse_tool_schema(inputs.clone()).is_ok() {
        return Ok(());
    }
    remove_patterns(inputs);
    tool.notes.push("patterns are left out that are none here, such as those with look-around");
    parse_tool_schema(inputs.clone())
        .map(drop)
        .map_err(|reason| format!("its inputs cannot be described: {}", shorten(&reason, 100).escape_debug()))
}

/// The reason of [`Fault::TooLarge`](super::report::Fault::TooLarge).
const TOO_LARGE: &str = "its schemas are too large";

/// A request, as a call declares it, and the inputs that it is made of.
struct Request {
    inputs: Json,
    call: Map<String, Json>,
    headers: Map<String, Json>,
    notes: Vec<&'static str>,
}

fn request<'d>(
    document: &'d Document,
    operation: &Operation<'d>,
    credentials: &[&Credential],
    schemas: &mut SchemaReader<'d, '_>,
) -> Result<Request, String> {
    let (parameters, mut notes) = parameters::read(document, operation, schemas)?;
    let (request_body, body_note) = body::read(document, operation, schemas)?;
    notes.extend(body_note);
    let mut inputs = Inputs::default();
    let (mut call, mut headers) = (Map::new(), Map::new());
    if operation.method != "GET" {
        call.insert("method".to_owned(), operation.method.into());
    }
    let mut path_inputs: Vec<(&str, String)> = Vec::new();
    let (mut multi_segment, mut deep_object): (Vec<Json>, Vec<Json>) = (Vec::new(), Vec::new());
    let mut query = Map::new();
    for Parameter { name, place, is_required, schema, is_multi_segment, is_deep } in parameters {
        if credentials.iter().any(|credential| carries(&credential.place, place, name)) {
            continue;
        }
        let prefix = match place {
            ParameterPlace::Path => "path",
            ParameterPlace::Query => "query",
            ParameterPlace::Header => "header",
        };
        let input = inputs.add(name, prefix, schema, is_required);
        let reference = reference(&input);
        match place {
            ParameterPlace::Path => {
                let is_alone = operation.path.split('/').any(|segment| segment == format!("{{{name}}}"));
                multi_segment.extend((is_multi_segment && is_alone).then(|| Json::from(input.as_str())));
                path_inputs.push((name, input));
            }
            ParameterPlace::Query => {
                deep_object.extend(is_deep.then(|| Json::from(name)));
                query.insert(name.to_owned(), reference.into());
            }
            ParameterPlace::Header => drop(headers.insert(name.to_owned(), reference.into())),
        }
    }
    call.insert("path".to_owned(), path_template(operation.path, &path_inputs).into());
    if !multi_segment.is_empty() {
        call.insert("multi_segment".to_owned(), multi_segment.into());
    }
    for credential in credentials {
        match &credential.place {
            OpenApiAuthentication::Bearer => {
                let value = format!("Bearer ${{secrets.{}}}", credential.secret);
                headers.insert("Authorization".to_owned(), value.into());
            }
            OpenApiAuthentication::Basic => {
                let value = format!("Basic ${{secrets.{}}}", credential.secret);
                headers.insert("Authorization".to_owned(), value.into());
            }
            OpenApiAuthentication::Header(name) => {
                headers.insert(name.clone(), format!("$secrets.{}", credential.secret).into());
            }
            OpenApiAuthentication::Query(name) => {
                query.insert(name.clone(), format!("$secrets.{}", credential.secret).into());
            }
        }
    }
    if !query.is_empty() {
        call.insert("query".to_owned(), query.into());
    }
    if let Some(request_body) = request_body {
        if let Some(kind) = request_body.content_type {
            headers.insert("Content-Type".to_owned(), escape(&kind).into());
        }
        if let Body::Form { deep, .. } = &request_body.body {
            for name in deep {
                if !deep_object.iter().any(|known| known == name.as_str()) {
                    deep_object.push(name.as_str().into());
                }
            }
        }
        let key = match &request_body.body {
            Body::Form { .. } => "form",
            Body::Text(_) => "text",
            Body::Fields { .. } | Body::Whole(_) => "body",
        };
        let sent = match request_body.body {
            Body::Fields { fields, required } | Body::Form { fields, required, .. } => {
                let mut sent = Map::new();
                for (name, schema) in fields {
                    let is_required = required.contains(&name);
                    let schema = match schema {
                        Json::Object(schema) => schema,
                        _ => Map::new(),
                    };
                    let input = inputs.add(&name, "body", schema, is_required);
                    sent.insert(name, reference(&input).into());
                }
                sent.into()
            }
            Body::Whole(schema) => reference(&inputs.add("body", "json", schema, true)).into(),
            Body::Text(schema) => reference(&inputs.add("body", "text", schema, true)).into(),
        };
        call.insert(key.to_owned(), sent);
    }
    if !deep_object.is_empty() {
        call.insert("deep_object".to_owned(), deep_object.into());
    }
    Ok(Request { inputs: inputs.into_schema(), call, headers, notes })
}

/// The inputs of a tool, each with a name of its own.
#[derive(Default)]
struct Inputs {
    properties: Map<String, Json>,
    required: Vec<String>,
    /// The names in small letters, which differ for every reader.
    names: HashSet<String>,
}

impl Inputs {
    /// Adds an input and returns its name: that of the parameter, with the prefix if there is one of that name already.
    fn add(&mut self, name: &str, prefix: &str, mut schema: Map<String, Json>, is_required: bool) -> String {
        let name = input_name(name);
        let prefixed = format!("{prefix}_{name}");
        let candidates = [name.clone(), prefixed.clone()].into_iter();
        let mut candidates = candidates.chain((2..).map(|number| format!("{prefixed}_{number}")));
        let name = candidates.find(|name| self.names.insert(name.to_lowercase())).unwrap_or(prefixed);
        // What a request sends is not filled in, so what is optional says so by its absence.
        schema.shift_remove("default");
        self.properties.insert(name.clone(), schema.into());
        if is_required {
            self.required.push(name.clone());
        }
        name
    }

    fn into_schema(self) -> Json {
        let mut schema = Map::from_iter([("type".to_owned(), Json::from("object"))]);
        if self.properties.is_empty() {
            schema.insert("additionalProperties".to_owned(), false.into());
        } else {
            schema.insert("properties".to_owned(), self.properties.into());
        }
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), self.required.into());
        }
        schema.into()
    }
}

/// A name in the letters that every client of tools takes.
fn input_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    // What closed a bracket is nothing at the end of a name.
    let plain = if name.ends_with(is_plain) { &plain } else { plain.trim_end_matches('_') };
    let plain: String = plain.chars().take(MAX_INPUT_NAME - 10).collect();
    let is_empty = plain.chars().all(|c| c == '_' || c == '-' || c == '.');
    if is_empty { "value".to_owned() } else { plain }
}

fn input_reference(input: &str) -> Reference {
    Reference { root: ReferenceRoot::Inputs, path: vec![PathSegment::Field(input.to_owned())] }
}

fn reference(input: &str) -> String {
    input_reference(input).to_string()
}

/// The path with references in place of its parameters.
fn path_template(path: &str, inputs: &[(&str, String)]) -> String {
    let mut template = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        template.push_str(&escape(before));
        if let Some((_, input)) = inputs.iter().find(|(known, _)| *known == name) {
            let reference = ReferenceBody(&input_reference(input)).to_string();
            template.extend(["${", &reference, "}"]);
        }
        rest = after;
    }
    template + &escape(rest)
}

/// A text that a template has as it is.
fn escape(text: &str) -> String {
    text.replace('$', "$$")
}

/// The keys of a call in the order in which the documentation has them.
fn ordered(mut call: Map<String, Json>) -> Map<String, Json> {
    const KEYS: [&str; 10] = [
        "method",
        "path",
        "multi_segment",
        "query",
        "headers",
        "body",
        "form",
        "text",
        "deep_object",
        "response",
    ];
    KEYS.iter().filter_map(|key| call.shift_remove_entry(*key)).collect()
}

/// Whether a secret stands where the parameter would.
fn carries(secret: &OpenApiAuthentication, place: ParameterPlace, name: &str) -> bool {
    match (secret, place) {
        (OpenApiAuthentication::Header(key), ParameterPlace::Header) => key.eq_ignore_ascii_case(name),
        (OpenApiAuthentication::Query(key), ParameterPlace::Query) => key == name,
        _ => false,
    }
}

/// An operation with a server of its own goes to another host than the calls of the skill.
fn check_server(scope: &ToolScope<'_>, operation: &Operation<'_>) -> Result<(), String> {
    let Some(servers) = operation.get_with_path("servers").filter(|servers| !items(Some(servers)).is_empty())
    else {
        return Ok(());
    };
    let own = server::first_server(Some(servers), scope.source_url).ok();
    let is_usual = own.is_some_and(|own| own == scope.base_url || Some(own.as_str()) == scope.own_server);
    if is_usual { Ok(()) } else { Err("it has a server of its own".to_owned()) }
}

/// Refuses a path whose written parts could be read as another path.
fn check_path(operation: &Operation<'_>) -> Result<(), String> {
    let refused = || Err("its path cannot be that of a call".to_owned());
    if operation.is_path_cut() {
        return refused();
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@".contains(c);
    let segments: Vec<&str> = operation.path.split('/').skip(1).collect();
    let last = segments.len().saturating_sub(1);
    for (at, segment) in segments.into_iter().enumerate() {
        let mut rest = segment;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else { return refused() };
            let is_name = !name.is_empty() && !name.contains('{') && !name.chars().any(char::is_control);
            if !is_name || !before.chars().all(is_plain) {
                return refused();
            }
            rest = after;
        }
        let is_empty = segment.is_empty() && at != last;
        if is_empty || matches!(segment, "." | "..") || !rest.chars().all(is_plain) {
            return refused();
        }
    }
    Ok(())
}

/// What a tool does: the summary, and the description as far as it fits.
fn description(operation: &Operation<'_>) -> String {
    let written = |key: &str| operation.get(key).and_then(Json::as_str).unwrap_or_default();
    let summary = plain_text(written("summary"), MAX_DESCRIPTION);
    let summary = summary.trim_end_matches('.');
    let left = MAX_DESCRIPTION.saturating_sub(summary.chars().count() + 2);
    let more = plain_text(written("description"), if summary.is_empty() { MAX_DESCRIPTION } else { left });
    let is_repeated = more.to_lowercase().starts_with(&summary.to_lowercase());
    match (summary.is_empty(), more.is_empty()) {
        (true, true) => plain_text(&operation.line(), MAX_DESCRIPTION),
        (true, false) => more,
        (false, true) => format!("{summary}."),
        (false, false) if is_repeated => more,
        (false, false) if left < 40 => format!("{summary}."),
        (false, false) => format!("{summary}. {more}"),
    }
}

/// How far a call may go, as its method says.
fn risk_level(method: &str) -> &'static str {
    match method {
        "GET" | "HEAD" => "none",
        "DELETE" => "high",
        _ => "medium",
    }
}

/// The number of values and keys, as contracts count them.
pub(super) fn count_values(value: &Json) -> usize {
    match value {
        Json::Array(items) => 1 + items.iter().map(count_values).sum::<usize>(),
        Json::Object(fields) => 1 + fields.values().map(|value| 1 + count_values(value)).sum::<usize>(),
        _ => 1,
    }
}

fn remove_patterns(schema: &mut Json) {
    match schema {
        Json::Object(keywords) => {
            // A field may be called `pattern`.
            if keywords.get("pattern").is_some_and(Json::is_string) {
                keywords.shift_remove("pattern");
            }
            keywords.values_mut().for_each(remove_patterns);
        }
        Json::Array(list) => list.iter_mut().for_each(remove_patterns),
        _ => {}
    }
}
