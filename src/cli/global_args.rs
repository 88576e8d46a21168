//! The options that every command takes.

use std::path::PathBuf;

const HEADING: &str = "Options of every command";

/// Which project, which product, and in which form the answer is printed.
#[derive(clap::Args, Clone)]
pub struct GlobalArgs {
    /// Print the answer as JSON on standard output
    #[arg(long, global = true, help_heading = HEADING)]
    pub json: bool,
    /// Ask nothing, also on a terminal; what needs an answer is refused
    #[arg(long, global = true, help_heading = HEADING)]
    pub no_input: bool,
    /// The folder of the project [default: the nearest folder above with .<product> or .git]
    #[arg(long, global = true, help_heading = HEADING, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Read the skills of this product: `.NAME/skills` in the project
    #[arg(long, global = true, help_heading = HEADING, value_name = "NAME", default_value = "metier", value_parser = parse_product)]
    pub product: String,
    /// Also read .claude/skills
    #[arg(long, global = true, help_heading = HEADING)]
    pub compat: bool,
}

/// A product's name is part of folder names: `.NAME/skills`.
fn parse_product(name: &str) -> Result<String, &'static str> {
    let is_plain = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
    if is_plain && !name.is_empty() {
        Ok(name.to_owned())
    } else {
        Err("a product's name consists of letters, digits, `-` and `_`")
    }
}
