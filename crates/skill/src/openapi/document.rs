//! A description of an API as a value: read from JSON or YAML within its bounds, with the places that its references lead to.

use serde_json::{Map, Value as Json};

use super::report::{Fault, Refusal};
use crate::yaml::{self, Node, TreeLimits, Value};
use metier_core::byte_order_mark::without_mark;
use metier_core::excerpt::shorten;
use metier_core::percent_encoding::decode_lenient;
use metier_core::strict_json;

/// The maximum size of a description in bytes: 32 MiB.
pub const MAX_OPENAPI_BYTES: usize = 32 << 20;
/// The maximum number of its values and keys, and how deep they lie in one another.
const MAX_VALUES: usize = 2_000_000;
const MAX_DEPTH: usize = 100;
/// How many references may lead to one another.
const MAX_HOPS: usize = 32;

/// A description of OpenAPI 3.0 or 3.1.
#[derive(Debug)]
pub(super) struct Document {
    root: Json,
}

impl Document {
    pub(super) fn parse(source: &[u8]) -> Result<Self, Refusal> {
        if source.len() > MAX_OPENAPI_BYTES {
            let reason = format!("it has more than {} MiB", MAX_OPENAPI_BYTES >> 20);
            return Err(Refusal::invalid(reason).with_help("remove what is not needed of it"));
        }
        let text = std::str::from_utf8(source).map_err(|_| Refusal::invalid("it is not UTF-8"))?;
        let text = without_mark(text);
        let is_json = text.trim_start().starts_with('{');
        let root = if is_json { parse_json(text)? } else { parse_yaml(text)? };
        check_version(&root)?;
        Ok(Self { root })
    }

    pub(super) fn root(&self) -> &Json {
        &self.root
    }

    /// The map under these keys, one below the other; an empty one if there is none.
    pub(super) fn map(&self, keys: &[&str]) -> &Map<String, Json> {
        let found = keys.iter().try_fold(&self.root, |value, key| value.get(*key));
        fields(found)
    }

    /// What a reference leads to, which may be a reference again.
    pub(super) fn target(&self, reference: &str) -> Result<&Json, Fault> {
        let pointer = reference.strip_prefix('#').ok_or(Fault::External)?;
        let pointer = decode_lenient(pointer.as_bytes());
        let pointer = std::str::from_utf8(&pointer).map_err(|_| Fault::Nowhere)?;
        self.root.pointer(pointer).ok_or(Fault::Nowhere)
    }

    /// The value, or what the reference in its place leads to.
    pub(super) fn resolve<'d>(&'d self, mut value: &'d Json) -> Result<&'d Json, Fault> {
        for _ in 0..MAX_HOPS {
            match value.get("$ref").and_then(Json::as_str) {
                Some(reference) => value = self.target(reference)?,
                None => return Ok(value),
            }
        }
        Err(Fault::Nowhere)
    }
}

/// The fields of an object; none for anything else.
pub(super) fn fields(value: Option<&Json>) -> &Map<String, Json> {
    static EMPTY: std::sync::LazyLock<Map<String, Json>> = std::sync::LazyLock::new(Map::new);
    value.and_then(Json::as_object).unwrap_or(&EMPTY)
}

/// The items of a list; none for anything else.
pub(super) fn items(value: Option<&Json>) -> &[Json] {
    value.and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

/// A text that is written there.
pub(super) fn text<'d>(object: &'d Map<String, Json>, key: &str) -> Option<&'d str> {
    object.get(key).and_then(Json::as_str)
}

/// Whether the flag of that name is set.
pub(super) fn flag(object: &Map<String, Json>, key: &str) -> bool {
    object.get(key).and_then(Json::as_bool).unwrap_or(false)
}

fn parse_json(text: &str) -> Result<Json, Refusal> {
    if count_json_values(text) > MAX_VALUES {
        return Err(Refusal::invalid(format!("it has more than {MAX_VALUES} values")));
    }
    strict_json::parse_with_rounded_integers(text).map_err(|error| {
        let (line, _) = position(text, error.offset);
        Refusal::invalid(format!("line {line} is no JSON: {}", shorten(&error.reason, 200)))
    })
}

/// At least as many values as the text has, counted before it is read.
fn count_json_values(text: &str) -> usize {
    let (mut count, mut is_string, mut is_escaped) = (1, false, false);
    for byte in text.bytes() {
        is_string ^= byte == b'"' && !is_escaped;
        is_escaped = is_string && byte == b'\\' && !is_escaped;
        count += usize::from(!is_string && matches!(byte, b',' | b':' | b'[' | b'{'));
    }
    count
}

fn parse_yaml(text: &str) -> Result<Json, Refusal> {
    let limits = TreeLimits { depth: MAX_DEPTH, nodes: MAX_VALUES, text: 2 * MAX_OPENAPI_BYTES };
    let tree = yaml::parse_with_limits(text, limits).map_err(|error| {
        let (line, column) = position(text, error.span.start);
        Refusal::invalid(format!("{line}:{column}: it is no YAML: {}", shorten(&error.message, 200)))
    })?;
    tree.root.map(into_json).ok_or_else(|| Refusal::invalid("it is empty"))
}

/// As [`Node::to_json`], with a number that JSON cannot hold as a text: it is an example, or a bound that says nothing.
fn into_json(node: Node) -> Json {
    match node.value {
        Value::Scalar(_) => node.to_json().unwrap_or_else(|_| node.text().unwrap_or_default().into()),
        Value::List(items) => items.into_iter().map(into_json).collect(),
        Value::Map(entries) => entries.into_iter().map(|entry| (entry.key, into_json(entry.node))).collect(),
    }
}

/// The line and the column of a byte, from 1.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (1 + before.matches('\n').count(), 1 + before[line_start..].chars().count())
}

fn check_version(root: &Json) -> Result<(), Refusal> {
    let written = |key: &str| match root.get(key)? {
        Json::String(text) => Some(text.clone()),
        // `openapi: 3.1` without quotes.
        Json::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let help = "convert it to OpenAPI 3.0 or 3.1";
    if let Some(version) = written("swagger") {
        let reason = format!("it is written in Swagger {}", excerpt(&version));
        return Err(Refusal::invalid(reason).with_help(help));
    }
    match written("openapi") {
        Some(version) if ["3.0", "3.1"].iter().any(|known| is_version(&version, known)) => Ok(()),
        Some(version) => {
            let reason = format!("it is written in OpenAPI {}", excerpt(&version));
            Err(Refusal::invalid(reason).with_help(help))
        }
        None => Err(Refusal::invalid("it is no OpenAPI description: it has no `openapi` with its version")),
    }
}

fn is_version(text: &str, known: &str) -> bool {
    text.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
}

fn excerpt(text: &str) -> String {
    shorten(text, 40).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::billion_laughs;

    fn refused(source: &str) -> String {
        Document::parse(source.as_bytes()).expect_err("refused").into_error("x").message().to_owned()
    }

    #[test]
    fn a_description_is_read_from_json_and_from_yaml() {
        let json = r#"{"openapi": "3.0.3", "paths": {"/a": {"get": {"deprecated": true}}}, "x": 123456789012345678901}"#;
        let yaml = "openapi: 3.1\npaths:\n  /a: {get: {deprecated: true}}\nx: 123456789012345678901\n";
        for source in [json, yaml, &format!("\u{feff}{json}"), &format!("\n{json}")] {
            let document = Document::parse(source.as_bytes()).unwrap();
            assert_eq!(document.root()["paths"], json!({"/a": {"get": {"deprecated": true}}}), "{source}");
        }
    }

    #[test]
    fn what_is_no_description_is_refused_with_the_reason() {
        let deep = format!("{{\"openapi\": {}", "[".repeat(100_000));
        let wide = format!("{{\"openapi\": [{}1]}}", "1,".repeat(MAX_VALUES));
        for (source, words) in [
            ("{\"swagger\": \"2.0\"}", "it is written in Swagger 2.0"),
            ("openapi: 3.2.0", "it is written in OpenAPI 3.2.0"),
            ("openapi: 3.10.0", "it is written in OpenAPI 3.10.0"),
            ("openapi: \"4\\e[31m\"", "control character"),
            ("{\"openapi\": \"4\\u001b[31m\"}", "OpenAPI 4\\u{1b}[31m"),
            ("{}", "it has no `openapi`"),
            ("[1]", "it has no `openapi`"),
            ("", "it is empty"),
            ("{\"openapi\": \"3.0.0\",\n \"a\": }", "line 2 is no JSON"),
            ("{\"openapi\": \"3.0.0\", \"openapi\": \"3.0.0\"}", "line 1 is no JSON"),
            ("openapi: 3.0.0\n a: [", "2:"),
            (&deep, "line 1 is no JSON: recursion limit"),
            (&wide, "more than 2000000 values"),
            (&billion_laughs(), "more than 2000000 values"),
            (&"- ".repeat(30_000), "nested more than 100 deep"),
        ] {
            let found = refused(source);
            assert!(found.contains(words), "{}: {found}", shorten(source, 100));
        }
        assert!(Document::parse(b"\xff").is_err());
        assert!(Document::parse(&vec![b' '; MAX_OPENAPI_BYTES + 1]).is_err());
    }

    #[test]
    fn references_are_followed_inside_of_the_description() {
        let source = json!({"openapi": "3.0.0", "a/b": {"~": 1}, "c": {"$ref": "#/d"}, "d": {"$ref": "#/a~1b/~0"},
            "e": {"$ref": "#/e"}, "f": {"$ref": "#/g"}, "g": {"$ref": "#/f"}, "h i": 2});
        let document = Document::parse(source.to_string().as_bytes()).unwrap();
        let resolved = |reference: &str| {
            let value = json!({"$ref": reference});
            document.resolve(&value).cloned()
        };
        assert_eq!(resolved("#/c"), Ok(json!(1)));
        assert_eq!(resolved("#/h%20i"), Ok(json!(2)));
        for reference in ["#/e", "#/f", "#/none", "#name", "#/c/x/y"] {
            assert_eq!(resolved(reference), Err(Fault::Nowhere), "{reference}");
        }
        for reference in ["other.yaml#/a", "https://a.test/x.json", "", "file:///etc/passwd", "../x#/a"] {
            assert_eq!(resolved(reference), Err(Fault::External), "{reference}");
        }
    }
}
