//! The differences between two JSON values.

use serde::Serialize;
use serde_json::Value;

/// The maximum number of differences that a result lists.
const MAX_DIFFERENCES: usize = 64;

/// Where the result is not the expected one: `.files[0].words`, a file's path, or `the error`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// Where in the result.
    pub path: String,
    /// The expected value; in JSON also `null` if none was expected.
    pub expected: Option<Value>,
    /// The actual value.
    pub actual: Option<Value>,
}

impl Difference {
    pub(super) fn new(path: impl Into<String>, expected: Option<Value>, actual: Option<Value>) -> Self {
        Self { path: path.into(), expected, actual }
    }
}

/// Every path at which `actual` differs from `expected`.
pub(super) fn compare_whole(path: &str, expected: &Value, actual: &Value) -> Vec<Difference> {
    let mut comparison = Comparison { reports_extra_fields: true, found: Vec::new() };
    comparison.compare(path, Some(expected), Some(actual));
    comparison.found
}

/// Every path where `actual` lacks a part of `part`: objects may have more fields, lists must not have more items.
pub(super) fn compare_part(path: &str, part: &Value, actual: &Value) -> Vec<Difference> {
    let mut comparison = Comparison { reports_extra_fields: false, found: Vec::new() };
    comparison.compare(path, Some(part), Some(actual));
    comparison.found
}

struct Comparison {
    /// Whether an unexpected field is a difference.
    reports_extra_fields: bool,
    found: Vec<Difference>,
}

impl Comparison {
    fn compare(&mut self, path: &str, expected: Option<&Value>, actual: Option<&Value>) {
        match (expected, actual) {
            (Some(Value::Object(expected)), Some(Value::Object(actual))) => {
                let more =
                    actual.keys().filter(|key| self.reports_extra_fields && !expected.contains_key(*key));
                for key in expected.keys().chain(more).collect::<Vec<_>>() {
                    self.compare(&format!("{path}.{key}"), expected.get(key), actual.get(key));
                }
            }
            (Some(Value::Array(expected)), Some(Value::Array(actual))) => {
                for position in 0..expected.len().max(actual.len()) {
                    self.compare(
                        &format!("{path}[{position}]"),
                        expected.get(position),
                        actual.get(position),
                    );
                }
            }
            (expected, actual) if !leaves_equal(expected, actual) && self.found.len() < MAX_DIFFERENCES => {
                let path = if path.is_empty() { "the value" } else { path };
                self.found.push(Difference::new(path, expected.cloned(), actual.cloned()));
            }
            _ => {}
        }
    }
}

/// Whether two leaves are the same value: `1` and `1.0` are the same number.
fn leaves_equal(expected: Option<&Value>, actual: Option<&Value>) -> bool {
    match (expected, actual) {
        (Some(Value::Number(expected)), Some(Value::Number(actual))) => {
            expected == actual
                || (expected.is_f64() != actual.is_f64() && expected.as_f64() == actual.as_f64())
        }
        (expected, actual) => expected == actual,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_place_that_differs_is_named() {
        let expected = json!({"a": [1, {"b": null}], "c": "x", "d": 2});
        let actual = json!({"a": [1, {"b": 0}, 3], "c": "x", "d": 2.0, "e": []});
        let found: Vec<_> = compare_whole("", &expected, &actual).into_iter().map(|one| one.path).collect();
        assert_eq!(found, [".a[1].b", ".a[2]", ".e"]);
        assert_eq!(compare_whole("", &json!(1), &json!("1"))[0].path, "the value");
    }

    #[test]
    fn a_part_may_leave_fields_out_and_nothing_else() {
        let actual = json!({"valid": true, "errors": [], "rendered": 3});
        assert_eq!(compare_part("", &json!({"valid": true, "errors": []}), &actual), []);
        assert_eq!(compare_part("", &json!({"valid": true, "warnings": []}), &actual)[0].path, ".warnings");
        assert_eq!(compare_part("", &json!([1]), &json!([1, 2]))[0].path, "[1]");
    }

    #[test]
    fn a_flood_of_differences_ends() {
        let expected = Value::Array(vec![json!(0); 5_000]);
        let actual = Value::Array(vec![json!(1); 5_000]);
        assert_eq!(compare_whole("", &expected, &actual).len(), MAX_DIFFERENCES);
    }
}
