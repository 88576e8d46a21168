//! `metier schema`: JSON Schemas of the formats of definitions.

use metier::error::Result;
use metier::formats::SWENY_SKILL_SCHEMA;

use super::output;

/// The options of `metier schema`.
#[derive(clap::Args)]
pub struct Args {
    /// The format
    #[arg(value_name = "FORMAT", value_parser = ["sweny-skill"])]
    _format: String,
}

/// There is one schema so far.
pub(super) fn run(_: &Args) -> Result<u8> {
    output::print(SWENY_SKILL_SCHEMA.trim_end())?;
    Ok(0)
}
