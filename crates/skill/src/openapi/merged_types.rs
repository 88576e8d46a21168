//! The types of a value that several schemas describe.

use serde_json::{Map, Value as Json};

use super::document::{flag, items};

const KINDS: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];

/// What a value may be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MergedTypes {
    /// Its types but null; none if it may be anything.
    pub(super) kinds: Vec<&'static str>,
    pub(super) is_nullable: bool,
}

/// The types that all schemas allow. `nullable` of 3.0 counts wherever it is written, for it is written beside the parts and not in them.
pub(super) fn merged_types(parts: &[&Map<String, Json>]) -> MergedTypes {
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
