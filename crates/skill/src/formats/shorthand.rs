//! The shorthand in which Curia writes the type of an input: `string[]? (what it is)`.

use serde_json::{Map, Value as Json, json};

/// Types that are those of JSON Schema.
const TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "object", "null"];
/// A point in time, which is a text in JSON.
const TIMESTAMP: &str = "timestamp";
/// How points in time are written, for whoever writes one.
const TIMESTAMP_FORM: &str = "a date and time in ISO 8601, best with an offset from UTC";

/// The type of one input.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InputType {
    name: String,
    is_list: bool,
    pub(super) is_optional: bool,
    description: Option<String>,
}

impl InputType {
    /// Parses `TYPE`, `TYPE[]`, either with `?` after it, and a description in parentheses after that. Blanks may stand before the
    /// parentheses only.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (written, description) = split_description(text);
        let (required, is_optional) = match written.strip_suffix('?') {
            Some(rest) => (rest, true),
            None => (written, false),
        };
        let (name, is_list) = match required.strip_suffix("[]") {
            Some(item) => (item, true),
            None => (required, false),
        };
        if !TYPES.contains(&name) && (name != TIMESTAMP || is_list) {
            let shown = metier_core::excerpt::shorten(name, 60);
            return Err(format!("`{shown}` is not a type; the types are {}, {TIMESTAMP}", TYPES.join(", ")));
        }
        Ok(Self { name: name.to_owned(), is_list, is_optional, description })
    }

    pub(super) fn is_timestamp(&self) -> bool {
        self.name == TIMESTAMP
    }

    /// The schema of the input. An optional one may be null.
    pub(super) fn schema(&self) -> Json {
        let name = if self.is_timestamp() { "string" } else { &self.name };
        let name = if self.is_list { "array" } else { name };
        let mut schema = Map::new();
        let is_nullable = self.is_optional && name != "null";
        schema.insert("type".into(), if is_nullable { json!([name, "null"]) } else { json!(name) });
        if self.is_list {
            schema.insert("items".into(), json!({"type": self.name}));
        }
        let description = match (&self.description, self.is_timestamp()) {
            (Some(own), true) => Some(format!("{own}; {TIMESTAMP_FORM}")),
            (None, true) => Some(TIMESTAMP_FORM.to_owned()),
            (own, false) => own.clone(),
        };
        schema.extend(description.map(|text| ("description".to_owned(), text.into())));
        Json::Object(schema)
    }
}

/// What the author said about a point in time, of the description in its schema.
pub(super) fn timestamp_description(text: &str) -> Option<&str> {
    text.strip_suffix(TIMESTAMP_FORM)?.strip_suffix("; ")
}

/// The type, and what stands in the parentheses after it: one line.
fn split_description(text: &str) -> (&str, Option<String>) {
    let is_break = |c: char| matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}');
    let found = text.strip_suffix(')').and_then(|rest| rest.split_once('('));
    match found.filter(|(_, description)| !description.is_empty() && !description.contains(is_break)) {
        Some((written, description)) => {
            let description = Some(description.trim()).filter(|text| !text.is_empty());
            (written.trim_end(), description.map(str::to_owned))
        }
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_become_schemas() {
        // CU-T15
        for (text, optional, schema) in [
            ("string", false, json!({"type": "string"})),
            ("string (a | b)", false, json!({"type": "string", "description": "a | b"})),
            ("string? (x)", true, json!({"type": ["string", "null"], "description": "x"})),
            ("number?", true, json!({"type": ["number", "null"]})),
            ("string[]", false, json!({"type": "array", "items": {"type": "string"}})),
            ("object[]?", true, json!({"type": ["array", "null"], "items": {"type": "object"}})),
            ("null", false, json!({"type": "null"})),
            ("null?", true, json!({"type": "null"})),
            ("boolean  ( yes (or) no )", false, json!({"type": "boolean", "description": "yes (or) no"})),
            ("string( )", false, json!({"type": "string"})),
        ] {
            let read = InputType::parse(text).unwrap();
            assert_eq!((read.is_optional, read.schema()), (optional, schema), "{text}");
        }
        let time = InputType::parse("timestamp?").unwrap();
        assert!(time.is_timestamp() && time.is_optional);
        assert_eq!(time.schema()["type"], json!(["string", "null"]));
    }

    #[test]
    fn anything_else_is_no_type() {
        // CU-T15: text in the place of the type once broke a whole program.
        for text in [
            "string — text",
            "foo[]",
            "timestamp[]",
            "",
            "?",
            "[]",
            "(x)",
            "String",
            "string[][]",
            "string()",
            "any",
            "string ",
            " string",
            "string ?",
            "string? ",
            "string ? (x)",
            "string (x) ",
            "string (a\nb)",
            "string (a\u{2028}b)",
            "\u{a0}string",
        ] {
            assert!(InputType::parse(text).is_err(), "{text}");
        }
    }
}
