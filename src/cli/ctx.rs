//! `metier ctx` outside of a script: inside of one, the library answers before the arguments are parsed.

use metier::error::{ErrorKind, Result, SkillError};

use super::terminal::escape_line;

/// The call as a script writes it.
#[derive(clap::Args)]
pub struct Args {
    /// The function and its arguments; `metier api` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CALL")]
    call: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result<u8> {
    let function = args.call.first().map_or(String::new(), |name| format!(" {}", escape_line(name)));
    let sentence = format!("`metier ctx{function}` works only inside a script that metier runs in a sandbox");
    Err(SkillError::new(ErrorKind::Unavailable, sentence)
        .with_help("call it from the script of a skill, and run that skill with `metier run NAME`"))
}
