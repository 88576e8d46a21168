//! Converts scalars to JSON by the core schema of YAML 1.2.

use std::ops::Range;

use serde_json::{Map, Number, Value as Json};

use super::{Node, Style, Value};

/// The error of a scalar that JSON cannot represent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalarError {
    pub span: Range<usize>,
    pub message: String,
}

impl Node {
    /// The node as JSON. Scalars with quotes are text; a number that JSON cannot represent exactly is an error.
    pub fn to_json(&self) -> Result<Json, ScalarError> {
        match &self.value {
            Value::Scalar(text) if self.style == Style::Plain => {
                parse_plain_scalar(text).map_err(|message| ScalarError { span: self.span.clone(), message })
            }
            Value::Scalar(text) => Ok(Json::String(text.clone())),
            Value::List(items) => items.iter().map(Self::to_json).collect::<Result<_, _>>().map(Json::Array),
            Value::Map(entries) => entries
                .iter()
                .map(|entry| Ok((entry.key.clone(), entry.node.to_json()?)))
                .collect::<Result<Map<_, _>, _>>()
                .map(Json::Object),
        }
    }
}

fn parse_plain_scalar(text: &str) -> Result<Json, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Json::Null),
        "true" | "True" | "TRUE" => return Ok(Json::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Json::Bool(false)),
        _ => {}
    }
    if let Some(digits) =
        text.strip_prefix("0x").filter(|digits| is_made_of(digits, |c| c.is_ascii_hexdigit()))
    {
        return u64::from_str_radix(digits, 16).map(Json::from).map_err(|_| too_large(text));
    }
    if let Some(digits) =
        text.strip_prefix("0o").filter(|digits| is_made_of(digits, |c| matches!(c, '0'..='7')))
    {
        return u64::from_str_radix(digits, 8).map(Json::from).map_err(|_| too_large(text));
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if is_made_of(unsigned, |c| c.is_ascii_digit()) {
        let number = text.strip_prefix('+').unwrap_or(text);
        let signed = number.parse::<i64>().map(Json::from);
        return signed.or_else(|_| number.parse::<u64>().map(Json::from)).map_err(|_| too_large(text));
    }
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err(format!("{text} is not a number that JSON has; put quotes around text"));
    }
    if is_float(unsigned) {
        let number = text.parse().ok().and_then(Number::from_f64);
        return number.map(Json::Number).ok_or_else(|| too_large(text));
    }
    Ok(Json::String(text.to_owned()))
}

/// Whether it has digits before or after a point, and perhaps an exponent.
fn is_float(unsigned: &str) -> bool {
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    digits(whole)
        && digits(part)
        && !(whole.is_empty() && part.is_empty())
        && exponent.is_none_or(|digits| is_made_of(digits, |c| c.is_ascii_digit()))
}

fn is_made_of(text: &str, allowed: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(allowed)
}

fn too_large(text: &str) -> String {
    format!("{text} is larger than any number JSON can hold here; put quotes around text")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::parse;
    use super::*;

    fn typed(text: &str) -> Result<Json, String> {
        let tree = parse(text).unwrap();
        tree.root.unwrap().to_json().map_err(|fault| fault.message)
    }

    #[test]
    fn plain_scalars_have_the_types_of_the_core_schema() {
        let text = "[~, null, true, FALSE, 1, -2, +3, 0x1F, 0o17, 1.5, 1e3, .5, 5., 18446744073709551615]";
        assert_eq!(
            typed(text).unwrap(),
            json!([null, null, true, false, 1, -2, 3, 31, 15, 1.5, 1000.0, 0.5, 5.0, u64::MAX])
        );
    }

    #[test]
    fn everything_else_is_text() {
        let text = "[yes, No, 1.10.2, 0x, '1', \"null\", 2024-01-01, 1_000, ., e5, 1e, -x]";
        assert_eq!(
            typed(text).unwrap(),
            json!(["yes", "No", "1.10.2", "0x", "1", "null", "2024-01-01", "1_000", ".", "e5", "1e", "-x"])
        );
    }

    #[test]
    fn numbers_that_json_cannot_hold_are_refused_where_they_stand() {
        for text in
            ["[.inf]", "[-.Inf]", "[.nan]", "[18446744073709551616]", "[-9223372036854775809]", "[1e999]"]
        {
            assert!(typed(text).is_err(), "{text}");
        }
        let tree = parse("a: {b: .inf}").unwrap();
        assert_eq!(tree.root.unwrap().to_json().unwrap_err().span, 7..11);
    }
}
