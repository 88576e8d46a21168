//! A schema of a description as the JSON Schema of an input: references replaced by what they lead to, `allOf` merged, and nothing that only
//! answers have.

use std::collections::HashMap;

use serde_json::{Map, Value as Json, json};

use super::document::{Document, flag, items, text};
use super::report::Fault;
use super::text::plain_text;
use crate::diagnostic_sink::find_control_character;

/// The most schemas that together describe one value.
const MAX_MERGED: usize = 256;
/// How deep `allOf` and references lie in one another for one value.
const MAX_HOPS: usize = 64;
/// The most choices that are listed.
const MAX_CHOICES: usize = 150;
/// The most alternatives that are listed.
const MAX_ALTERNATIVES: usize = 40;
/// The most characters of descriptions, by depth.
const TEXT_CHARS: [usize; 3] = [200, 120, 80];
/// The most characters of a pattern, a format or a default.
const MAX_PATTERN: usize = 300;
const MAX_FORMAT: usize = 40;
const MAX_DEFAULT: usize = 60;
/// The collections in a contract around the schema of an input, and how many may lie in one another.
const OUTER_LEVELS: usize = 6;
const MAX_LEVEL: usize = crate::yaml::MAX_DEPTH - 4;
/// The largest number of work units for one operation.
const MAX_WORK: usize = 50_000;
/// And for all of a description.
const MAX_WORK_OF_ALL: usize = 10_000_000;

/// What is still spent on schemas: each one that is looked at counts with its keywords.
#[derive(Debug)]
pub(super) struct WorkBudget {
    all: usize,
    operation: usize,
}

impl WorkBudget {
    /// For one description.
    pub(super) fn new() -> Self {
        Self { all: MAX_WORK_OF_ALL, operation: 0 }
    }

    /// Begins the work for one operation.
    pub(super) fn start_operation(&mut self) {
        self.operation = MAX_WORK.min(self.all);
    }

    fn spend(&mut self, units: usize) -> Result<(), Fault> {
        self.operation = self.operation.checked_sub(units).ok_or(Fault::TooLarge)?;
        self.all = self.all.saturating_sub(units);
        Ok(())
    }
}

/// Reads the schemas of one operation.
pub(super) struct SchemaReader<'d, 'w> {
    document: &'d Document,
    work: &'w mut WorkBudget,
    /// How many levels of fields and items are described.
    max_depth: usize,
    /// How many schemas may still be described.
    left: usize,
    /// What the references lead to that are followed right now.
    open: Vec<*const Json>,
    /// Whether something of a schema was left out.
    pub(super) is_simplified: bool,
}

/// All that describes one value.
#[derive(Default)]
struct MergedSchema<'d> {
    parts: Vec<&'d Map<String, Json>>,
    targets: Vec<*const Json>,
    /// The schema that leads back to itself here.
    recursion: Option<&'d Json>,
    /// Whether no value fits.
    is_never: bool,
}

/// How deep a schema lies: in fields and items, and in lists and maps of the contract.
#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    level: usize,
}

impl Place {
    fn below(self, levels: usize) -> Self {
        Self { depth: self.depth + 1, level: self.level + levels }
    }
}

impl<'d, 'w> SchemaReader<'d, 'w> {
    /// A reader that describes at most so many levels of fields and items, and so many schemas in all.
    pub(super) fn new(
        document: &'d Document,
        work: &'w mut WorkBudget,
        (max_depth, max_schemas): (usize, usize),
    ) -> Self {
        Self { document, work, max_depth, left: max_schemas, open: Vec::new(), is_simplified: false }
    }

    /// The schema of an input; `None` for a value that no request has.
    pub(super) fn input(&mut self, schema: &'d Json) -> Result<Option<Map<String, Json>>, Fault> {
        self.schema(&[schema], Place { depth: 0, level: OUTER_LEVELS })
    }

    fn schema(&mut self, sources: &[&'d Json], place: Place) -> Result<Option<Map<String, Json>>, Fault> {
        let mut merged = MergedSchema::default();
        for source in sources {
            self.merge(source, &mut merged, 0)?;
        }
        // A parameter may share its schema with a field of an answer.
        let is_read_only = place.depth > 0 && merged.parts.iter().any(|part| flag(part, "readOnly"));
        if merged.is_never || is_read_only {
            return Ok(None);
        }
        self.left = self.left.checked_sub(1).ok_or(Fault::TooLarge)?;
        let opened = self.open.len();
        self.open.extend(&merged.targets);
        let schema = self.merged_schema(&merged, place);
        self.open.truncate(opened);
        schema.map(Some)
    }

    /// Adds a schema with what it refers to and consists of. What is there already is not added again, so no way of combining schemas makes
    /// more of them.
    fn merge(&mut self, schema: &'d Json, merged: &mut MergedSchema<'d>, hops: usize) -> Result<(), Fault> {
        let part = match schema {
            Json::Object(part) => part,
            Json::Bool(false) => {
                merged.is_never = true;
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.work.spend(1 + part.len() + merged.targets.len() / 8)?;
        if hops == MAX_HOPS || merged.parts.len() == MAX_MERGED {
            return Err(Fault::TooLarge);
        }
        merged.parts.push(part);
        if let Some(reference) = text(part, "$ref") {
            self.work.spend(reference.len() / 64)?;
            let target = self.document.target(reference)?;
            let id = std::ptr::from_ref(target);
            if self.open.contains(&id) {
                merged.recursion.get_or_insert(target);
            } else if !merged.targets.contains(&id) {
                merged.targets.push(id);
                self.merge(target, merged, hops + 1)?;
            }
        }
        for part in items(part.get("allOf")) {
            self.merge(part, merged, hops + 1)?;
        }
        for key in ["anyOf", "oneOf"] {
            if let [only] = items(part.get(key)) {
                self.merge(only, merged, hops + 1)?;
            }
        }
        Ok(())
    }

    fn merged_schema(&mut self, merged: &MergedSchema<'d>, place: Place) -> Result<Map<String, Json>, Fault> {
        let parts = &merged.parts;
        let mut schema = Map::new();
        let types = merged_types(parts);
        let mut kinds = types.kinds;
        if let Some(target) = merged.recursion {
            self.is_simplified = true;
            if kinds.is_empty() {
                kinds.push(
                    target
                        .get("type")
                        .and_then(Json::as_str)
                        .filter(|kind| *kind == "array")
                        .unwrap_or("object"),
                );
            }
        }
        if types.is_nullable && !kinds.is_empty() {
            kinds.push("null");
        }
        match &kinds[..] {
            [] => {}
            [kind] => drop(schema.insert("type".to_owned(), (*kind).into())),
            kinds => drop(schema.insert("type".to_owned(), kinds.into())),
        }
        let description = description(parts, place.depth);
        schema.extend((!description.is_empty()).then(|| ("description".to_owned(), description.into())));
        self.add_constraints(parts, &kinds, types.is_nullable, &mut schema);
        if merged.recursion.is_some() || !self.is_described(place) {
            self.is_simplified |= parts.iter().any(|part| has_inner(part));
            return Ok(schema);
        }
        self.add_fields(parts, place, &mut schema)?;
        self.add_items(parts, place, &mut schema)?;
        self.add_alternatives(parts, types.is_nullable, place, &mut schema)?;
        self.work.spend(schema.len())?;
        Ok(schema)
    }

    /// Whether what lies in a schema at this place is described.
    fn is_described(&self, place: Place) -> bool {
        place.depth < self.max_depth && place.level + 4 <= MAX_LEVEL
    }

    /// What a value must be by itself.
    fn add_constraints(
        &mut self,
        parts: &[&'d Map<String, Json>],
        kinds: &[&str],
        is_nullable: bool,
        schema: &mut Map<String, Json>,
    ) {
        match choices(parts, kinds, is_nullable) {
            Some(choices) if is_listable(&choices) => drop(schema.insert("enum".to_owned(), choices.into())),
            Some(_) => self.is_simplified = true,
            None => {}
        }
        if let Some(value) = parts.iter().find_map(|part| part.get("const"))
            && !schema.contains_key("enum")
            && is_listable(std::slice::from_ref(value))
        {
            schema.insert("const".to_owned(), value.clone());
        }
        for (key, is_lower) in [
            ("minLength", true),
            ("maxLength", false),
            ("minItems", true),
            ("maxItems", false),
            ("minProperties", true),
            ("maxProperties", false),
        ] {
            let counts = parts.iter().filter_map(|part| part.get(key)?.as_u64());
            let count = if is_lower { counts.max() } else { counts.min() };
            schema.extend(count.map(|count| (key.to_owned(), count.into())));
        }
        for (key, exclusive, is_lower) in
            [("minimum", "exclusiveMinimum", true), ("maximum", "exclusiveMaximum", false)]
        {
            // In 3.0 the bound is the number, and a flag beside it makes it exclusive.
            let bound = |part: &&Map<String, Json>| match part.get(exclusive) {
                Some(Json::Bool(true)) => Some((exclusive, part.get(key)?.clone())),
                Some(number @ Json::Number(_)) => Some((exclusive, number.clone())),
                _ => Some((key, part.get(key)?.clone())),
            };
            let bounds = parts.iter().filter_map(bound).filter(|(_, number)| number.is_number());
            let order = |(_, a): &(&str, Json), (_, b): &(&str, Json)| {
                a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(std::cmp::Ordering::Equal)
            };
            let tightest = if is_lower { bounds.max_by(order) } else { bounds.min_by(order) };
            schema.extend(tightest.map(|(key, number)| (key.to_owned(), number)));
        }
        let multiples = parts.iter().filter_map(|part| part.get("multipleOf"));
        let multiple = multiples.into_iter().find(|number| number.as_f64().is_some_and(|of| of > 0.0));
        schema.extend(multiple.map(|number| ("multipleOf".to_owned(), number.clone())));
        for (key, max_chars) in [("pattern", MAX_PATTERN), ("format", MAX_FORMAT)] {
            let written = parts.iter().find_map(|part| text(part, key));
            let is_fit = |text: &&str| text.len() <= max_chars && find_control_character(text).is_none();
            schema.extend(written.filter(is_fit).map(|text| (key.to_owned(), text.into())));
        }
        if parts.iter().any(|part| flag(part, "uniqueItems")) {
            schema.insert("uniqueItems".to_owned(), true.into());
        }
    }

    fn add_fields(
        &mut self,
        parts: &[&'d Map<String, Json>],
        place: Place,
        schema: &mut Map<String, Json>,
    ) -> Result<(), Fault> {
        let mut fields: Vec<(&'d str, Vec<&'d Json>)> = Vec::new();
        let mut places: HashMap<&'d str, usize> = HashMap::new();
        for (name, field) in parts.iter().filter_map(|part| part.get("properties")?.as_object()).flatten() {
            self.work.spend(1)?;
            let at = *places.entry(name).or_insert(fields.len());
            if at == fields.len() {
                fields.push((name, Vec::new()));
            }
            fields[at].1.push(field);
        }
        if fields.len() > self.left {
            return Err(Fault::TooLarge);
        }
        let mut properties = Map::new();
        let mut is_closed = parts.iter().any(|part| part.get("additionalProperties") == Some(&false.into()));
        for (name, sources) in fields {
            if find_control_character(name).is_some() {
                (self.is_simplified, is_closed) = (true, false);
                continue;
            }
            if let Some(field) = self.schema(&sources, place.below(2))? {
                properties.insert(name.to_owned(), field.into());
            }
        }
        let mut required: Vec<Json> = Vec::new();
        for name in parts.iter().flat_map(|part| items(part.get("required"))) {
            self.work.spend(1 + required.len() / 16)?;
            let is_field = name.as_str().is_some_and(|name| properties.contains_key(name));
            if is_field && !required.contains(name) {
                required.push(name.clone());
            }
        }
        if parts.iter().any(|part| part.contains_key("patternProperties")) {
            (self.is_simplified, is_closed) = (true, false);
        }
        let others =
            parts.iter().find_map(|part| part.get("additionalProperties").filter(|it| it.is_object()));
        if is_closed {
            schema.insert("additionalProperties".to_owned(), false.into());
        } else if let Some(others) = others
            && let Some(others) = self.schema(&[others], place.below(1))?.filter(|others| !others.is_empty())
        {
            schema.insert("additionalProperties".to_owned(), others.into());
        }
        if !properties.is_empty() {
            schema.entry("type").or_insert("object".into());
            schema.insert("properties".to_owned(), properties.into());
        }
        schema.extend((!required.is_empty()).then(|| ("required".to_owned(), required.into())));
        Ok(())
    }

    fn add_items(
        &mut self,
        parts: &[&'d Map<String, Json>],
        place: Place,
        schema: &mut Map<String, Json>,
    ) -> Result<(), Fault> {
        if parts.iter().any(|part| part.contains_key("prefixItems")) {
            self.is_simplified = true;
            return Ok(());
        }
        let sources: Vec<&Json> = parts.iter().filter_map(|part| part.get("items")).collect();
        if sources.is_empty() {
            return Ok(());
        }
        if let Some(item) = self.schema(&sources, place.below(1))?.filter(|item| !item.is_empty()) {
            schema.insert("items".to_owned(), item.into());
        }
        Ok(())
    }

    fn add_alternatives(
        &mut self,
        parts: &[&'d Map<String, Json>],
        is_nullable: bool,
        place: Place,
        schema: &mut Map<String, Json>,
    ) -> Result<(), Fault> {
        let mut choices = Vec::new();
        for part in parts {
            for key in ["anyOf", "oneOf"] {
                let sources = items(part.get(key));
                if sources.len() > 1 {
                    choices.extend(self.alternatives(key, sources, is_nullable, place)?);
                }
            }
        }
        match <[(&str, Json); 1]>::try_from(choices) {
            Ok([(key, alternatives)]) => drop(schema.insert(key.to_owned(), alternatives)),
            Err(choices) => {
                let all: Vec<Json> =
                    choices.into_iter().map(|(key, alternatives)| json!({key: alternatives})).collect();
                schema.extend((!all.is_empty()).then(|| ("allOf".to_owned(), all.into())));
            }
        }
        Ok(())
    }

    /// The alternatives with their keyword; nothing if one of them is anything.
    fn alternatives(
        &mut self,
        key: &'static str,
        sources: &'d [Json],
        is_nullable: bool,
        place: Place,
    ) -> Result<Option<(&'static str, Json)>, Fault> {
        if sources.len() > MAX_ALTERNATIVES {
            self.is_simplified = true;
            return Ok(None);
        }
        let was_simplified = std::mem::take(&mut self.is_simplified);
        let mut alternatives: Vec<Map<String, Json>> = Vec::new();
        let mut is_any = false;
        for source in sources {
            let Some(alternative) = self.schema(&[source], place.below(4))? else { continue };
            is_any |= alternative.keys().all(|key| key == "description");
            if !alternatives.contains(&alternative) {
                alternatives.push(alternative);
            }
        }
        if is_nullable && !alternatives.iter().any(accepts_null) {
            alternatives.push(Map::from_iter([("type".to_owned(), "null".into())]));
        }
        // Alternatives that say less than they did may overlap.
        let is_loose = self.is_simplified || alternatives.len() < sources.len();
        self.is_simplified |= was_simplified || is_any;
        let key = if is_loose { "anyOf" } else { key };
        Ok((!is_any && !alternatives.is_empty()).then(|| (key, alternatives.into())))
    }
}

fn accepts_null(schema: &Map<String, Json>) -> bool {
    let is_null = |kind: &Json| kind == "null";
    schema.get("type").is_none_or(|kind| is_null(kind) || items(Some(kind)).iter().any(is_null))
}

/// Whether a schema says something of what lies in a value.
fn has_inner(part: &Map<String, Json>) -> bool {
    ["properties", "items", "anyOf", "oneOf"].iter().any(|key| part.contains_key(*key))
        || part.get("additionalProperties").is_some_and(Json::is_object)
}

/// What the value is, and what it is where it is not given.
fn description(parts: &[&Map<String, Json>], depth: usize) -> String {
    let max_chars = TEXT_CHARS[depth.min(TEXT_CHARS.len() - 1)];
    let written = |key: &str| {
        let mut texts =
            parts.iter().filter_map(|part| text(part, key)).map(|text| plain_text(text, max_chars));
        texts.find(|text| !text.is_empty())
    };
    let mut shown = written("description").or_else(|| written("title")).unwrap_or_default();
    let default = parts.iter().find_map(|part| part.get("default")).and_then(|default| match default {
        Json::String(text) if !text.is_empty() => Some(plain_text(text, MAX_DEFAULT)),
        Json::Number(_) | Json::Bool(_) => Some(default.to_string()),
        _ => None,
    });
    if let Some(default) = default.filter(|it| !it.is_empty() && !shown.to_lowercase().contains("default")) {
        let blank = if shown.is_empty() { "" } else { " " };
        shown.extend([blank, "Default: ", &default]);
    }
    shown
}

/// The values that all parts allow.
fn choices(parts: &[&Map<String, Json>], kinds: &[&str], is_nullable: bool) -> Option<Vec<Json>> {
    let mut lists = parts.iter().filter_map(|part| part.get("enum")?.as_array());
    let first = lists.next()?;
    if first.len() > MAX_CHOICES {
        return Some(first.clone());
    }
    let lists: Vec<&Vec<Json>> = lists.collect();
    let is_text = kinds.iter().all(|kind| matches!(*kind, "string" | "null")) && !kinds.is_empty();
    let mut choices: Vec<Json> = Vec::new();
    for value in first.iter().filter(|value| lists.iter().all(|list| list.contains(value))) {
        // Of a text, `2022` without quotes is one.
        let value = match value {
            Json::Number(_) | Json::Bool(_) if is_text => value.to_string().into(),
            value => value.clone(),
        };
        if !choices.contains(&value) {
            choices.push(value);
        }
    }
    if is_nullable && !choices.contains(&Json::Null) {
        choices.push(Json::Null);
    }
    Some(choices)
}

/// Whether a contract can list the values.
fn is_listable(choices: &[Json]) -> bool {
    let is_plain = |value: &Json| match value {
        Json::String(text) => text.len() <= MAX_PATTERN && find_control_character(text).is_none(),
        value => !value.is_object() && !value.is_array(),
    };
    (1..=MAX_CHOICES).contains(&choices.len()) && choices.iter().all(is_plain)
}

const KINDS: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];

/// What a value may be.
#[derive(Debug, Default, PartialEq, Eq)]
struct MergedTypes {
    /// Its types but null; none if it may be anything.
    pub(super) kinds: Vec<&'static str>,
    pub(super) is_nullable: bool,
}

/// The types that all schemas allow. `nullable` of 3.0 counts wherever it is written, for it is written beside the parts and not in them.
fn merged_types(parts: &[&Map<String, Json>]) -> MergedTypes {
    let mut types = MergedTypes::default();
    let (mut is_typed, mut is_null_everywhere) = (false, true);
    for part in parts {
        let Some(written) = part.get("type") else { continue };
        let written = match written {
            Json::Array(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        is_null_everywhere &= written.iter().any(|kind| kind == "null");
        let kinds: Vec<&str> = KINDS.into_iter().filter(|kind| written.iter().any(|it| it == kind)).collect();
        if kinds.is_empty() {
            continue;
        }
        types.kinds = if is_typed { common(&types.kinds, &kinds) } else { kinds };
        is_typed = true;
    }
    let has_type = parts.iter().any(|part| part.contains_key("type"));
    let is_null_choice =
        |part: &&Map<String, Json>| items(part.get("enum")).contains(&Json::Null) && !has_type;
    types.is_nullable = parts.iter().any(|part| flag(part, "nullable"))
        || (has_type && is_null_everywhere)
        || parts.iter().any(is_null_choice);
    types
}

/// The types in both lists. A whole number is a number, and where nothing is in both, the first list counts.
fn common(first: &[&'static str], second: &[&'static str]) -> Vec<&'static str> {
    let accepts =
        |list: &[&str], kind: &str| list.contains(&kind) || (kind == "integer" && list.contains(&"number"));
    let is_common = |kind: &&str| accepts(first, kind) && accepts(second, kind);
    let found: Vec<&str> = KINDS.into_iter().filter(is_common).collect();
    if found.is_empty() { first.to_vec() } else { found }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_has_the_types_that_all_schemas_allow() {
        for (parts, kinds, is_nullable) in [
            (json!([{}]), vec![], false),
            (json!([{"type": "string"}]), vec!["string"], false),
            (json!([{"type": "string", "nullable": true}]), vec!["string"], true),
            (json!([{"type": ["string", "null"]}]), vec!["string"], true),
            (json!([{"type": "null"}]), vec![], true),
            (json!([{"type": "number"}, {"type": "integer"}]), vec!["integer"], false),
            (json!([{"type": ["string", "null"]}, {"type": "string"}]), vec!["string"], false),
            (json!([{"nullable": true}, {"type": "object"}]), vec!["object"], true),
            (json!([{"type": "object"}, {"type": "string"}]), vec!["object"], false),
            (json!([{"type": "file"}, {"type": 7}, {"type": [[]]}]), vec![], false),
        ] {
            let parts: Vec<&Map<String, Json>> =
                parts.as_array().unwrap().iter().map(|part| part.as_object().unwrap()).collect();
            assert_eq!(merged_types(&parts), MergedTypes { kinds, is_nullable }, "{parts:?}");
        }
    }
}
