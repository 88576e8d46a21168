//! Parses standard output: one JSON value, or plain text.

use serde::de::IgnoredAny;
use serde_json::Value;

use metier_core::byte_order_mark::without_mark;
use metier_core::error::Result;
use metier_core::host::check_value_memory;
use metier_core::policy::Limits;
use metier_core::strict_json;

/// What a process wrote to standard output.
pub(super) struct ParsedStdout {
    pub(super) value: Value,
    /// The number that the text also is, in a form that JSON would change.
    pub(super) number: Option<Value>,
    /// Whether U+FFFD stands for halves of surrogate pairs.
    pub(super) has_replacements: bool,
}

/// The value of `text`: the JSON value if it is exactly one and nothing is lost by parsing it, otherwise the text as a
/// string. A byte order mark before JSON is no part of it. A duplicate key, an integer outside 64 bits or more than 127 levels keep the text, and so does a bare number that JSON
/// would write in another form, such as `1.10` or `5417e39`. A `memory` error if it would be larger than the host may hold.
pub(super) fn parse(text: &str, limits: &Limits) -> Result<ParsedStdout> {
    let is_json = || serde_json::from_str::<IgnoredAny>(without_mark(text)).is_ok();
    let json = |value| Ok(ParsedStdout { value, number: None, has_replacements: false });
    let as_text = |number| Ok(ParsedStdout { value: Value::from(text), number, has_replacements: false });
    match check_value_memory(text.as_bytes(), limits) {
        Ok(()) => {}
        Err(error) if is_json() => return Err(error),
        Err(_) => return as_text(None),
    }
    let unmarked = without_mark(text);
    if let Ok(value) = strict_json::parse_bare(unmarked) {
        return json(value);
    }
    let replaced = strict_json::replace_half_surrogates(unmarked);
    match replaced.map(|text| strict_json::parse_bare(&text)) {
        Some(Ok(value)) => Ok(ParsedStdout { value, number: None, has_replacements: true }),
        _ => as_text(strict_json::parse(unmarked).ok().filter(Value::is_number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_core::error::ErrorKind;
    use serde_json::json;

    fn parse_value(text: &str, limits: &Limits) -> Result<Value> {
        parse(text, limits).map(|parsed| parsed.value)
    }

    #[test]
    fn one_json_value_is_the_value_and_anything_else_is_text() {
        for (text, value) in [
            ("{\"a\": [1, -2.5, null, true]}\n", json!({"a": [1, -2.5, null, true]})),
            (" \r\n\t42 ", json!(42)),
            ("1.5\n", json!(1.5)),
            ("-0.25", json!(-0.25)),
            ("100.0", json!(100.0)),
            ("0", json!(0)),
            ("\"hi\"", json!("hi")),
            ("null", json!(null)),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            (r#"["\"99999999999999999999", 1]"#, json!(["\"99999999999999999999", 1])),
            ("\u{feff}{\"a\": 1}\r\n", json!({"a": 1})),
            ("\u{feff}1", json!(1)),
            (r#"{"\\": 1, "é": 2}"#, json!({"\\": 1, "é": 2})),
        ] {
            assert_eq!(parse_value(text, &Limits::default()).unwrap(), value, "{text}");
        }
        for text in [
            "",
            "\n",
            "hello\n",
            "1 2",
            "{} x",
            "NaN",
            "{\"a\":1}\n{\"a\":2}\n",
            "'a'",
            "\u{feff}a",
            "\u{feff}\u{feff}1",
        ] {
            assert_eq!(parse_value(text, &Limits::default()).unwrap(), json!(text), "{text}");
        }
    }

    #[test]
    fn a_bare_number_that_json_writes_in_another_form_stays_text() {
        for text in [
            "1.10",
            "3.10\n",
            "100.00",
            "5417e39\n",
            "1e5",
            "1E5",
            "1e20",
            "5.417e+42",
            "-0",
            "007",
            "+1",
            ".5",
            "5.",
            "0x10",
            "0.0000000001",
            "0.12345678901234567890",
            "1_000",
            "Infinity",
            "-",
            "2026-01-02",
            "12345678901234567890123",
        ] {
            assert_eq!(parse_value(text, &Limits::default()).unwrap(), json!(text), "{text}");
        }
        // In an object or a list, the value counts.
        for (text, value) in
            [("[1.10, 1e5]", json!([1.1, 100_000.0])), (r#"{"v": -0.0}"#, json!({"v": -0.0}))]
        {
            assert_eq!(parse_value(text, &Limits::default()).unwrap(), value, "{text}");
        }
    }

    #[test]
    fn a_half_of_a_surrogate_pair_in_json_is_replaced() {
        for (text, value) in [
            (r#"{"t":"abc\ud83d"}"#, json!({"t": "abc\u{fffd}"})),
            (r#"["\ude00 \ud83d\ude00"]"#, json!(["\u{fffd} 😀"])),
        ] {
            let parsed = parse(text, &Limits::default()).unwrap();
            assert!(parsed.has_replacements);
            assert_eq!(parsed.value, value);
        }
        for text in [r#"{"\ud83d": 1, "\ud83e": 2}"#, r"cut \ud83d", r#"{"t":"\ud83d"} x"#] {
            let parsed = parse(text, &Limits::default()).unwrap();
            assert!(!parsed.has_replacements);
            assert_eq!(parsed.value, json!(text));
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
