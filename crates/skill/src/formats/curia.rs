//! The manifest of a Curia skill: `skill.json` beside a `handler.ts` or `handler.js`.
//!
//! The format allows no other keys, and a manifest without a risk is refused. Its `permissions` are words for readers there; here a
//! handler asks for those that have a meaning, for its secrets, and for the network where none are listed, because handlers fetch
//! what they need by themselves. What is granted is decided by the caller, as for every skill.

use std::time::Duration;

use serde_json::{Map, json};

use crate::contract::fields::{self, find};
use crate::contract::{
    Contract, ContractLimits, ContractMetadata, Enrichment, HostNeeds, PermissionRequest, Schema,
    Sensitivity, risk_level, risk_score,
};
use crate::diagnostic_sink::DiagnosticSink;
use crate::formats::fields::{
    is_text, map_entries, missing, require_known, required_prose, required_text, texts,
};
use crate::formats::shorthand::InputType;
use crate::lint;
use crate::name::normalise;
use crate::yaml::{Entry, Node, Value};
use metier_core::policy::{ConfigField, ConfigRequirement, Permission};

const PLACE: &str = "a Curia manifest";
const KEYS: [&str; 13] = [
    "$schema",
    "name",
    "description",
    "version",
    "sensitivity",
    "action_risk",
    "capabilities",
    "inputs",
    "outputs",
    "permissions",
    "secrets",
    "timeout",
    "entity_enrichment",
];
/// The services of a host that a handler of Curia can ask for.
pub const CAPABILITIES: [&str; 12] = [
    "bus",
    "agentRegistry",
    "outboundGateway",
    "heldMessages",
    "schedulerService",
    "entityMemory",
    "nylasCalendarClient",
    "autonomyService",
    "executiveProfileService",
    "browserService",
    "bullpenService",
    "skillSearch",
];
/// The levels of risk that the format has.
const RISK_LEVELS: [&str; 5] = ["none", "low", "medium", "high", "critical"];
/// Scopes of permissions, and the permission that means the same.
const SCOPES: [(&str, &str); 7] = [
    ("filesystem:read", "read"),
    ("filesystem:write", "write"),
    ("network", "net"),
    ("network:https", "net"),
    ("network:http", "net"),
    ("network:search", "net"),
    ("process:exec", "exec"),
];
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn read(entries: &[Entry], report: &mut DiagnosticSink<'_>) -> Contract {
    require_known(entries, &KEYS, PLACE, report);
    let version = required_text(entries, "version", PLACE, report).and_then(|_| {
        let entry = entries.iter().find(|entry| entry.key == "version");
        Some(crate::version::read(Some(entry?), report))
    });
    let secrets = texts(entries, "secrets", report);
    let capabilities = read_capabilities(entries, report);
    let (inputs, timestamps) = read_inputs(find(entries, "inputs"), report);
    Contract {
        name: read_name(entries, report),
        version,
        description: required_prose(entries, "description", PLACE, report),
        inputs,
        limits: ContractLimits { timeout: read_timeout(entries, report), ..ContractLimits::default() },
        permissions: Some(read_permissions(entries, (&secrets, &capabilities), report)),
        metadata: read_risk(find(entries, "action_risk"), report),
        sensitivity: read_sensitivity(find(entries, "sensitivity"), report),
        config: secret_fields(&secrets).into(),
        host_needs: HostNeeds {
            capabilities,
            secrets,
            timestamps,
            enrichment: find(entries, "entity_enrichment").and_then(|node| read_enrichment(node, report)),
            output_descriptions: read_outputs(find(entries, "outputs"), report),
        },
        ..Contract::default()
    }
}

/// The secrets, each with its name in capitals as its variable. Without one the handler fails where it reads it.
fn secret_fields(names: &[String]) -> Vec<ConfigField> {
    let mut fields: Vec<ConfigField> = Vec::new();
    for name in names {
        if fields.iter().all(|known| known.key != *name) {
            let mut field = ConfigField::new(name);
            field.secret = true;
            field.requirement = ConfigRequirement::OnUse;
            field.env = secret_variable(name);
            fields.push(field);
        }
    }
    fields
}

/// The variable of a secret: its name in capitals, where that may be one.
pub(super) fn secret_variable(name: &str) -> Option<String> {
    Some(name.to_uppercase()).filter(|variable| Permission::env(variable).is_ok())
}

fn read_name(entries: &[Entry], report: &mut DiagnosticSink<'_>) -> Option<String> {
    let written = required_text(entries, "name", PLACE, report)?;
    let name = normalise(&written);
    let is_plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if name.chars().count() <= 64 && name.chars().all(is_plain) && written.trim() == written {
        return Some(name);
    }
    let span = find(entries, "name").map_or(0..0, |node| node.span.clone());
    let message = "`name` must be at most 64 letters, digits, hyphens, underscores and dots";
    report.add(&lint::IDENTIFIER_INVALID, &span, message).help("write it as web-search, like its folder");
    None
}

/// A level, or a whole number from 0 to 100.
fn read_risk(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> ContractMetadata {
    let Some(node) = node else {
        missing("action_risk", PLACE, report);
        return ContractMetadata::default();
    };
    let score = match &node.value {
        Value::Scalar(level) if is_text(node) => {
            RISK_LEVELS.contains(&level.as_str()).then(|| risk_score(level)).flatten()
        }
        _ => whole_number(node).and_then(|score| u8::try_from(score).ok()),
    };
    let Some(score) = score.filter(|score| *score <= 100) else {
        let message =
            format!("`action_risk` must be {} or a whole number from 0 to 100", RISK_LEVELS.join(", "));
        fields::report_invalid(node, &message, report);
        return ContractMetadata::default();
    };
    ContractMetadata {
        risk_level: Some(risk_level(score).to_owned()),
        risk_score: Some(score),
        ..ContractMetadata::default()
    }
}

fn read_sensitivity(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Sensitivity {
    match node.and_then(Node::text) {
        Some("elevated") => Sensitivity::Elevated,
        Some("normal") => Sensitivity::Normal,
        _ => {
            if let Some(node) = node {
                fields::report_invalid(node, "`sensitivity` must be normal or elevated", report);
            }
            Sensitivity::Normal
        }
    }
}

fn read_capabilities(entries: &[Entry], report: &mut DiagnosticSink<'_>) -> Vec<String> {
    let named = texts(entries, "capabilities", report);
    let span = find(entries, "capabilities").map_or(0..0, |node| node.span.clone());
    for unknown in named.iter().filter(|name| !CAPABILITIES.contains(&name.as_str())) {
        let message = format!("`{}` is not a capability", metier_core::excerpt::shorten(unknown, 60));
        report
            .add(&lint::CAPABILITY_UNKNOWN, &span, message)
            .help(format!("the capabilities are {}", CAPABILITIES.join(", ")));
    }
    named
}

/// The schema of the inputs, and the names of those that are points in time.
fn read_inputs(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> (Option<Schema>, Vec<String>) {
    let Some(entries) = node.and_then(|node| map_entries(node, "inputs", report)) else {
        return (None, Vec::new());
    };
    let (mut properties, mut names) = (Map::new(), Vec::new());
    let (mut required, mut timestamps) = (Vec::new(), Vec::new());
    for Entry { key, node, .. } in entries {
        let written = node.text().filter(|_| is_text(node));
        let read = match written.map(InputType::parse) {
            Some(Ok(read)) => read,
            Some(Err(reason)) => {
                fields::report_invalid(node, &format!("the type of the input `{key}`: {reason}"), report);
                continue;
            }
            None => {
                fields::report_invalid(
                    node,
                    &format!("the type of the input `{key}` must be a text"),
                    report,
                );
                continue;
            }
        };
        if !read.is_optional {
            required.push(key.clone());
        }
        if read.is_timestamp() {
            timestamps.push(key.clone());
        }
        properties.insert(key.clone(), read.schema());
        names.push(key.clone());
    }
    let schema = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    });
    let line = node.map_or(1, |node| report.line(node.span.start));
    match Schema::translated(schema, names, line) {
        Ok(schema) => (Some(schema), timestamps),
        Err(reason) => {
            let span = node.map_or(0..0, |node| node.span.clone());
            report.add(&lint::SCHEMA_TOO_LARGE, &span, reason);
            (None, Vec::new())
        }
    }
}

/// They are for readers, so nothing about them is wrong.
fn read_outputs(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Vec<(String, String)> {
    let entries = node.and_then(|node| map_entries(node, "outputs", report)).unwrap_or_default();
    let described = |Entry { key, node, .. }: &Entry| {
        let text = node.text().map(str::to_owned);
        let text = text.or_else(|| node.to_json().ok().map(|value| value.to_string()));
        (key.clone(), text.unwrap_or_default())
    };
    entries.iter().map(described).collect()
}

fn read_permissions(
    entries: &[Entry],
    (secrets, capabilities): (&[String], &[String]),
    report: &mut DiagnosticSink<'_>,
) -> Vec<PermissionRequest> {
    let written = texts(entries, "permissions", report);
    let mut requests: Vec<PermissionRequest> =
        written.iter().map(|text| translate_permission(text)).collect();
    if requests.is_empty() {
        requests.push(PermissionRequest::from_words("net", "net"));
    }
    for secret in secrets {
        let permission = format!("secret:{secret}");
        let request = PermissionRequest::from_words(&permission, &permission);
        // A name with blanks looks like another one wherever it is shown.
        if request.permission.is_none() || secret.contains(char::is_whitespace) {
            let span = find(entries, "secrets").map_or(0..0, |node| node.span.clone());
            let message =
                format!("`{}` cannot be the name of a secret", metier_core::excerpt::shorten(secret, 60));
            report.add(&lint::CONTRACT_VALUE, &span, message);
        }
        requests.push(request);
    }
    // A service of the host is called as its tool of that name.
    requests.extend(capabilities.iter().map(|name| {
        let permission = format!("tool:{name}");
        PermissionRequest::from_words(&permission, &permission)
    }));
    requests
}

fn translate_permission(text: &str) -> PermissionRequest {
    if let Some((_, ours)) = SCOPES.iter().find(|(theirs, _)| *theirs == text) {
        return PermissionRequest::from_words(text, ours);
    }
    let host = text.strip_prefix("network:").filter(|host| host.contains('.'));
    let own = host.map_or_else(|| text.to_owned(), |host| format!("net:{host}"));
    PermissionRequest::from_words(text, &own)
}

/// A number without a fraction that is not negative, in any form of JSON: `75`, `75.0`, `7.5e1`.
fn whole_number(node: &Node) -> Option<u64> {
    // Beyond these not every whole number is exact.
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    let number = node.to_json().ok()?;
    let from_fraction = |number: f64| {
        let is_whole = number.fract() == 0.0 && (0.0..=MAX_EXACT).contains(&number);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "looked at above")]
        is_whole.then_some(number as u64)
    };
    number.as_u64().or_else(|| number.as_f64().and_then(from_fraction))
}

/// Milliseconds, a whole number of at least 1.
fn read_timeout(entries: &[Entry], report: &mut DiagnosticSink<'_>) -> Option<Duration> {
    let Some(node) = find(entries, "timeout") else { return Some(DEFAULT_TIMEOUT) };
    match whole_number(node).filter(|timeout| *timeout >= 1) {
        Some(timeout) if !is_text(node) => Some(Duration::from_millis(timeout)),
        _ => {
            let message = "`timeout` must be a whole number of milliseconds, at least 1";
            fields::report_invalid(node, message, report);
            None
        }
    }
}

fn read_enrichment(node: &Node, report: &mut DiagnosticSink<'_>) -> Option<Enrichment> {
    let place = "`entity_enrichment`";
    let entries = map_entries(node, place, report)?;
    require_known(entries, &["param", "default"], place, report);
    let param = required_text(entries, "param", place, report)?;
    let default = required_text(entries, "default", place, report)?;
    if !["caller", "agent"].contains(&default.as_str()) {
        fields::report_invalid(node, "`default` of `entity_enrichment` must be caller or agent", report);
        return None;
    }
    Some(Enrichment::new(param, default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scope_means_a_permission() {
        for (theirs, ours) in SCOPES {
            assert!(ours.parse::<metier_core::policy::Permission>().is_ok(), "{theirs}");
        }
        let host = translate_permission("network:api.example.com");
        assert_eq!(host.permission.unwrap().to_string(), "net:api.example.com");
        assert_eq!(translate_permission("kubernetes:get").permission, None);
    }
}
