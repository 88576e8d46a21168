//! `metier autonomy`: prints or sets how far models act on their own.

use metier::config::{self, EditTarget};
use metier::error::Result;
use serde_json::json;

use super::output;
use super::session::Session;
use super::terminal::escape_line;

/// The options of `metier autonomy`.
#[derive(clap::Args)]
pub struct Args {
    /// Set it in your configuration file: a whole number from 0 to 100
    #[arg(value_parser = clap::value_parser!(u8).range(..=100))]
    score: Option<u8>,
}

pub(super) fn run(args: &Args, session: &Session) -> Result<u8> {
    let Some(score) = args.score else { return print_score(session) };
    let path = config::set(&EditTarget::User, KEY, &score.to_string())?;
    session.exit_watchdog().finish();
    if session.json() {
        return output::print_json(&json!({"file": path})).map(|()| 0);
    }
    output::eprint(&format!("changed {}", escape_line(&path.display().to_string())));
    Ok(0)
}

const KEY: &str = "autonomy";

fn print_score(session: &Session) -> Result<u8> {
    session.print_configuration_problems();
    let score = session.configuration().autonomy();
    let found = session.configuration().effective().into_iter().find(|value| value.key == KEY);
    let origins = found.map(|value| value.origins).unwrap_or_default();
    session.exit_watchdog().finish();
    if session.json() {
        return output::print_json(&json!({"autonomy": score, "origins": origins})).map(|()| 0);
    }
    let origins = origins.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let line = match score {
        Some(score) => format!("{score} ({})", escape_line(&origins)),
        None => "no limit: a model runs every trusted skill with what is granted".to_owned(),
    };
    output::print(&line).map(|()| 0)
}
