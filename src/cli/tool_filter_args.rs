//! The options `--tools` and `--deny-tools`.

use metier::engine::Engine;
use metier::error::Result;
use metier::policy::ToolFilter;
use metier::registry::Skill;

use super::output;
use super::terminal::escape_line;

/// Which tools are left of those that skills and the host offer.
#[derive(clap::Args)]
pub struct ToolFilterArgs {
    /// Leave only these tools, such as weather.forecast or weather.* (may be repeated)
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    tools: Vec<String>,
    /// Leave out these tools, also those that --tools names (may be repeated)
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    deny_tools: Vec<String>,
}

impl ToolFilterArgs {
    /// The filter; `usage` for an empty name.
    pub fn filter(&self) -> Result<ToolFilter> {
        let mut filter = ToolFilter::default();
        if !self.tools.is_empty() {
            filter = filter.allow(&self.tools)?;
        }
        if !self.deny_tools.is_empty() {
            filter = filter.deny(&self.deny_tools)?;
        }
        Ok(filter)
    }

    /// Warns of names that mean no tool of a skill: the command has no tools of its own.
    pub fn warn_of_unknown(&self, engine: &Engine) -> Result<()> {
        let filter = self.filter()?;
        if filter.is_empty() {
            return Ok(());
        }
        let registry = engine.registry();
        let tools: Vec<String> = registry.skills().iter().flat_map(tool_names).collect();
        for name in filter.unknown_names(&tools) {
            output::print_warning(&format!("no skill offers a tool called {}", escape_line(name)));
        }
        Ok(())
    }
}

fn tool_names(skill: &Skill) -> impl Iterator<Item = String> {
    let tools = skill.contract().map_or(&[][..], |contract| &contract.tools);
    tools.iter().map(|tool| format!("{}.{}", skill.name(), tool.name))
}
