//! `metier config`: prints the configuration, changes a value of a file, or prints the schema of the files.

use std::collections::BTreeSet;

use metier::config::{self, EditTarget, EffectiveValue};
use metier::error::Result;
use metier::registry::Registry;
use serde_json::json;

use super::output;
use super::session::Session;
use super::terminal::escape_line;

/// The options of `metier config`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Print the values for runs of this skill
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

/// The values that count: for all runs and what is set for single skills, or for one skill.
fn print_values(args: &Args, session: &Session) -> Result<u8> {
    session.print_configuration_problems();
    let configuration = session.configuration();
    let registry = Registry::discover(&session.roots()?);
    let of_skill = |name: &str| configuration.effective_for_skill(name);
    let values: Vec<EffectiveValue> = if let Some(name) = &args.name {
        of_skill(registry.find(name)?.name())
    } else {
        let set: BTreeSet<String> = configuration.iter().map(|(path, _)| path.to_string()).collect();
        let of_skills = configuration.skills().flat_map(of_skill).filter(|value| set.contains(&value.key));
        configuration.effective().into_iter().chain(of_skills).collect()
    };
    session.exit_watchdog().finish();
    if session.json() {
        return output::print_json(&values).map(|()| 0);
    }
    let line = |value: &EffectiveValue| {
        let names = value.origins.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let origin = if args.origin { format!("  # {}", escape_line(&names)) } else { String::new() };
        format!("{}{origin}", escape_line(&value.to_string()))
    };
    output::print(&values.iter().map(line).collect::<Vec<_>>().join("\n")).map(|()| 0)
}
