//! `metadata`: facts for callers, such as the duration and the risk of a run.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::policy::units;
use crate::skill::contract::{fields, serialize};
use crate::skill::diagnostic_sink::DiagnosticSink;
use crate::skill::yaml::Entry;

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
    /// What a run costs, such as `none`.
    pub cost: Option<String>,
    /// What a run may do, such as `read-only`.
    pub risk_level: Option<String>,
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

pub(in crate::skill::contract) fn read(
    entries: &[Entry],
    report: &mut DiagnosticSink<'_>,
) -> ContractMetadata {
    let field = |key: &str| fields::find(entries, key);
    ContractMetadata {
        estimated_duration: fields::text(field("estimated_duration"), "estimated_duration", report),
        cost: fields::text(field("cost"), "cost", report),
        risk_level: fields::text(field("risk_level"), "risk_level", report),
        idempotent: fields::flag(field("idempotent"), "idempotent", report),
        cacheable: fields::flag(field("cacheable"), "cacheable", report),
        cache_ttl: fields::amount(field("cache_ttl"), "cache_ttl", units::parse_duration, report),
        max_result_size: fields::amount(
            field("max_result_size"),
            "max_result_size",
            units::parse_bytes,
            report,
        ),
        unknown: fields::unknown_keys(entries, &KEYS, "metadata", report),
    }
}
