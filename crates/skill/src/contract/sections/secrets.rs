//! `secrets`: the secrets that a skill uses in requests to hosts, and does not read.

use super::config::{INVALID_NAME, MAX_FIELDS, field_of_name, requirement, variable};
use crate::contract::fields;
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::{Node, Value};
use metier_core::policy::{ConfigField, normalize_secret_host};

/// The maximum number of hosts of one secret.
const MAX_HOSTS: usize = 16;
const KEYS: [&str; 5] = ["name", "host", "description", "required", "env"];

/// The secrets, in written order: a list of maps, each with a name and a host or a list of hosts. One that a setting of `config` has the
/// name of is reported.
pub(in crate::contract) fn read(
    node: Option<&Node>,
    settings: &[ConfigField],
    report: &mut DiagnosticSink<'_>,
) -> Vec<ConfigField> {
    let items = node.and_then(|node| fields::items(node, "secrets", report)).unwrap_or_default();
    let mut secrets: Vec<ConfigField> = Vec::new();
    for item in items.iter().take(MAX_FIELDS.saturating_sub(settings.len())) {
        let Some(secret) = secret(item, report) else { continue };
        if settings.iter().chain(&secrets).any(|known| known.key == secret.key) {
            let message = format!("{} is declared twice", secret.key);
            report
                .add(&lint::CONFIG_INVALID, &item.span, message)
                .help("declare it once, with a list of hosts");
            continue;
        }
        secrets.push(secret);
    }
    secrets
}

fn secret(node: &Node, report: &mut DiagnosticSink<'_>) -> Option<ConfigField> {
    let entries = fields::entries(node, "a secret", report)?;
    fields::unknown_keys(entries, &KEYS, "a secret", report);
    let value = |name: &str| fields::find(entries, name);
    let (Some(name), Some(hosts)) = (fields::text(value("name"), "name", report), value("host")) else {
        let message = "a secret has a `name` and the `host` that it is for";
        report.add(&lint::CONFIG_INVALID, &node.span, message);
        return None;
    };
    let hosts = match &hosts.value {
        Value::List(items) => &items[..items.len().min(MAX_HOSTS)],
        _ => std::slice::from_ref(hosts),
    };
    let Some(mut field) = field_of_name(&name) else {
        report.add(&lint::CONFIG_INVALID, &node.span, INVALID_NAME);
        return None;
    };
    field.secret = true;
    for node in hosts {
        let host = fields::text(Some(node), "host", report)?;
        match normalize_secret_host(&host) {
            Ok(host) => field.hosts.push(host),
            Err(reason) => {
                report.add(&lint::CONFIG_INVALID, &node.span, format!("host: {reason}"));
                return None;
            }
        }
    }
    field.description = fields::text(value("description"), "description", report);
    field.requirement = requirement(value("required"), report);
    field.env = value("env").and_then(|node| variable(node, report));
    (!field.hosts.is_empty()).then_some(field)
}
