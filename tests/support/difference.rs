//! Two JSON values, and where they differ.

use serde_json::Value;

/// A line for each place where `got` is not as `expected`: `.files[0].words: expected 3, got 4`.
pub fn difference(expected: &Value, got: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", Some(expected), Some(got), &mut found);
    found
}

fn compare(place: &str, expected: Option<&Value>, got: Option<&Value>, found: &mut Vec<String>) {
    match (expected, got) {
        (Some(Value::Object(expected)), Some(Value::Object(got))) => {
            let more = got.keys().filter(|key| !expected.contains_key(*key));
            for key in expected.keys().chain(more) {
                compare(&format!("{place}.{key}"), expected.get(key), got.get(key), found);
            }
        }
        (Some(Value::Array(expected)), Some(Value::Array(got))) => {
            for position in 0..expected.len().max(got.len()) {
                compare(&format!("{place}[{position}]"), expected.get(position), got.get(position), found);
            }
        }
        (expected, got) if expected != got => {
            let place = if place.is_empty() { "the value" } else { place };
            found.push(format!("{place}: expected {}\n     got {}", shown(expected), shown(got)));
        }
        _ => {}
    }
}

/// Texts of several lines as such: that is how they are compared by eye.
fn shown(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) if text.contains('\n') => format!("the text\n{text}"),
        Some(value) => value.to_string(),
        None => "nothing".to_owned(),
    }
}
