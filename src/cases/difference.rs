//! The differences between two JSON values.

use serde::Serialize;
use serde_json::Value;

/// The maximum number of differences that a result lists.
const MAX_DIFFERENCES: usize = 64;

/// A place where the result is not the expected one: `.files[0].words`, a file's path, or `the error`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The place.
    pub place: String,
    /// The expected value; in JSON also `null` if none was expected.
    pub expected: Option<Value>,
    /// The actual value.
    pub got: Option<Value>,
}

impl Difference {
    pub(super) fn new(place: impl Into<String>, expected: Option<Value>, got: Option<Value>) -> Self {
        Self { place: place.into(), expected, got }
    }
}

/// Every place where `got` differs from `expected`.
pub(super) fn compare_whole(place: &str, expected: &Value, got: &Value) -> Vec<Difference> {
    let mut comparison = Comparison { reports_extra_fields: true, found: Vec::new() };
    comparison.compare(place, Some(expected), Some(got));
    comparison.found
}

/// Every place where `got` lacks a part of `part`: objects may have more fields, lists must not have more items.
pub(super) fn compare_part(place: &str, part: &Value, got: &Value) -> Vec<Difference> {
    let mut comparison = Comparison { reports_extra_fields: false, found: Vec::new() };
    comparison.compare(place, Some(part), Some(got));
    comparison.found
}

struct Comparison {
    /// Whether an unexpected field is a difference.
    reports_extra_fields: bool,
    found: Vec<Difference>,
}

impl Comparison {
    fn compare(&mut self, place: &str, expected: Option<&Value>, got: Option<&Value>) {
        match (expected, got) {
            (Some(Value::Object(expected)), Some(Value::Object(got))) => {
                let more = got.keys().filter(|key| self.reports_extra_fields && !expected.contains_key(*key));
                for key in expected.keys().chain(more).collect::<Vec<_>>() {
                    self.compare(&format!("{place}.{key}"), expected.get(key), got.get(key));
                }
            }
            (Some(Value::Array(expected)), Some(Value::Array(got))) => {
                for position in 0..expected.len().max(got.len()) {
                    self.compare(&format!("{place}[{position}]"), expected.get(position), got.get(position));
                }
            }
            (expected, got) if !leaves_equal(expected, got) && self.found.len() < MAX_DIFFERENCES => {
                let place = if place.is_empty() { "the value" } else { place };
                self.found.push(Difference::new(place, expected.cloned(), got.cloned()));
            }
            _ => {}
        }
    }
}

/// Whether two leaves are the same value: `1` and `1.0` are the same number.
fn leaves_equal(expected: Option<&Value>, got: Option<&Value>) -> bool {
    match (expected, got) {
        (Some(Value::Number(expected)), Some(Value::Number(got))) => {
            expected == got || (expected.is_f64() != got.is_f64() && expected.as_f64() == got.as_f64())
        }
        (expected, got) => expected == got,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_place_that_differs_is_named() {
        let expected = json!({"a": [1, {"b": null}], "c": "x", "d": 2});
        let got = json!({"a": [1, {"b": 0}, 3], "c": "x", "d": 2.0, "e": []});
        let found: Vec<_> = compare_whole("", &expected, &got).into_iter().map(|one| one.place).collect();
        assert_eq!(found, [".a[1].b", ".a[2]", ".e"]);
        assert_eq!(compare_whole("", &json!(1), &json!("1"))[0].place, "the value");
    }

    #[test]
    fn a_part_may_leave_fields_out_and_nothing_else() {
        let got = json!({"valid": true, "errors": [], "rendered": 3});
        assert_eq!(compare_part("", &json!({"valid": true, "errors": []}), &got), []);
        assert_eq!(compare_part("", &json!({"valid": true, "warnings": []}), &got)[0].place, ".warnings");
        assert_eq!(compare_part("", &json!([1]), &json!([1, 2]))[0].place, "[1]");
    }

    #[test]
    fn a_flood_of_differences_ends() {
        let expected = Value::Array(vec![json!(0); 5_000]);
        let got = Value::Array(vec![json!(1); 5_000]);
        assert_eq!(compare_whole("", &expected, &got).len(), MAX_DIFFERENCES);
    }
}
