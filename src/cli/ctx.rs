//! `metier ctx` where there is no host to call: inside of a script that has one, the library answers before any parsing.

use metier::error::{ErrorKind, Result, SkillError};

/// The words of `metier ctx`, as a script writes them.
#[derive(clap::Args)]
pub struct Args {
    /// The function and its arguments; `metier api` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CALL")]
    call: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result<u8> {
    let called = args.call.first().map_or("metier ctx", String::as_str);
    let sentence = format!("{called}: the host API is there for scripts that metier runs in a sandbox");
    Err(SkillError::new(ErrorKind::Unavailable, super::terminal::escape_line(&sentence))
        .with_help("write the call into a script, and run that by metier run"))
}
