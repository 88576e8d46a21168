//! `metier config`: prints the configuration, changes a value of a file, or prints the schema of the files.

use metier::config::{self, EditTarget, KEYS, Setting};
use metier::error::{ErrorKind, Result, SkillError};
use serde_json::{Value, json};

use super::output;
use super::session::Session;
use super::terminal::escape_line;

/// The options of `metier config`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Print the values for this skill only
    name: Option<String>,
    /// Also print where each value comes from
    #[arg(long)]
    origin: bool,
    /// Print the JSON Schema of configuration files
    #[arg(long)]
    schema: bool,
    #[command(subcommand)]
    change: Option<Change>,
}

#[derive(clap::Subcommand)]
enum Change {
    /// Set a key in your configuration file
    Set {
        /// The key, such as limits.timeout
        key: String,
        /// The value: TOML, or text
        value: String,
        /// Set it in the file of the project
        #[arg(long)]
        for_project: bool,
    },
    /// Remove a key from your configuration file
    Unset {
        /// The key, such as limits.timeout
        key: String,
        /// Remove it from the file of the project
        #[arg(long)]
        for_project: bool,
    },
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    if args.schema {
        return output::print_json(&config::json_schema()).map(|()| 0);
    }
    let path = match &args.change {
        Some(Change::Set { key, value, for_project }) => {
            config::set(&target(*for_project, session)?, key, value)?
        }
        Some(Change::Unset { key, for_project }) => config::unset(&target(*for_project, session)?, key)?,
        None => return print_values(args, session),
    };
    session.exit_watchdog().finish();
    if session.json() {
        return output::print_json(&json!({"file": path})).map(|()| 0);
    }
    output::eprint(&format!("changed {}", escape_line(&path.display().to_string())));
    Ok(0)
}

fn target(for_project: bool, session: &Session) -> Result<EditTarget> {
    if !for_project {
        return Ok(EditTarget::User);
    }
    Ok(EditTarget::Project { root: session.project()?, product: session.product().to_owned() })
}

/// All effective values: those that somebody set, and the defaults of keys that belong to no single skill.
fn print_values(args: &Args, session: &Session) -> Result<u8> {
    session.check_configuration()?;
    let set = session.configuration().iter();
    let of_skill = |skill: Option<&str>| args.name.is_none() || skill == args.name.as_deref();
    let mut rows: Vec<(String, Value, String)> = Vec::new();
    for (path, values) in set.filter(|(path, _)| of_skill(path.skill())) {
        let row = |setting: &Setting| (path.to_string(), setting.value.to_json(), setting.origin.to_string());
        rows.extend(values.iter().take(values.len().min(1)).map(row));
    }
    let is_default = |name: &str| !name.starts_with("skills.") && session.configuration().get(name).is_none();
    if let Some(name) = args.name.as_deref().filter(|_| rows.is_empty()) {
        let sentence = format!("the configuration says nothing about the skill {name}");
        return Err(
            SkillError::new(ErrorKind::Usage, sentence).with_help("`metier config` prints all values")
        );
    }
    let defaults = KEYS.iter().filter(|key| args.name.is_none() && is_default(key.name));
    rows.extend(defaults.map(|key| (key.name.to_owned(), json!(key.default), "default".to_owned())));
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    session.exit_watchdog().finish();
    if session.json() {
        let values: Vec<Value> = rows
            .iter()
            .map(|(key, value, origin)| json!({"key": key, "value": value, "origin": origin}))
            .collect();
        return output::print_json(&values).map(|()| 0);
    }
    let line = |(key, value, origin): &(String, Value, String)| {
        let origin = if args.origin { format!("  # {}", escape_line(origin)) } else { String::new() };
        format!("{} = {}{origin}", escape_line(key), escape_line(&value.to_string()))
    };
    output::print(&rows.iter().map(line).collect::<Vec<_>>().join("\n")).map(|()| 0)
}
