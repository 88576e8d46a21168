//! One of the two schemas, and a part of it as its references and its dialect make it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

use serde_json::{Map, Value as Json};

use super::types::TypeSet;
use crate::contract::Schema;

/// The most references that lead from one to the next.
const MAX_REFERENCES: usize = 64;
/// Keywords that say something about references and not about values.
const IDENTITY_KEYWORDS: [&str; 7] =
    ["$ref", "$schema", "$id", "$anchor", "$defs", "definitions", "$vocabulary"];
/// All keywords that restrict values.
const RESTRICTING_KEYWORDS: [&str; 40] = [
    "type",
    "enum",
    "const",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "items",
    "prefixItems",
    "additionalItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "unevaluatedItems",
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "required",
    "minProperties",
    "maxProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
];
/// Keywords by which a listed value is accepted or not.
const VALUE_KEYWORDS: [&str; 10] = [
    "type",
    "enum",
    "const",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];
/// Keywords of 2019-09 and of 2020-12, which earlier dialects do not know.
const LATER_KEYWORDS: [&str; 6] = [
    "unevaluatedItems",
    "unevaluatedProperties",
    "dependentRequired",
    "dependentSchemas",
    "minContains",
    "maxContains",
];

static NO_KEYWORDS: LazyLock<Map<String, Json>> = LazyLock::new(Map::new);

pub(super) static ANYTHING: Json = Json::Bool(true);

/// `anyOf` or `oneOf`, with its schemas.
pub(super) type Alternatives<'s> = Option<(&'static str, &'s [Json])>;

/// The dialect of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Draft2020,
    Draft2019,
    /// Draft 6 and 7, which ignore what stands beside a reference.
    Earlier,
}

/// A whole schema.
pub(super) struct Root<'a> {
    json: &'a Json,
    anchors: HashMap<String, String>,
    pub(super) dialect: Dialect,
}

/// A part of a schema, with the reference in it followed where it stands alone.
#[derive(Clone, Copy)]
pub(super) struct View<'s> {
    pub(super) keywords: &'s Map<String, Json>,
    /// What stands beside the reference that was followed.
    beside: &'s Map<String, Json>,
    /// What a reference beside other keywords leads to.
    pub(super) target: Option<&'s Json>,
    /// Whether it is `false`, which refuses every value.
    pub(super) is_false: bool,
    /// Whether a reference led here: defaults are not filled in behind one.
    pub(super) is_referenced: bool,
    dialect: Dialect,
}

impl<'a> Root<'a> {
    pub(super) fn new(schema: &'a Schema) -> Self {
        let json = schema.json();
        let dialect = json.get("$schema").and_then(Json::as_str).unwrap_or_default();
        let dialect = match dialect {
            dialect if dialect.contains("draft-0") => Dialect::Earlier,
            dialect if dialect.contains("2019-09") => Dialect::Draft2019,
            _ => Dialect::Draft2020,
        };
        Self { json, anchors: schema.anchors(), dialect }
    }

    /// This part of the schema.
    pub(super) fn view<'s>(&self, schema: &'s Json) -> View<'s>
    where
        'a: 's,
    {
        let mut view = View {
            keywords: &NO_KEYWORDS,
            beside: &NO_KEYWORDS,
            target: None,
            is_false: false,
            is_referenced: false,
            dialect: self.dialect,
        };
        let mut schema = schema;
        for _ in 0..MAX_REFERENCES {
            let Json::Object(keywords) = schema else {
                return View { is_false: *schema == Json::Bool(false), ..view };
            };
            view.keywords = keywords;
            let Some(target) = keywords.get("$ref").and_then(Json::as_str).and_then(|name| self.target(name))
            else {
                return view;
            };
            if self.dialect != Dialect::Earlier && restricts_beside_reference(keywords) {
                view.target = Some(target);
                return view;
            }
            if !view.is_referenced {
                view.beside = keywords;
            }
            (schema, view.is_referenced) = (target, true);
        }
        view
    }

    fn target(&self, reference: &str) -> Option<&'a Json> {
        let inner = reference.strip_prefix('#')?;
        if inner.is_empty() || inner.starts_with('/') {
            return self.json.pointer(inner);
        }
        self.json.pointer(self.anchors.get(inner)?)
    }
}

impl<'s> View<'s> {
    /// The value of a keyword, if the dialect knows it.
    pub(super) fn get(&self, keyword: &str) -> Option<&'s Json> {
        let is_known = match self.dialect {
            Dialect::Draft2020 => true,
            Dialect::Draft2019 => keyword != "prefixItems",
            Dialect::Earlier => keyword != "prefixItems" && !LATER_KEYWORDS.contains(&keyword),
        };
        self.keywords.get(keyword).filter(|_| is_known)
    }

    /// `anyOf`, or else `oneOf`, with its schemas.
    pub(super) fn listed_alternatives(&self) -> Alternatives<'s> {
        ["anyOf", "oneOf"]
            .into_iter()
            .find_map(|keyword| Some((keyword, self.get(keyword)?.as_array()?.as_slice())))
    }

    /// The types that a part may accept at most.
    pub(super) fn types(&self) -> TypeSet {
        if self.is_false { TypeSet::NONE } else { TypeSet::from_schema(self.keywords) }
    }

    /// A part as one schema for each of its types.
    pub(super) fn branches(&self) -> Vec<Json> {
        let types = match self.keywords.get("type") {
            Some(Json::Array(types)) if !self.keywords.contains_key("enum") => types.clone(),
            _ => return vec![Json::Object(self.keywords.clone())],
        };
        let of_type = |kind| {
            let mut keywords = self.keywords.clone();
            keywords.insert("type".to_owned(), kind);
            Json::Object(keywords)
        };
        types.into_iter().map(of_type).collect()
    }

    /// The schemas of the first items, and that of the others.
    pub(super) fn items(&self) -> (&'s [Json], &'s Json) {
        let rest = |keyword| self.get(keyword).unwrap_or(&ANYTHING);
        match (self.get("prefixItems"), self.get("items")) {
            (Some(Json::Array(first)), _) => (first, rest("items")),
            (_, Some(Json::Array(first))) => (first, rest("additionalItems")),
            _ => (&[], rest("items")),
        }
    }

    /// What holds for the fields that are not declared; `None` if that depends on more than one keyword.
    pub(super) fn other_fields(&self) -> Option<&'s Json> {
        const IN_PLACE: [&str; 6] = ["allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies"];
        if !self.map("patternProperties").is_empty() {
            return None;
        }
        let is_combined = self.target.is_some() || IN_PLACE.iter().any(|keyword| self.get(keyword).is_some());
        match (self.get("additionalProperties"), self.get("unevaluatedProperties")) {
            (None, Some(_)) if is_combined => None,
            (Some(other), _) | (None, Some(other)) => Some(other),
            (None, None) => Some(&ANYTHING),
        }
    }

    /// The names that a value must have. One whose default is filled in is never missing.
    pub(super) fn required_names(&self, fills_defaults: bool) -> BTreeSet<&'s str> {
        let properties = self.map("properties");
        let has_default =
            |name: &str| properties.get(name).is_some_and(|field| field.get("default").is_some());
        let names = self.list("required").iter().filter_map(Json::as_str);
        names.filter(|name| !(fills_defaults && has_default(name))).collect()
    }

    /// What the part says to readers, by keyword: beside a reference, or where it leads.
    pub(super) fn notes(&self) -> BTreeMap<&'s str, &'s Json> {
        let all = self.keywords.iter().chain(self.beside);
        all.filter(|(keyword, _)| is_note(keyword))
            .map(|(keyword, value)| (keyword.as_str(), value))
            .collect()
    }

    /// The schemas in a list.
    pub(super) fn list(&self, keyword: &str) -> &'s [Json] {
        self.get(keyword).and_then(Json::as_array).map_or(&[], Vec::as_slice)
    }

    /// The values by name in a map.
    pub(super) fn map(&self, keyword: &str) -> &'s Map<String, Json> {
        self.get(keyword).and_then(Json::as_object).unwrap_or(&NO_KEYWORDS)
    }

    /// Whether it restricts values at all.
    pub(super) fn restricts(&self) -> bool {
        self.target.is_some() || restricts_beside_reference(self.keywords)
    }

    /// Whether nothing but the keywords that [`accepts`](super::choices::accepts) looks at says which listed values are accepted.
    pub(super) fn is_decided_by_value(&self) -> bool {
        let restricts =
            |key: &str| !VALUE_KEYWORDS.contains(&key) && key != "$ref" && self.keywords.contains_key(key);
        let has_whole_factor = self.get("multipleOf").is_none_or(|factor| factor.as_u64().is_some());
        !self.is_false
            && self.target.is_none()
            && has_whole_factor
            && !RESTRICTING_KEYWORDS.into_iter().any(restricts)
    }

    /// Whether it restricts values by nothing but this keyword.
    pub(super) fn restricts_only_by(&self, keyword: &str) -> bool {
        let restricts = |key: &str| key != keyword && key != "$ref" && self.keywords.contains_key(key);
        self.target.is_none() && !RESTRICTING_KEYWORDS.into_iter().any(restricts)
    }
}

fn restricts_beside_reference(keywords: &Map<String, Json>) -> bool {
    RESTRICTING_KEYWORDS.iter().any(|keyword| *keyword != "$ref" && keywords.contains_key(*keyword))
}

/// Whether a keyword is only for readers.
fn is_note(keyword: &str) -> bool {
    !RESTRICTING_KEYWORDS.contains(&keyword) && !IDENTITY_KEYWORDS.contains(&keyword)
}
