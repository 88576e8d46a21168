//! The options that every command takes.

use std::path::PathBuf;

use metier::config::{Configuration, ValueOrigin, is_product_name};
use metier::error::Result as SkillResult;

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
    /// Read the skills of this product: `.NAME/skills` in the project [default: metier]
    #[arg(long, global = true, help_heading = HEADING, value_name = "NAME", value_parser = parse_product)]
    pub product: Option<String>,
    /// Also read .sweny/skills, .claude/skills and .gemini/skills
    #[arg(long, global = true, help_heading = HEADING)]
    pub compat: bool,
}

impl GlobalArgs {
    /// The values of the configuration that these options set.
    pub fn configuration(&self) -> SkillResult<Configuration> {
        let flag = |name: &str| ValueOrigin::Flag { name: name.to_owned() };
        let mut configuration = Configuration::new();
        if let Some(product) = &self.product {
            configuration = configuration.with_origin("product", product.as_str(), flag("--product"))?;
        }
        let flags = [
            ("compat", "--compat", self.compat),
            ("json", "--json", self.json),
            ("no_input", "--no-input", self.no_input),
        ];
        flags
            .into_iter()
            .filter(|(.., is_set)| *is_set)
            .try_fold(configuration, |configuration, (key, name, _)| {
                configuration.with_origin(key, true, flag(name))
            })
    }
}

/// A product's name is part of folder names: `.NAME/skills`.
fn parse_product(name: &str) -> Result<String, &'static str> {
    if is_product_name(name) {
        Ok(name.to_owned())
    } else {
        Err("a product's name consists of letters, digits, `-` and `_`")
    }
}
