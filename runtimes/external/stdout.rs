//! Parses standard output: one JSON value, or plain text.

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::error::Result;
use crate::host::check_value_memory;
use crate::policy::Limits;
use crate::strict_json;

/// The value of `text`: the JSON value if it is exactly one and nothing is lost by parsing it, otherwise the text as a
/// string. A duplicate key, an integer outside 64 bits or more than 127 levels keep the text. A `memory` error if it would be
/// larger than the host may hold.
pub(super) fn parse_value(text: &str, limits: &Limits) -> Result<Value> {
    let is_json = || serde_json::from_str::<IgnoredAny>(text).is_ok();
    let as_text = || Value::String(text.to_owned());
    match check_value_memory(text.as_bytes(), limits) {
        Ok(()) => Ok(strict_json::parse(text).unwrap_or_else(|_| as_text())),
        Err(error) if is_json() => Err(error),
        Err(_) => Ok(as_text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use serde_json::json;

    #[test]
    fn one_json_value_is_the_value_and_anything_else_is_text() {
        for (text, value) in [
            ("{\"a\": [1, -2.5, null, true]}\n", json!({"a": [1, -2.5, null, true]})),
            (" \r\n\t42 ", json!(42)),
            ("\"hi\"", json!("hi")),
            ("null", json!(null)),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            (r#"["\"99999999999999999999", 1]"#, json!(["\"99999999999999999999", 1])),
            (r#"{"\\": 1, "é": 2}"#, json!({"\\": 1, "é": 2})),
        ] {
            assert_eq!(parse_value(text, &Limits::default()).unwrap(), value, "{text}");
        }
        for text in ["", "\n", "hello\n", "1 2", "{} x", "NaN", "{\"a\":1}\n{\"a\":2}\n", "'a'", "\u{feff}1"]
        {
            assert_eq!(parse_value(text, &Limits::default()).unwrap(), json!(text), "{text}");
        }
    }

    #[test]
    fn a_value_that_takes_far_more_than_its_text_is_refused_before_it_is_made() {
        let limits = Limits::default().memory(64 << 20);
        for part in [r#"{"a":0},"#, "{},", "[],", "0,", "[{}],"] {
            let text = format!("[{}0]", part.repeat((8 << 20) / part.len()));
            assert_eq!(parse_value(&text, &limits).unwrap_err().kind(), ErrorKind::Memory, "{part}");
        }
        let text = format!("{} and more", r#"{"a":0},"#.repeat(1 << 20));
        assert_eq!(parse_value(&text, &limits).unwrap(), json!(text));
    }

    #[test]
    fn what_json_would_lose_stays_text() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for text in [
            "18446744073709551616",
            "-9223372036854775809",
            "[1234567890123456789012345678901234567890]",
            "1e400",
            r#"{"a": 1, "a": 2}"#,
            r#"[{"b": {"a": 1, "\u0061": 2}}]"#,
            &deep,
        ] {
            assert_eq!(parse_value(text, &Limits::default()).unwrap(), json!(text), "{text}");
        }
    }
}
