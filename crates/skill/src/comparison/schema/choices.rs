//! The values of a schema that accepts only a few: those of `enum` and `const`, and of the types that have no more.

use std::collections::HashSet;

use serde_json::{Map, Value as Json};

use super::numbers::{self, Bound};
use super::types::TypeSet;
use metier_core::excerpt::shorten;

/// The most values that a message lists.
const MAX_LISTED: usize = 5;
/// The most characters of each.
const MAX_CHARS: usize = 60;

/// The values of a schema that accepts no others, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct Choices {
    values: Vec<Json>,
    /// Their canonical texts.
    texts: HashSet<String>,
    /// Whether they have only a few values by their type.
    is_by_type: bool,
}

impl Choices {
    /// The choices of a schema, without those that its other keywords exclude; `None` if it accepts infinitely many values.
    pub(super) fn from_schema(keywords: &Map<String, Json>) -> Option<Self> {
        let mut is_by_type = false;
        let listed = match (keywords.get("const"), keywords.get("enum")) {
            (Some(only), Some(Json::Array(values))) => {
                let is_listed = values.iter().any(|value| canonical_text(value) == canonical_text(only));
                if is_listed { vec![only.clone()] } else { Vec::new() }
            }
            (Some(only), _) => vec![only.clone()],
            (None, Some(Json::Array(values))) => values.clone(),
            _ => {
                is_by_type = true;
                TypeSet::from_schema(keywords).values()?
            }
        };
        let choices = Self::from_values(listed.into_iter().filter(|value| accepts(keywords, value)));
        Some(Self { is_by_type, ..choices })
    }

    /// These values, each once.
    pub(super) fn from_values(values: impl IntoIterator<Item = Json>) -> Self {
        let mut choices = Self::default();
        for value in values {
            if choices.texts.insert(canonical_text(&value)) {
                choices.values.push(value);
            }
        }
        choices
    }

    /// Whether a keyword lists them, and not only their type says that there are a few.
    pub(super) fn is_listed(&self) -> bool {
        !self.is_by_type
    }

    pub(super) fn values(&self) -> &[Json] {
        &self.values
    }

    pub(super) fn contains(&self, value: &Json) -> bool {
        self.texts.contains(&canonical_text(value))
    }

    /// The types of the values.
    pub(super) fn types(&self) -> TypeSet {
        self.values.iter().map(TypeSet::of_value).fold(TypeSet::NONE, TypeSet::union)
    }
}

/// Whether the keywords that say something about single numbers and texts accept a value; the others do not count here.
pub(super) fn accepts(keywords: &Map<String, Json>, value: &Json) -> bool {
    if !TypeSet::from_schema(keywords).overlaps(TypeSet::of_value(value)) {
        return false;
    }
    match value {
        Json::Number(number) => {
            let bounds = [Bound::lower(keywords), Bound::upper(keywords)];
            bounds.iter().flatten().all(|bound| bound.accepts(number))
                && is_multiple(number, keywords.get("multipleOf"))
        }
        Json::String(text) => {
            let length = text.chars().count() as u64;
            let limit = |keyword| keywords.get(keyword).and_then(Json::as_u64);
            limit("minLength").is_none_or(|least| length >= least)
                && limit("maxLength").is_none_or(|most| length <= most)
        }
        _ => true,
    }
}

fn is_multiple(number: &serde_json::Number, factor: Option<&Json>) -> bool {
    let Some(Json::Number(factor)) = factor else { return true };
    match (numbers::whole(number), numbers::whole(factor)) {
        (Some(number), Some(factor)) if factor != 0 => number % factor == 0,
        // No whole multiple of a whole number has a fraction; with other factors, it is not decided here.
        (None, Some(_)) => false,
        _ => true,
    }
}

/// A text that is the same for equal values, whatever the order of keys and the notation of numbers.
pub(super) fn canonical_text(value: &Json) -> String {
    match value {
        Json::Number(number) => {
            numbers::whole(number).map_or_else(|| number.to_string(), |whole| whole.to_string())
        }
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical_text).collect();
            format!("[{}]", items.join(","))
        }
        Json::Object(fields) => {
            let mut fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{}:{}", Json::from(name.as_str()), canonical_text(value)))
                .collect();
            fields.sort_unstable();
            format!("{{{}}}", fields.join(","))
        }
        other => other.to_string(),
    }
}

/// The values in a message.
pub(super) fn list_values<'v>(values: impl Iterator<Item = &'v Json>) -> String {
    let mut texts: Vec<String> = values.take(MAX_LISTED + 1).map(show_value).collect();
    if texts.len() > MAX_LISTED {
        texts.truncate(MAX_LISTED);
        texts.push("others".to_owned());
    }
    texts.join(", ")
}

/// One value in a message.
pub(super) fn show_value(value: &Json) -> String {
    shorten(&value.to_string(), MAX_CHARS)
}
