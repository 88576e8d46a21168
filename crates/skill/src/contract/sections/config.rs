//! `config`, `secrets` and `env`: the values that whoever runs a skill gives it.

use metier_core::policy::{ConfigField, ConfigRequirement, Permission, normalize_secret_host};
use serde_json::Value as Json;

use crate::contract::fields;
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::{Entry, Node, Value};

/// The maximum number of settings.
pub const MAX_FIELDS: usize = 100;
/// The maximum number of bytes of a name.
const MAX_KEY_LEN: usize = 128;
const KEYS: [&str; 5] = ["description", "required", "env", "secret", "default"];

/// The settings, in written order: a map of names, each with a map, with its description alone, or with nothing.
pub(in crate::contract) fn read(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Vec<ConfigField> {
    let entries = node.and_then(|node| fields::entries(node, "config", report)).unwrap_or_default();
    if let Some(first) = entries.get(MAX_FIELDS) {
        let message = format!("`config` has more than {MAX_FIELDS} settings");
        report
            .add(&lint::CONFIG_INVALID, &first.key_span, message)
            .help("declare the settings that scripts read");
    }
    entries.iter().take(MAX_FIELDS).filter_map(|entry| field(entry, report)).collect()
}

/// An optional setting of that name; `None`, with a diagnostic, for a name that none can have.
pub fn named_setting(
    Entry { key, key_span, .. }: &Entry,
    report: &mut DiagnosticSink<'_>,
) -> Option<ConfigField> {
    let field = field_of_name(key);
    if field.is_none() {
        report.add(&lint::CONFIG_INVALID, key_span, INVALID_NAME);
    }
    field
}

/// What is said of a name that no setting can have.
const INVALID_NAME: &str = "the name of a setting has up to 128 letters, digits, `_`, `-` and `.`";

/// An optional setting of that name, if one can have it.
fn field_of_name(name: &str) -> Option<ConfigField> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let is_name = !name.is_empty() && name.len() <= MAX_KEY_LEN && name.chars().all(is_of_name);
    is_name.then(|| ConfigField::new(name))
}

/// The name of a variable that a run may be given; `None`, with a diagnostic, for another one.
pub fn variable(node: &Node, report: &mut DiagnosticSink<'_>) -> Option<String> {
    let name = fields::text(Some(node), "env", report)?;
    match Permission::env(&name) {
        Ok(_) => Some(name),
        Err(error) => {
            report.add(&lint::CONFIG_INVALID, &node.span, format!("{error}"));
            None
        }
    }
}

fn field(entry: &Entry, report: &mut DiagnosticSink<'_>) -> Option<ConfigField> {
    let mut field = named_setting(entry, report)?;
    let Entry { key, node, .. } = entry;
    if let Value::Scalar(_) = node.value {
        field.description = fields::text(Some(node), key, report);
        return Some(field);
    }
    let entries = fields::entries(node, key, report)?;
    fields::unknown_keys(entries, &KEYS, &format!("the setting {key}"), report);
    let value = |name: &str| fields::find(entries, name);
    field.description = fields::text(value("description"), "description", report);
    field.requirement = requirement(value("required"), report);
    field.secret = fields::flag(value("secret"), "secret", report).unwrap_or(false);
    field.env = value("env").and_then(|node| variable(node, report));
    field.default = value("default").and_then(|node| default(node, field.secret, report));
    if let Some(node) = value("secret").filter(|_| field.secret)
        && let Err(error) = Permission::secret(key)
    {
        report.add(&lint::CONFIG_INVALID, &node.span, format!("{error}"));
    }
    Some(field)
}

pub(super) fn requirement(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> ConfigRequirement {
    match node.and_then(Node::text).map(str::trim) {
        Some("on_use") => return ConfigRequirement::OnUse,
        Some("any_of") => return ConfigRequirement::AnyOf,
        _ => {}
    }
    match fields::flag(node, "required (true, false, any_of or on_use)", report) {
        Some(true) => ConfigRequirement::Required,
        _ => ConfigRequirement::Optional,
    }
}

/// A secret that everybody can read in a file is none.
fn default(node: &Node, is_secret: bool, report: &mut DiagnosticSink<'_>) -> Option<Json> {
    if is_secret {
        let message = "a secret has no default: everybody could read it here";
        report.add(&lint::CONFIG_INVALID, &node.span, message).help("remove the default");
        return None;
    }
    fields::json(node, report)
}

/// The maximum number of hosts of one secret.
const MAX_HOSTS: usize = 16;
const SECRET_KEYS: [&str; 5] = ["name", "host", "description", "required", "env"];

/// The secrets, in written order: a list of maps, each with a name and a host or a list of hosts. One that a setting of `config` has the
/// name of is reported.
pub(in crate::contract) fn read_secrets(
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
    fields::unknown_keys(entries, &SECRET_KEYS, "a secret", report);
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

/// The maximum number of variables.
const MAX_VARIABLES: usize = 100;

/// The permissions, each once: of a list of names, of a list of maps with a `name`, or of a map whose keys are names. A name that no
/// run is given asks for nothing.
pub(in crate::contract) fn read_env(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Vec<Permission> {
    let mut asked: Vec<Permission> = Vec::new();
    let Some(node) = node.filter(|node| !node.is_null()) else { return asked };
    let mut add = |name: &str, node: &Node, report: &mut DiagnosticSink<'_>| match Permission::env(name) {
        Ok(permission) if asked.contains(&permission) => {}
        Ok(permission) => asked.push(permission),
        Err(error) => {
            report.add(&lint::PERMISSION_UNKNOWN, &node.span, format!("{error}; it asks for nothing"));
        }
    };
    match &node.value {
        Value::Map(entries) => {
            entries.iter().take(MAX_VARIABLES).for_each(|entry| add(&entry.key, &entry.node, report));
        }
        _ => {
            for item in fields::items(node, "env", report).unwrap_or_default().iter().take(MAX_VARIABLES) {
                let named = match &item.value {
                    Value::Map(entries) => fields::find(entries, "name"),
                    _ => Some(item),
                };
                if let Some(name) = fields::text(named, "a variable under `env`", report) {
                    add(&name, item, report);
                }
            }
        }
    }
    asked
}
