//! Strict JSON parsing: a text whose value cannot be represented exactly is an error.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses a JSON text without loss.
///
/// Fails, with the reason in words, if the text is not one JSON value, or cannot be represented: an object with a duplicate key,
/// an integer outside 64 bits, a number beyond the range of floats, more than 127 levels.
pub fn parse(text: &str) -> Result<Value, String> {
    parse_with_offset(text).map_err(|fault| fault.reason)
}

/// Parses a text that need not be JSON. The same as [`parse`], but a bare number must have the form in which JSON writes its value:
/// `1.10`, `1e5`, `5417e39` and `-0` may be a version or the digest of a commit, so they are refused.
///
/// ```
/// # use metier_core as metier;
/// use metier::strict_json::parse_bare;
///
/// assert_eq!(parse_bare("1.5"), Ok(1.5.into()));
/// assert!(parse_bare("1.50").is_err());
/// assert_eq!(parse_bare("[1.50]"), Ok(vec![1.5].into()));
/// ```
pub fn parse_bare(text: &str) -> Result<Value, String> {
    let value = parse(text)?;
    if let Value::Number(number) = &value
        && (text.contains(['e', 'E']) || number.to_string() != text.trim())
    {
        return Err(format!("the number {} is not in the form of JSON", text.trim()));
    }
    Ok(value)
}

/// The text of a value that does not depend on the order of keys: what digests and keys of caches are made of, since objects keep the
/// order in which they were written.
pub fn canonical_text(value: &Value) -> String {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    sorted.to_string()
}

/// A JSON text without the white space between its tokens, which keeps it on one line; its numbers and texts stay as they are written.
pub fn without_white_space(text: &str) -> String {
    let (mut is_string, mut is_escaped) = (false, false);
    let is_kept = |c: &char| {
        is_string ^= *c == '"' && !is_escaped;
        is_escaped = is_string && *c == '\\' && !is_escaped;
        is_string || !matches!(c, ' ' | '\t' | '\n' | '\r')
    };
    text.chars().filter(is_kept).collect()
}

/// Parses JSON that another program wrote, with U+FFFD in place of halves of surrogate pairs.
pub fn parse_repaired(text: &str) -> Result<Value, String> {
    parse_with_replacements(text).map(|(value, _)| value)
}

/// The same, and whether a half was replaced.
pub fn parse_with_replacements(text: &str) -> Result<(Value, bool), String> {
    let replaced = |reason: String| -> Result<(Value, bool), String> {
        let text = replace_half_surrogates(text).ok_or(reason)?;
        Ok((parse(&text)?, true))
    };
    parse(text).map(|value| (value, false)).or_else(replaced)
}

/// A JSON text with U+FFFD in place of every half of a surrogate pair that stands alone, which JavaScript writes where it has cut a
/// text; `None` if there is none.
pub fn replace_half_surrogates(text: &str) -> Option<String> {
    let (mut replaced, mut rest, mut is_changed) = (String::new(), text, false);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        replaced.push_str(before);
        let length = match surrogate(escape) {
            Some(Surrogate::High) if surrogate(&escape[6..]) == Some(Surrogate::Low) => 12,
            Some(_) => {
                (is_changed, rest) = (true, &escape[6..]);
                replaced.push_str("\\ufffd");
                continue;
            }
            None => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        let (kept, after) = escape.split_at(length);
        replaced.push_str(kept);
        rest = after;
    }
    replaced.push_str(rest);
    is_changed.then_some(replaced)
}

#[derive(PartialEq, Eq)]
enum Surrogate {
    High,
    Low,
}

/// The half of a pair that the text begins with, such as `\ud83d`.
fn surrogate(text: &str) -> Option<Surrogate> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Surrogate::High),
        0xdc00..=0xdfff => Some(Surrogate::Low),
        _ => None,
    }
}

/// The same for a text whose numbers need not be exact: an integer outside of 64 bits becomes a float.
pub fn parse_with_rounded_integers(text: &str) -> Result<Value, ParseError> {
    serde_json::from_str(text)
        .map(|UniqueKeyValue(value)| value)
        .map_err(|error| ParseError { offset: error_offset(text, &error), reason: error.to_string() })
}

/// Why a text has no exact value, and the byte offset of the error.
#[derive(Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Why it is no JSON, as a part of a sentence.
    pub reason: String,
    /// The byte where it ends to be JSON, from 0.
    pub offset: usize,
}

/// The same as [`parse`], with the position of the error.
pub fn parse_with_offset(text: &str) -> Result<Value, ParseError> {
    let UniqueKeyValue(value) = serde_json::from_str(text)
        .map_err(|error| ParseError { offset: error_offset(text, &error), reason: error.to_string() })?;
    match integers(text).find(|integer| !fits_64_bits(integer)) {
        Some(integer) => Err(ParseError {
            reason: format!("the integer {} does not fit into 64 bits", shorten_integer(integer)),
            offset: (integer.as_ptr() as usize).saturating_sub(text.as_ptr() as usize),
        }),
        None => Ok(value),
    }
}

fn error_offset(text: &str, error: &serde_json::Error) -> usize {
    let line = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    line + error.column().saturating_sub(1)
}

/// A JSON value whose objects have no duplicate keys.
struct UniqueKeyValue(Value);

impl<'de> Deserialize<'de> for UniqueKeyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueKeyVisitor).map(Self)
    }
}

struct UniqueKeyVisitor;

impl<'de> Visitor<'de> for UniqueKeyVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(UniqueKeyValue(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key {key:?} occurs twice")));
            }
            let UniqueKeyValue(value) = entries.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// `serde_json` rounds an integer beyond 64 bits to the nearest float.
fn fits_64_bits(integer: &str) -> bool {
    integer.parse::<i64>().is_ok() || integer.parse::<u64>().is_ok()
}

/// The integer, truncated to fit into a sentence.
fn shorten_integer(integer: &str) -> String {
    match integer.get(..40) {
        Some(start) if integer.len() > 40 => format!("{start}…"),
        _ => integer.to_owned(),
    }
}

/// The integers of a JSON text as they are written.
fn integers(text: &str) -> impl Iterator<Item = &str> {
    let is_integer = |number: &&str| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    numbers(text).filter(is_integer)
}

fn numbers(mut rest: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        loop {
            let start = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit())?;
            rest = &rest[start..];
            if let Some(inside) = rest.strip_prefix('"') {
                rest = skip_string(inside);
                continue;
            }
            let length = rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
            let (number, after) = rest.split_at(length.unwrap_or(rest.len()));
            rest = after;
            return Some(number);
        }
    })
}

/// The text after the string whose content begins here.
fn skip_string(mut inside: &str) -> &str {
    while let Some(at) = inside.find(['"', '\\']) {
        let is_end = inside[at..].starts_with('"');
        inside = &inside[at + 1..];
        if is_end {
            return inside;
        }
        // After a backslash, the next character does not end the string.
        inside = inside.char_indices().nth(1).map_or("", |(next, _)| &inside[next..]);
    }
    ""
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::parse as read;

    #[test]
    fn what_json_can_say_is_read_as_it_is() {
        for (text, value) in [
            ("{\"a\": [1, -2.5, null, true]}\n", json!({"a": [1, -2.5, null, true]})),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("1e20", json!(1e20)),
            (r#"["\"99999999999999999999", 1]"#, json!(["\"99999999999999999999", 1])),
            (r#"{"\\": 1, "é": 2}"#, json!({"\\": 1, "é": 2})),
        ] {
            assert_eq!(read(text), Ok(value), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_number_is_read_to_its_last_digit(bits in any::<u64>()) {
            let number = f64::from_bits(bits);
            prop_assume!(number.is_finite());
            prop_assert_eq!(read(&format!("{number:e}")), Ok(json!(number)));
            prop_assert_eq!(read(&json!(number).to_string()), Ok(json!(number)));
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let number = prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            number,
            any::<String>().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 48, 6, |inner| {
            let fields = prop::collection::vec((any::<String>(), inner.clone()), 0..6);
            prop_oneof![
                prop::collection::vec(inner, 0..6).prop_map(Value::from),
                fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    /// The value with the keys of its objects in the opposite order.
    fn reversed(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(reversed).collect(),
            Value::Object(fields) => {
                fields.iter().rev().map(|(key, field)| (key.clone(), reversed(field))).collect()
            }
            other => other.clone(),
        }
    }

    proptest! {
        #[test]
        fn a_value_is_read_with_its_keys_in_order(value in any_json()) {
            let text = value.to_string();
            prop_assert_eq!(read(&text).unwrap().to_string(), &*text);
            let pretty = format!("{value:#}\n");
            prop_assert_eq!(read(&pretty).unwrap().to_string(), &*text);
            prop_assert_eq!(super::without_white_space(&pretty), text);
            prop_assert_eq!(super::replace_half_surrogates(&value.to_string()), None);
        }

        #[test]
        fn the_order_of_keys_changes_no_digest(value in any_json()) {
            prop_assert_eq!(super::canonical_text(&value), super::canonical_text(&reversed(&value)));
            prop_assert_eq!(read(&super::canonical_text(&value)), Ok(value));
        }
    }

    #[test]
    fn a_half_of_a_pair_is_replaced_and_nothing_else() {
        for (text, replaced) in [
            (r#""a\ud83d""#, r#""a\ufffd""#),
            (r#""\uDE00b""#, r#""\ufffdb""#),
            (r#""\ud83d\ud83d\ude00\ud83d\n""#, r#""\ufffd\ud83d\ude00\ufffd\n""#),
            (r#""\ud83dé\u00e9""#, r#""\ufffdé\u00e9""#),
        ] {
            assert_eq!(super::replace_half_surrogates(text).as_deref(), Some(replaced));
            assert!(read(text).is_err() && read(replaced).is_ok(), "{text}");
        }
        for text in [r#""\\ud83d""#, r#""\ud83d\ude00""#, "\\", "\\u", "\\ud8é", "é", ""] {
            assert_eq!(super::replace_half_surrogates(text), None, "{text}");
        }
    }

    #[test]
    fn the_place_of_a_fault_is_where_it_stands() {
        let line = |text: &str| text[..super::parse_with_offset(text).unwrap_err().offset].lines().count();
        assert_eq!(line("{\n\"a\": 1,\n  \"a\": 2}"), 3);
        assert_eq!(line("{\n\"a\": 1,\n  \"b\": 99999999999999999999}"), 3);
        assert_eq!(line("{\n\"a\" 1}"), 2);
    }

    #[test]
    fn what_would_be_lost_is_refused_with_the_reason() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for (text, reason) in [
            ("18446744073709551616", "the integer 18446744073709551616 does not fit into 64 bits"),
            ("[-9223372036854775809]", "the integer -9223372036854775809 does not fit into 64 bits"),
            (
                &"9".repeat(99),
                "the integer 9999999999999999999999999999999999999999… does not fit into 64 bits",
            ),
            ("1e400", "number out of range"),
            (r#"{"a": 1, "a": 2}"#, "the key \"a\" occurs twice at line 1 column"),
            (r#"[{"b": {"a": 1, "\u0061": 2}}]"#, "the key \"a\" occurs twice"),
            (&deep, "recursion limit exceeded"),
            ("", "EOF while parsing a value"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.starts_with(reason), "{text}: {found}");
        }
    }
}
