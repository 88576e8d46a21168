//! `timeout` and `limits`: the limits that a skill declares for its runs. They can only lower those of the caller.

use std::time::Duration;

use serde::Serialize;

use crate::contract::{fields, serialize};
use crate::diagnostic_sink::DiagnosticSink;
use crate::yaml::{Entry, Node};
use metier_core::policy::units;

const KEYS: [&str; 5] = ["timeout", "deadline", "memory", "operations", "output"];

/// The limits a contract names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ContractLimits {
    /// Wall clock time.
    #[serde(rename = "timeout_ms", serialize_with = "serialize::milliseconds")]
    pub timeout: Option<Duration>,
    /// Bytes of memory.
    #[serde(rename = "memory_bytes")]
    pub memory: Option<u64>,
    /// Operations, in languages that count them.
    pub operations: Option<u64>,
    /// Bytes of the value, the log, and each output stream.
    #[serde(rename = "output_bytes")]
    pub output: Option<u64>,
}

/// `timeout` stands beside `limits` or in it, where it may be called `deadline` too; the shortest counts.
pub(in crate::contract) fn read(entries: &[Entry], report: &mut DiagnosticSink<'_>) -> ContractLimits {
    let timeout = read_duration(fields::find(entries, "timeout"), "timeout", report);
    let Some(limits) =
        fields::find(entries, "limits").and_then(|node| fields::entries(node, "limits", report))
    else {
        return ContractLimits { timeout, ..ContractLimits::default() };
    };
    fields::unknown_keys(limits, &KEYS, "limits", report);
    let field = |key: &str| fields::find(limits, key);
    let times = ["timeout", "deadline"].map(|key| read_duration(field(key), key, report));
    ContractLimits {
        timeout: times.into_iter().chain([timeout]).flatten().min(),
        memory: fields::amount(field("memory"), "memory", units::parse_bytes, report),
        operations: fields::amount(field("operations"), "operations", units::parse_count, report),
        output: fields::amount(field("output"), "output", units::parse_bytes, report),
    }
}

pub(super) fn read_duration(
    node: Option<&Node>,
    what: &str,
    report: &mut DiagnosticSink<'_>,
) -> Option<Duration> {
    fields::amount(node, what, units::parse_duration, report)
}
