//! The parameters of an operation: which of them calls can send, and how.

use serde_json::{Map, Value as Json};

use super::document::{Document, fields, flag, items, text};
use super::operation::Operation;
use super::report::Fault;
use super::schema::SchemaReader;
use super::text::plain_text;
use metier_core::policy::is_script_header;

/// The most parameters of one operation, and bytes of the name of one.
const MAX_PARAMETERS: usize = 200;
const MAX_NAME: usize = 200;
/// The most characters of a description.
const MAX_TEXT: usize = 200;
/// Headers that are none of the parameters of an operation, whatever is written (OpenAPI 3, Parameter Object, `name`).
const IGNORED_HEADERS: [&str; 6] = [
    "accept",
    "content-type",
    "authorization",
    // What makes another call of this one.
    "cookie",
    "x-http-method",
    "x-http-method-override",
];

/// Where a parameter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ParameterPlace {
    Path,
    Query,
    Header,
}

/// A parameter that calls send.
#[derive(Debug)]
pub(super) struct Parameter<'d> {
    pub(super) name: &'d str,
    pub(super) place: ParameterPlace,
    pub(super) is_required: bool,
    pub(super) schema: Map<String, Json>,
    /// Whether its value may have slashes.
    pub(super) is_multi_segment: bool,
    /// Whether its objects are written with brackets.
    pub(super) is_deep: bool,
}

/// The parameters, those of the path first, and why others are left out. `Err` if the operation cannot be called without one of those.
pub(super) fn read<'d>(
    document: &'d Document,
    operation: &Operation<'d>,
    schemas: &mut SchemaReader<'d, '_>,
) -> Result<(Vec<Parameter<'d>>, Vec<&'static str>), String> {
    let mut parameters: Vec<Parameter<'_>> = Vec::new();
    let mut notes = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    let own = items(operation.get("parameters")).iter();
    let of_path = operation.path_keys.map_or(&[][..], |keys| items(keys.get("parameters")));
    // Those of the operation replace those of its path.
    for written in own.chain(of_path) {
        let parameter = document.resolve(written).map_err(|fault| fault.reason().to_owned())?;
        let parameter = fields(Some(parameter));
        let (Some(name), Some(place)) = (text(parameter, "name"), text(parameter, "in")) else { continue };
        if seen.contains(&(name, place)) {
            continue;
        }
        if seen.len() == MAX_PARAMETERS {
            return Err(format!("it has more than {MAX_PARAMETERS} parameters"));
        }
        seen.push((name, place));
        let is_ignored = place == "header" && IGNORED_HEADERS.iter().any(|it| it.eq_ignore_ascii_case(name));
        let is_unused = place == "path" && !operation.path.contains(&format!("{{{name}}}"));
        if is_ignored || is_unused || (flag(parameter, "deprecated") && !flag(parameter, "required")) {
            continue;
        }
        match read_parameter((name, place), parameter, schemas) {
            Ok(Some(parameter)) => parameters.push(parameter),
            Ok(None) => {}
            Err(reason) if place == "path" || flag(parameter, "required") => return Err(reason.to_owned()),
            Err(reason) => notes.push(reason),
        }
    }
    for name in path_names(operation.path) {
        if !parameters.iter().any(|it| it.place == ParameterPlace::Path && it.name == name) {
            let schema = Map::from_iter([("type".to_owned(), Json::from("string"))]);
            let place = ParameterPlace::Path;
            parameters.push(Parameter {
                name,
                place,
                is_required: true,
                schema,
                is_multi_segment: false,
                is_deep: false,
            });
        }
    }
    parameters.sort_by_key(|parameter| parameter.place);
    Ok((parameters, notes))
}

/// The names in braces in a path.
pub(super) fn path_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name)
}

/// A parameter; `None` for one that no request has, `Err` with the reason for one that calls cannot send.
fn read_parameter<'d>(
    (name, place): (&'d str, &str),
    keys: &'d Map<String, Json>,
    schemas: &mut SchemaReader<'d, '_>,
) -> Result<Option<Parameter<'d>>, &'static str> {
    let place = match place {
        "path" => ParameterPlace::Path,
        "query" => ParameterPlace::Query,
        "header" => ParameterPlace::Header,
        "cookie" => return Err("it has a parameter in a cookie"),
        _ => return Err("it has a parameter in a place that calls do not have"),
    };
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return Err("it has a parameter with a name that calls cannot send");
    }
    if place == ParameterPlace::Header && !is_script_header(name) {
        return Err("it has a parameter in a header that calls cannot set");
    }
    if keys.contains_key("content") {
        return Err("it has a parameter that is JSON in a text");
    }
    let schema = match keys.get("schema") {
        Some(schema) => schemas.input(schema).map_err(Fault::reason)?,
        None => Some(Map::new()),
    };
    let Some(mut schema) = schema else { return Ok(None) };
    let own_text = plain_text(text(keys, "description").unwrap_or_default(), MAX_TEXT);
    if !own_text.is_empty() {
        add_description(own_text, &mut schema);
    }
    let encoding = encoding(place, keys, &schema)?;
    match encoding {
        Encoding::Plain => close_to_scalars(place, &mut schema),
        Encoding::Deep => {}
        Encoding::Delimited(separator) => schema = delimited_text(&schema, separator),
    }
    Ok(Some(Parameter {
        name,
        place,
        is_required: place == ParameterPlace::Path || flag(keys, "required"),
        schema,
        is_multi_segment: flag(keys, "x-multi-segment"),
        is_deep: encoding == Encoding::Deep,
    }))
}

/// The text of the parameter in place of that of its schema, with the default that this one names.
fn add_description(own_text: String, schema: &mut Map<String, Json>) {
    let of_schema = schema.get("description").and_then(Json::as_str).unwrap_or_default();
    let default = of_schema.rfind("Default: ").map(|at| &of_schema[at..]);
    let default = default.filter(|_| !own_text.to_lowercase().contains("default"));
    let text = match default {
        Some(default) => format!("{own_text} {default}"),
        None => own_text,
    };
    schema.insert("description".to_owned(), text.into());
}

/// How the value of a parameter is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Encoding {
    /// As it is, and in a query a list as repeated parameters.
    Plain,
    /// Objects with brackets.
    Deep,
    /// A list as one text, with these characters between its items.
    Delimited(&'static str),
}

/// How the style says that a value is written, or why calls cannot.
fn encoding(
    place: ParameterPlace,
    keys: &Map<String, Json>,
    schema: &Map<String, Json>,
) -> Result<Encoding, &'static str> {
    let style = text(keys, "style");
    if style == Some("deepObject") && place == ParameterPlace::Query {
        return Ok(Encoding::Deep);
    }
    if has_kind(schema, "object") {
        return Err("it has a parameter that is an object");
    }
    if matches!(style, Some("matrix" | "label")) {
        return Err("it has a parameter in the style matrix or label");
    }
    if !has_kind(schema, "array") {
        return Ok(Encoding::Plain);
    }
    let explode = keys.get("explode").and_then(Json::as_bool);
    if has_inner_list(schema) {
        return Err("it has a list of lists in a parameter");
    }
    match (place, style) {
        (ParameterPlace::Query, Some("spaceDelimited")) if explode != Some(true) => {
            Ok(Encoding::Delimited("blanks"))
        }
        (ParameterPlace::Query, Some("pipeDelimited")) if explode != Some(true) => {
            Ok(Encoding::Delimited("|"))
        }
        (ParameterPlace::Query, _) if explode != Some(false) => Ok(Encoding::Plain),
        _ => Ok(Encoding::Delimited("commas")),
    }
}

/// Whether the items of a list may be lists.
fn has_inner_list(schema: &Map<String, Json>) -> bool {
    let alternatives = ["anyOf", "oneOf"].iter().flat_map(|key| items(schema.get(*key)));
    let alternatives = alternatives.filter_map(Json::as_object);
    let own = schema.get("items").and_then(Json::as_object).is_some_and(|items| has_kind(items, "array"));
    own || alternatives.into_iter().any(has_inner_list)
}

/// A list as one text: what its items may be is said, and not checked.
fn delimited_text(schema: &Map<String, Json>, separator: &str) -> Map<String, Json> {
    let written = text(schema, "description").unwrap_or_default();
    let choices = schema.get("items").and_then(|item| item.get("enum"));
    let choices: Vec<String> = items(choices)
        .iter()
        .map(|choice| choice.as_str().map_or_else(|| choice.to_string(), str::to_owned))
        .collect();
    let of = if choices.is_empty() { String::new() } else { format!(" of {}", choices.join(", ")) };
    let note = plain_text(&format!("Several{of}, with {separator} between them"), MAX_TEXT);
    let blank = if written.is_empty() { "" } else { " " };
    let description = format!("{written}{blank}{note}.");
    Map::from_iter([
        ("type".to_owned(), Json::from("string")),
        ("description".to_owned(), description.into()),
    ])
}

/// Whether a value, an alternative or an item of it may be of a type.
fn has_kind(schema: &Map<String, Json>, kind: &str) -> bool {
    let own =
        schema.get("type").is_some_and(|own| own == kind || items(Some(own)).iter().any(|it| it == kind));
    let alternatives = ["anyOf", "oneOf"].iter().flat_map(|key| items(schema.get(*key)));
    let inner = alternatives.chain(schema.get("items").filter(|_| kind == "object"));
    own || inner.filter_map(Json::as_object).any(|schema| has_kind(schema, kind))
}

/// A value without a type may be anything, and calls send no objects.
fn close_to_scalars(place: ParameterPlace, schema: &mut Map<String, Json>) {
    let is_open =
        !["type", "anyOf", "oneOf", "allOf", "enum", "const"].iter().any(|key| schema.contains_key(*key));
    if is_open {
        schema.shift_insert(0, "type".to_owned(), Json::from(vec!["string", "number", "boolean"]));
    }
    // In a path something must stand.
    if place == ParameterPlace::Path
        && let Some(Json::Array(kinds)) = schema.get_mut("type")
    {
        kinds.retain(|kind| kind != "null");
    }
}
