//! The frontmatter of a `SKILL.md` as JSON, for clients that compare it value by value with the file.

use serde_json::{Map, Value as Json};

use super::frontmatter::{FrontmatterMatch, find_frontmatter};
use super::yaml;

/// All keys of the frontmatter, typed by the core schema of YAML 1.2: `1.0` is a number and `"1.0"` a text.
///
/// `None` where there is no frontmatter that is a mapping, or a number that JSON cannot represent.
pub fn typed_frontmatter(source: &[u8]) -> Option<Map<String, Json>> {
    let FrontmatterMatch::Found(found) = find_frontmatter(source) else { return None };
    let text = std::str::from_utf8(source.get(found.yaml)?).ok()?;
    match yaml::parse(text).ok()?.root?.to_json().ok()? {
        Json::Object(entries) => Some(entries),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_the_types_that_other_parsers_see() {
        let text = b"---\nname: x\nversion: 1.0\nquoted: \"1.0\"\non: yes\ndate: 2024-01-01\nmetadata: {a: [1, ~]}\n---\nbody";
        let expected = json!({
            "name": "x", "version": 1.0, "quoted": "1.0", "on": "yes", "date": "2024-01-01",
            "metadata": {"a": [1, null]},
        });
        assert_eq!(typed_frontmatter(text).map(Json::Object), Some(expected));
    }

    #[test]
    fn what_cannot_be_typed_is_left_out() {
        for text in ["", "body", "---\n- a\n---\n", "---\na: .inf\n---\n", "---\na: [\n---\n", "---\na: b\n"]
        {
            assert_eq!(typed_frontmatter(text.as_bytes()), None, "{text}");
        }
    }
}
