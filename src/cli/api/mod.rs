//! `metier api`: the functions a script may call on `ctx`, from the one table of them.

mod definitions;
mod page;
mod types;

use clap::ValueEnum;
use metier::error::Result;
use metier::host::{Access, HostFunction, functions};
use serde_json::{Value, json};

use super::output;
use super::session::Session;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Write definitions for an editor: `metier.d.luau` or `metier.d.rhai`
    #[arg(long, value_name = "LANGUAGE", conflicts_with_all = ["json", "markdown"])]
    stub: Option<Language>,
    /// Write the reference page, in Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

/// The languages whose editors read definitions.
#[derive(Clone, Copy, ValueEnum)]
enum Language {
    Lua,
    Rhai,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    if session.json() {
        let rows: Vec<Value> = functions().iter().map(|function| record(function)).collect();
        output::say_json(&rows)?;
        return Ok(0);
    }
    output::say(
        match args.stub {
            Some(Language::Lua) => definitions::luau(),
            Some(Language::Rhai) => definitions::rhai(),
            None if args.markdown => page::markdown(),
            None => listing(),
        }
        .trim_end(),
    )?;
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
        "arguments": function.arguments_schema(),
        "returns": function.returns.schema(),
        "permission": permission(function.access),
        "doc": function.doc,
    })
}

fn listing() -> String {
    let entries: Vec<String> = functions().iter().map(|function| entry(function)).collect();
    entries.join("\n\n")
}

fn entry(function: &HostFunction) -> String {
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
