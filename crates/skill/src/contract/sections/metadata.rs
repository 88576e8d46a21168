//! `metadata`: facts for callers, such as the duration and the risk of a run.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::contract::{fields, risk, serialize};
use crate::diagnostic_sink::DiagnosticSink;
use crate::yaml::Entry;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::policy::units;

const KEYS: [&str; 8] = [
    "estimated_duration",
    "cost",
    "risk_level",
    "permissions",
    "idempotent",
    "cacheable",
    "cache_ttl",
    "max_result_size",
];

/// Facts about a skill, as its author states them; nothing enforces them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ContractMetadata {
    /// How long a run takes, such as `5-30s`.
    pub estimated_duration: Option<String>,
    /// The same as a range.
    #[serde(rename = "estimated_duration_ms", serialize_with = "serialize::milliseconds_range")]
    pub duration_range: Option<(Duration, Duration)>,
    /// What a run costs: `none`, `low`, `medium`, `high`, or an amount with a unit.
    pub cost: Option<String>,
    /// What a run may do, such as `read-only`.
    pub risk_level: Option<String>,
    /// The same from 0, no risk, to 100.
    pub risk_score: Option<u8>,
    /// Whether a second run with the same input changes nothing further.
    pub idempotent: Option<bool>,
    /// Whether the output may be cached by input.
    pub cacheable: Option<bool>,
    /// How long it may be cached.
    #[serde(rename = "cache_ttl_ms", serialize_with = "serialize::milliseconds")]
    pub cache_ttl: Option<Duration>,
    /// Bytes of a result that a model needs whole, such as `200KB`. A client may show less.
    #[serde(rename = "max_result_size_bytes")]
    pub max_result_size: Option<u64>,
    /// All other keys.
    #[serde(flatten)]
    pub unknown: Map<String, Json>,
}

pub(in crate::contract) fn read(entries: &[Entry], report: &mut DiagnosticSink<'_>) -> ContractMetadata {
    let field = |key: &str| fields::find(entries, key);
    let estimated_duration = fields::text(field("estimated_duration"), "estimated_duration", report);
    let duration_range =
        fields::amount(field("estimated_duration"), "estimated_duration", parse_duration_range, report);
    let cost = fields::amount(field("cost"), "cost", parse_cost, report);
    let risk_level = fields::text(field("risk_level"), "risk_level", report);
    ContractMetadata {
        estimated_duration,
        duration_range,
        cost,
        risk_score: fields::amount(field("risk_level"), "risk_level", parse_risk, report),
        risk_level,
        idempotent: fields::flag(field("idempotent"), "idempotent", report),
        cacheable: fields::flag(field("cacheable"), "cacheable", report),
        cache_ttl: fields::amount(field("cache_ttl"), "cache_ttl", units::parse_duration, report),
        max_result_size: fields::amount(
            field("max_result_size"),
            "max_result_size",
            units::parse_bytes,
            report,
        ),
        unknown: fields::open_keys(entries, &KEYS, "metadata", report),
    }
}

/// `5-30s`, `500ms-2s`, `1m`: a first number without a unit has that of the second.
fn parse_duration_range(text: &str) -> Result<(Duration, Duration)> {
    let (low, high) = text.split_once(['-', '\u{2013}']).map_or((text, text), |(low, high)| (low, high));
    let high_text = high.trim();
    let unit = high_text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let has_unit = low.trim().ends_with(|c: char| c.is_ascii_alphabetic());
    let low = if has_unit { low.trim().to_owned() } else { format!("{}{unit}", low.trim()) };
    let (low, high) = (units::parse_duration(&low)?, units::parse_duration(high_text)?);
    if low > high {
        let sentence = format!("{text:?} begins with its longer time");
        return Err(SkillError::new(ErrorKind::Usage, sentence));
    }
    Ok((low, high))
}

/// A level, or an amount with a unit: `0.02 USD`, `300 tokens`, `$0.10`.
fn parse_cost(text: &str) -> Result<String> {
    const LEVELS: [&str; 5] = ["none", "free", "low", "medium", "high"];
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let number = text.trim_start_matches(['$', '\u{20ac}', '\u{a3}']).trim_start();
    let unit = number.trim_start_matches(is_part);
    let amount = &number[..number.len() - unit.len()];
    let has_unit = number.len() < text.len() || unit.trim().starts_with(char::is_alphabetic);
    let is_amount = amount.parse::<f64>().is_ok_and(f64::is_finite) && has_unit;
    if LEVELS.contains(&text.to_ascii_lowercase().as_str()) || is_amount {
        return Ok(text.to_owned());
    }
    let sentence =
        format!("{text:?} is not none, low, medium, high, or an amount with a unit such as 0.02 USD");
    Err(SkillError::new(ErrorKind::Usage, sentence))
}

pub(super) fn parse_risk(text: &str) -> Result<u8> {
    risk::risk_score(text).ok_or_else(|| {
        SkillError::new(
            ErrorKind::Usage,
            format!("{text:?} is not a level; the levels are {}", risk::risk_levels()),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operational_facts_are_values_and_not_any_words() {
        // AR-16
        let seconds = |low, high| (Duration::from_secs(low), Duration::from_secs(high));
        for (text, range) in
            [("5-30s", seconds(5, 30)), ("1m", seconds(60, 60)), ("30s \u{2013} 2m", seconds(30, 120))]
        {
            assert_eq!(parse_duration_range(text).unwrap(), range, "{text}");
        }
        for text in ["soon", "30-5s", "", "-", "5s-"] {
            assert!(parse_duration_range(text).is_err(), "{text}");
        }
        for text in ["none", "Low", "0.02 USD", "$0.10", "300 tokens"] {
            assert!(parse_cost(text).is_ok(), "{text}");
        }
        for text in ["cheap", "3", "$", "-1 USD", "USD 3"] {
            assert!(parse_cost(text).is_err(), "{text}");
        }
        assert!(parse_risk("harmless").is_err());
    }
}
