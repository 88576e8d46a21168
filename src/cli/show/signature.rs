//! A skill as a function: its name, what goes in and what comes out, and a row for each field.

use metier::registry::Skill;

use crate::cli::terminal::escape_line;
use metier_skill::contract::signature;

/// Maximum width of the columns of names and types; a longer one moves the rest of its line.
const MAX_COLUMN_WIDTH: usize = 28;

/// `word-count(path?: string) -> {total: object}`; nothing without a contract.
pub fn function_signature(skill: &Skill) -> Option<String> {
    let contract = skill.contract()?;
    let (inputs, outputs) = (contract.inputs.as_ref(), contract.outputs.as_ref());
    if inputs.is_none() && outputs.is_none() {
        return None;
    }
    let parameters = inputs.map_or_else(|| "…".to_owned(), signature::parameters);
    let value = outputs.map_or_else(|| "any".to_owned(), signature::type_name);
    Some(format!("{}({parameters}) -> {value}", skill.name()))
}

/// The signature and the tables, with blank lines around; one empty line where there is none.
pub fn section(skill: &Skill) -> String {
    let Some(signature) = function_signature(skill) else { return String::new() };
    let contract = skill.contract();
    let inputs = contract.and_then(|contract| contract.inputs.as_ref());
    let outputs = contract.and_then(|contract| contract.outputs.as_ref());
    let tables = [("inputs", inputs), ("outputs", outputs)].map(|(title, schema)| {
        schema.map(|schema| table(title, &signature::rows(schema))).unwrap_or_default()
    });
    format!("\n{}\n{}", escape_line(&signature), tables.concat())
}

fn table(title: &str, rows: &[[String; 3]]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let width = |column: usize| {
        rows.iter()
            .map(|row| escape_line(&row[column]).chars().count().min(MAX_COLUMN_WIDTH))
            .max()
            .unwrap_or(0)
    };
    let (names, types) = (width(0), width(1));
    let line = |[name, type_name, description]: &[String; 3]| {
        let line = format!(
            "  {:names$}  {:types$}  {}",
            escape_line(name),
            escape_line(type_name),
            escape_line(description)
        );
        format!("{}\n", line.trim_end())
    };
    format!("\n{title}\n{}", rows.iter().map(line).collect::<String>())
}
