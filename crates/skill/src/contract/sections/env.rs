//! `env`: the environment variables that a script asks for, each the permission `env:NAME`.

use crate::contract::fields;
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::{Node, Value};
use metier_core::policy::Permission;

/// The maximum number of variables.
const MAX_VARIABLES: usize = 100;

/// The permissions, each once: of a list of names, of a list of maps with a `name`, or of a map whose keys are names. A name that no
/// run is given asks for nothing.
pub(in crate::contract) fn read(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Vec<Permission> {
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
