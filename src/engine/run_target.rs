//! What a run calls: a skill, or one of its tools, whose own schemas and time limit count then.

use super::Invocation;
use crate::registry::Skill;
use metier_skill::contract::{ProvidedTool, Schema};

/// The skill of a run, and the tool of it that is called, if one is.
#[derive(Clone, Copy)]
pub(super) struct RunTarget<'a> {
    pub(super) skill: &'a Skill,
    pub(super) tool: Option<&'a ProvidedTool>,
}

impl<'a> RunTarget<'a> {
    /// What an invocation of the skill calls. A tool that the skill does not offer counts as none: no script is selected for it.
    pub(super) fn new(skill: &'a Skill, invocation: &Invocation) -> Self {
        let tool = invocation.tool.as_deref().and_then(|name| skill.contract()?.tool(name));
        Self { skill, tool }
    }

    /// The schema of the input.
    pub(super) fn inputs(self) -> Option<&'a Schema> {
        match self.tool {
            Some(tool) => tool.input_schema.as_ref(),
            None => self.skill.contract()?.inputs.as_ref(),
        }
    }

    /// The schema of the value.
    pub(super) fn outputs(self) -> Option<&'a Schema> {
        match self.tool {
            Some(tool) => tool.output_schema.as_ref(),
            None => self.skill.contract()?.outputs.as_ref(),
        }
    }

    /// What it is called in an error.
    pub(super) fn name(self) -> String {
        match self.tool {
            Some(tool) => format!("the tool {} of {}", tool.name, self.skill.name()),
            None => self.skill.name().to_owned(),
        }
    }
}
