//! Stands in for the JSON Schema validator in builds without the feature `json-schema`: checks what the parameter notation can
//! say, without `pattern`, `multiple_of` and `unique_items`.
//!
//! A schema that says anything else is refused as a whole, so that no value passes unchecked.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value as Json};

use super::constraints::has_type;
use super::errors::{
    SchemaError, ValidationFailure, ViolationList, describe_value, escape_token, list_choices, list_types,
    with_article,
};
use crate::lint;

/// Whether the value of a keyword has the shape that it must have.
type HasShape = fn(&Json) -> bool;

/// The keywords that are checked here or say nothing about values, and the shape that the value of each must have.
const KEYWORDS: [(&str, HasShape); 25] = [
    ("$schema", Json::is_string),
    ("$comment", Json::is_string),
    ("title", Json::is_string),
    ("description", Json::is_string),
    ("format", Json::is_string),
    ("default", |_| true),
    ("examples", Json::is_array),
    ("deprecated", Json::is_boolean),
    ("type", is_type_list),
    ("enum", Json::is_array),
    ("const", |_| true),
    ("minLength", Json::is_u64),
    ("maxLength", Json::is_u64),
    ("minItems", Json::is_u64),
    ("maxItems", Json::is_u64),
    ("minProperties", Json::is_u64),
    ("maxProperties", Json::is_u64),
    ("minimum", Json::is_number),
    ("maximum", Json::is_number),
    ("exclusiveMinimum", Json::is_number),
    ("exclusiveMaximum", Json::is_number),
    ("items", Json::is_object),
    ("properties", Json::is_object),
    ("required", is_name_list),
    ("additionalProperties", Json::is_boolean),
];

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// A schema all of whose keywords are checked here.
pub(super) struct CompiledSchema;

impl CompiledSchema {
    /// Refuses a schema with a keyword that is not checked here.
    pub(super) fn compile(schema: &Json) -> Result<Self, SchemaError> {
        let Some(pointer) = find_unchecked(schema, "") else { return Ok(Self) };
        let message = format!(
            "this build does not check {}; build metier with the Cargo feature `json-schema`",
            if pointer.is_empty() { "it" } else { &pointer },
        );
        Err(SchemaError::new(&lint::SCHEMA_UNCHECKED, pointer, message))
    }

    /// Holds a value against the schema, whose properties have these names. Where not all violations are wanted, the search ends
    /// with the first.
    #[allow(clippy::unused_self, reason = "it is the proof that the schema was compiled")]
    pub(super) fn check(
        &self,
        schema: &Json,
        names: &[String],
        value: &Json,
        all: bool,
    ) -> Result<(), ValidationFailure> {
        let mut search = Search { names, all, path: String::new(), list: None };
        search.value(schema, value);
        search.list.map_or(Ok(()), |list| Err(list.into_failure()))
    }
}

/// The JSON Pointer of the first keyword that is not checked here, or that has a value of the wrong shape.
fn find_unchecked(schema: &Json, at: &str) -> Option<String> {
    let Json::Object(keywords) = schema else { return Some(at.to_owned()) };
    keywords.iter().find_map(|(keyword, value)| {
        let at = format!("{at}/{}", escape_token(keyword));
        let is_known = KEYWORDS.iter().any(|(name, has_shape)| name == keyword && has_shape(value));
        match (keyword.as_str(), value) {
            _ if !is_known => Some(at),
            ("items", schema) => find_unchecked(schema, &at),
            ("properties", Json::Object(properties)) => properties
                .iter()
                .find_map(|(name, schema)| find_unchecked(schema, &format!("{at}/{}", escape_token(name)))),
            _ => None,
        }
    })
}

fn is_type_list(value: &Json) -> bool {
    let is_type = |name: &Json| name.as_str().is_some_and(|name| TYPES.contains(&name));
    is_type(value) || (is_name_list(value) && value.as_array().is_some_and(|names| names.iter().all(is_type)))
}

/// Texts, no two the same.
fn is_name_list(value: &Json) -> bool {
    let is_name =
        |(at, name): (usize, &Json), names: &[Json]| name.is_string() && !names[..at].contains(name);
    value.as_array().is_some_and(|names| names.iter().enumerate().all(|entry| is_name(entry, names)))
}

/// The search for violations in one value.
struct Search<'a> {
    names: &'a [String],
    all: bool,
    /// Where in the value it is, as a JSON Pointer.
    path: String,
    /// What was found, if anything was.
    list: Option<ViolationList>,
}

impl Search<'_> {
    fn value(&mut self, schema: &Json, value: &Json) {
        for (keyword, limit) in schema.as_object().into_iter().flatten() {
            if !self.all && self.list.is_some() {
                return;
            }
            match (keyword.as_str(), limit, value) {
                ("properties", Json::Object(properties), Json::Object(fields)) => {
                    for (name, schema) in properties {
                        fields.get(name).into_iter().for_each(|field| self.part(name, schema, field));
                    }
                }
                ("items", schema, Json::Array(items)) => {
                    for (index, item) in items.iter().enumerate() {
                        self.part(&index.to_string(), schema, item);
                    }
                }
                ("required", Json::Array(names), Json::Object(fields)) => {
                    let missing =
                        names.iter().filter_map(Json::as_str).filter(|name| !fields.contains_key(*name));
                    missing.for_each(|name| {
                        self.list.get_or_insert_default().push_missing(&self.path, name, Some(schema));
                    });
                }
                ("additionalProperties", Json::Bool(false), Json::Object(fields)) => {
                    self.unexpected_fields(schema, fields);
                }
                (keyword, limit, value) if !fits(keyword, limit, value) => {
                    let (expected, found) = (expected(keyword, limit), describe_value(value));
                    self.list.get_or_insert_default().push(&self.path, None, keyword, expected, found);
                }
                _ => {}
            }
        }
    }

    fn part(&mut self, name: &str, schema: &Json, value: &Json) {
        let before = self.path.len();
        self.path.push('/');
        self.path.push_str(&escape_token(name));
        self.value(schema, value);
        self.path.truncate(before);
    }

    fn unexpected_fields(&mut self, schema: &Json, fields: &Map<String, Json>) {
        let declared = schema.get("properties").and_then(Json::as_object);
        let is_declared = |name: &String| declared.is_some_and(|declared| declared.contains_key(name));
        for (name, value) in fields.iter().filter(|(name, _)| !is_declared(name)) {
            let keyword = "additionalProperties";
            if self.path.is_empty() {
                self.list.get_or_insert_default().push_unexpected(
                    &self.path,
                    name,
                    self.names.iter(),
                    keyword,
                    Some(value),
                );
            } else {
                let declared = declared.into_iter().flat_map(Map::keys);
                self.list.get_or_insert_default().push_unexpected(
                    &self.path,
                    name,
                    declared,
                    keyword,
                    Some(value),
                );
            }
        }
    }
}

/// Whether a value fits one keyword that holds no schemas.
fn fits(keyword: &str, limit: &Json, value: &Json) -> bool {
    let count = |count: usize| limit.as_u64().map(|limit| (count as u64).cmp(&limit));
    let number = |number: &Number| limit.as_number().map(|limit| compare(number, limit));
    let (order, refused) = match (keyword, value) {
        ("type", _) => return type_names(limit).any(|name| has_type(value, name)),
        ("enum", _) => return limit.as_array().is_some_and(|all| all.iter().any(|one| equals(one, value))),
        ("const", _) => return equals(limit, value),
        ("minLength", Json::String(text)) => (count(text.chars().count()), &[Ordering::Less][..]),
        ("maxLength", Json::String(text)) => (count(text.chars().count()), &[Ordering::Greater][..]),
        ("minItems", Json::Array(items)) => (count(items.len()), &[Ordering::Less][..]),
        ("maxItems", Json::Array(items)) => (count(items.len()), &[Ordering::Greater][..]),
        ("minProperties", Json::Object(fields)) => (count(fields.len()), &[Ordering::Less][..]),
        ("maxProperties", Json::Object(fields)) => (count(fields.len()), &[Ordering::Greater][..]),
        ("minimum", Json::Number(value)) => (number(value), &[Ordering::Less][..]),
        ("maximum", Json::Number(value)) => (number(value), &[Ordering::Greater][..]),
        ("exclusiveMinimum", Json::Number(value)) => (number(value), &[Ordering::Less, Ordering::Equal][..]),
        ("exclusiveMaximum", Json::Number(value)) => {
            (number(value), &[Ordering::Greater, Ordering::Equal][..])
        }
        _ => return true,
    };
    order.is_some_and(|order| !refused.contains(&order))
}

/// What a keyword wants, as the rest of "expected …".
fn expected(keyword: &str, limit: &Json) -> String {
    match keyword {
        "type" => list_types(type_names(limit).map(with_article)),
        "enum" => list_choices(limit),
        "const" => describe_value(limit),
        "minLength" => format!("at least {limit} characters"),
        "maxLength" => format!("at most {limit} characters"),
        "minItems" => format!("at least {limit} items"),
        "maxItems" => format!("at most {limit} items"),
        "minProperties" => format!("at least {limit} fields"),
        "maxProperties" => format!("at most {limit} fields"),
        "minimum" => format!("at least {limit}"),
        "maximum" => format!("at most {limit}"),
        "exclusiveMinimum" => format!("more than {limit}"),
        "exclusiveMaximum" => format!("less than {limit}"),
        other => format!("what `{other}` asks for"),
    }
}

fn type_names(types: &Json) -> impl Iterator<Item = &str> {
    let listed = types.as_array().map_or(std::slice::from_ref(types), Vec::as_slice);
    listed.iter().filter_map(Json::as_str)
}

/// Whether both are the same value; `1` and `1.0` are.
fn equals(left: &Json, right: &Json) -> bool {
    match (left, right) {
        (Json::Number(left), Json::Number(right)) => compare(left, right) == Ordering::Equal,
        (Json::Array(left), Json::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equals(left, right))
        }
        (Json::Object(left), Json::Object(right)) => {
            let has_same = |(name, left)| right.get(name).is_some_and(|right| equals(left, right));
            left.len() == right.len() && left.iter().all(has_same)
        }
        _ => left == right,
    }
}

/// Which number is larger, exactly.
fn compare(left: &Number, right: &Number) -> Ordering {
    let float = |number: &Number| number.as_f64().unwrap_or_default();
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(whole), None) => compare_to_float(whole, float(right)),
        (None, Some(whole)) => compare_to_float(whole, float(left)).reverse(),
        (None, None) => float(left).partial_cmp(&float(right)).unwrap_or(Ordering::Equal),
    }
}

fn compare_to_float(whole: i128, float: f64) -> Ordering {
    let floor = float.floor();
    #[allow(
        clippy::cast_possible_truncation,
        reason = "what is out of range becomes the nearest, and is larger still"
    )]
    let order = whole.cmp(&(floor as i128));
    order.then(if float > floor { Ordering::Less } else { Ordering::Equal })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::{collection, option, sample};
    use serde_json::json;

    use super::super::validator;
    use super::*;

    const NAMES: [&str; 4] = ["alpha", "alpah", "b", "x/y~z"];

    fn value() -> impl Strategy<Value = Json> {
        let leaf = sample::select(vec![
            json!(null),
            json!(true),
            json!(0),
            json!(-0.0),
            json!(1),
            json!(1.0),
            json!(-2),
            json!(0.5),
            json!(2.5),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(9_007_199_254_740_992.0),
            json!(9_007_199_254_740_993_u64),
            json!(18_446_744_073_709_551_616.0),
            json!(1e300),
            json!(-1e300),
            json!(""),
            json!("a"),
            json!("grün"),
        ]);
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                collection::vec(inner.clone(), 0..3).prop_map(Json::from),
                collection::btree_map(sample::select(&NAMES[..]), inner, 0..4).prop_map(|fields| fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect()),
            ]
        })
    }

    fn schema() -> impl Strategy<Value = Json> {
        plain_keywords().prop_recursive(3, 12, 3, |inner| {
            let properties = collection::btree_map(sample::select(&NAMES[..]), inner.clone(), 0..3);
            let keywords = (
                plain_keywords(),
                option::of(inner),
                option::of(properties),
                option::of(sample::subsequence(&NAMES[..], 0..3)),
                option::of(any::<bool>()),
            );
            keywords.prop_map(|(mut schema, items, properties, required, additional)| {
                let held = [
                    ("items", items),
                    ("properties", properties.map(|all| json!(all))),
                    ("required", required.map(|names| json!(names))),
                    ("additionalProperties", additional.map(Json::from)),
                ];
                for (keyword, value) in held {
                    if let Some(value) = value {
                        schema[keyword] = value;
                    }
                }
                schema
            })
        })
    }

    /// One or two keywords that hold no schemas.
    fn plain_keywords() -> impl Strategy<Value = Json> {
        let counts = ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
        let bounds = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
        let keyword = prop_oneof![
            sample::select(&TYPES[..]).prop_map(|name| ("type", json!(name))),
            sample::subsequence(&TYPES[..], 1..4).prop_map(|names| ("type", json!(names))),
            collection::vec(value(), 1..4).prop_map(|choices| ("enum", json!(choices))),
            value().prop_map(|value| ("const", value)),
            (sample::select(counts.to_vec()), 0_u64..4).prop_map(|(keyword, count)| (keyword, json!(count))),
            (sample::select(bounds.to_vec()), value().prop_filter("a number", Json::is_number)),
            Just(("format", json!("email"))),
        ];
        collection::vec(keyword, 0..3).prop_map(|keywords| {
            keywords
                .into_iter()
                .map(|(keyword, value)| (keyword.to_owned(), value))
                .collect::<Map<_, _>>()
                .into()
        })
    }

    /// Every violation, and nothing of the order in which they were found.
    fn violations(result: Result<(), ValidationFailure>) -> Vec<String> {
        let mut lines: Vec<String> = match result {
            Ok(()) => Vec::new(),
            Err(ValidationFailure::Violations { violations, .. }) => {
                violations.iter().map(ToString::to_string).collect()
            }
            Err(other) => vec![format!("{other:?}")],
        };
        lines.sort();
        lines
    }

    fn requires_what_it_refuses(schema: &Json) -> bool {
        let is_declared =
            |name: &Json| name.as_str().is_some_and(|name| schema["properties"].get(name).is_some());
        let here = schema["additionalProperties"] == false
            && schema["required"].as_array().is_some_and(|names| !names.iter().all(is_declared));
        let children = schema["properties"].as_object().into_iter().flat_map(Map::values);
        here || children.chain(schema.get("items")).any(requires_what_it_refuses)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_judges_as_the_validator_of_json_schema_does(schema in schema(), value in value()) {
            let names: Vec<String> = schema["properties"].as_object().into_iter().flat_map(Map::keys).cloned().collect();
            let own = CompiledSchema::compile(&schema).map_err(|error| error.message);
            let full = validator::CompiledSchema::compile(&schema).map_err(|error| error.message);
            let (Ok(own), Ok(full)) = (own, full) else { panic!("{schema} does not compile") };
            let own = violations(own.check(&schema, &names, &value, true));
            let full = violations(full.check(&schema, &names, &value, true));
            // Nothing can satisfy a schema that requires what it refuses, and `jsonschema` reports that twice.
            if requires_what_it_refuses(&schema) {
                prop_assert_eq!(own.is_empty(), full.is_empty());
            } else {
                prop_assert_eq!(own, full);
            }
        }
    }

    #[test]
    fn what_it_does_not_check_is_refused() {
        for (schema, pointer) in [
            (json!({"pattern": "a"}), "/pattern"),
            (json!({"properties": {"a/b": {"multipleOf": 2}}}), "/properties/a~1b/multipleOf"),
            (json!({"items": {"uniqueItems": true}}), "/items/uniqueItems"),
            (json!({"items": [{}]}), "/items"),
            (json!({"items": true}), "/items"),
            (json!({"properties": {"a": false}}), "/properties/a"),
            (json!({"additionalProperties": {"type": "string"}}), "/additionalProperties"),
            (json!({"allOf": []}), "/allOf"),
            (json!({"$ref": "#"}), "/$ref"),
            (json!({"type": "text"}), "/type"),
            (json!({"type": ["string", "string"]}), "/type"),
            (json!({"minLength": -1}), "/minLength"),
            (json!({"maximum": "3"}), "/maximum"),
            (json!({"required": ["a", "a"]}), "/required"),
            (json!(true), ""),
        ] {
            let error = CompiledSchema::compile(&schema).err().unwrap_or_else(|| panic!("{schema}"));
            assert_eq!((error.pointer.as_str(), error.rule.code), (pointer, "schema-unchecked"), "{schema}");
            assert!(error.message.contains("`json-schema`"), "{}", error.message);
        }
    }
}
