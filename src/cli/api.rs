//! `metier api`: the functions a script may call on `ctx`, from the one table of them.

use metier::error::Result;
use metier::host::{Access, HostFunction, functions};
use serde_json::{Value, json};

use super::output;
use super::session::Session;

pub(super) fn run(session: &Session) -> Result<u8> {
    if session.json() {
        let rows: Vec<Value> = functions().iter().map(|function| record(function)).collect();
        output::say_json(&rows)?;
    } else {
        let pages: Vec<String> = functions().iter().map(|function| page(function)).collect();
        output::say(&pages.join("\n\n"))?;
    }
    Ok(0)
}

fn record(function: &HostFunction) -> Value {
    let params: Vec<Value> = function
        .params
        .iter()
        .map(|param| json!({"name": param.name, "schema": param.kind.schema(), "required": param.required, "doc": param.doc}))
        .collect();
    json!({
        "name": function.name,
        "aliases": function.aliases,
        "signature": function.signature(),
        "params": params,
        "returns": function.returns.schema(),
        "permission": permission(function.access),
        "doc": function.doc,
    })
}

fn page(function: &HostFunction) -> String {
    let permission = permission(function.access).map_or(String::new(), |name| format!("  [{name}]"));
    let mut lines =
        vec![format!("ctx.{}{permission}", function.signature()), format!("    {}", function.doc)];
    lines.extend(function.params.iter().map(|param| format!("    {}: {}", param.name, param.doc)));
    lines.join("\n")
}

fn permission(access: Access) -> Option<&'static str> {
    match access {
        Access::Free => None,
        Access::Read(_) | Access::ReadRoot => Some("read"),
        Access::Write(_) => Some("write"),
        Access::Tool(_) => Some("tool:NAME"),
        Access::Skill(_) => Some("skill:NAME"),
        Access::Secret(_) => Some("secret:NAME"),
        Access::Sample => Some("sample"),
        Access::Net(_) => Some("net:HOST"),
    }
}
