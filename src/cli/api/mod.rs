//! `metier api`: the functions that a script may call on `ctx`.

mod definitions;
mod reference_page;
mod types;

use clap::ValueEnum;
use metier::error::Result;
use metier::host::{HostFunction, functions};
use serde_json::{Value, json};

use super::output;
use super::session::Session;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Print type definitions for an editor, to save as metier.d.luau or metier.d.rhai
    #[arg(long, value_name = "LANGUAGE", conflicts_with_all = ["json", "markdown"])]
    definitions: Option<Language>,
    /// Print the reference page in Markdown
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
        let rows: Vec<Value> = functions().iter().map(|function| function_record(function)).collect();
        output::print_json(&rows)?;
        return Ok(0);
    }
    output::print(
        match args.definitions {
            Some(Language::Lua) => definitions::luau(),
            Some(Language::Rhai) => definitions::rhai(),
            None if args.markdown => reference_page::markdown(),
            None => listing(),
        }
        .trim_end(),
    )?;
    Ok(0)
}

fn function_record(function: &HostFunction) -> Value {
    let params: Vec<Value> = function
        .params
        .iter()
        .map(|param| json!({"name": param.name, "schema": param.value_type.json_schema(), "required": param.required, "doc": param.doc}))
        .collect();
    json!({
        "name": function.name,
        "aliases": function.aliases,
        "signature": function.signature(),
        "params": params,
        "arguments": function.arguments_schema(),
        "returns": function.returns.json_schema(),
        "permission": function.access.permission(),
        "doc": function.doc,
    })
}

fn listing() -> String {
    let entries: Vec<String> = functions().iter().map(|function| entry(function)).collect();
    entries.join("\n\n")
}

fn entry(function: &HostFunction) -> String {
    let permission = function.access.permission().map_or(String::new(), |name| format!("  [{name}]"));
    let mut lines =
        vec![format!("ctx.{}{permission}", function.signature()), format!("    {}", function.doc)];
    lines.extend(function.params.iter().map(|param| format!("    {}: {}", param.name, param.doc)));
    lines.join("\n")
}
