//! Writes a skill in the form of another system, and lists what that form cannot hold.

mod agentskit;
mod curia;
mod skill_md;
mod source;
mod sweny;
mod tool_description;

pub(crate) use self::skill_md::{YamlTexts, yaml_text};
pub use self::source::ExportSource;

/// A form in which a skill can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportFormat {
    /// A `SKILL.md` with nothing outside of the specification.
    SkillMd,
    /// A function as models are told of one: name, description, parameters.
    FunctionCalling,
    /// A tool of the Model Context Protocol.
    Mcp,
    /// The manifest of a Curia skill.
    Curia,
    /// A skill of AgentsKit.
    AgentsKit,
    /// A skill object of SWEny.
    Sweny,
    /// A skill object of SWEny, in YAML.
    SwenyYaml,
}

impl ExportFormat {
    /// Every form, by the word for it.
    pub const ALL: [(&'static str, Self); 7] = [
        ("skill-md", Self::SkillMd),
        ("function-calling", Self::FunctionCalling),
        ("mcp", Self::Mcp),
        ("curia", Self::Curia),
        ("agentskit", Self::AgentsKit),
        ("sweny", Self::Sweny),
        ("sweny-yaml", Self::SwenyYaml),
    ];

    /// The name of the file.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::SkillMd => "SKILL.md",
            Self::FunctionCalling => "function.json",
            Self::Mcp => "tool.json",
            Self::Curia | Self::AgentsKit | Self::Sweny => "skill.json",
            Self::SwenyYaml => "skill.yaml",
        }
    }
}

/// A skill in another form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// The text of the file.
    pub text: String,
    /// What the form cannot hold, or holds in other words; each a part of a sentence.
    pub losses: Vec<String>,
}

/// The skill in that form.
pub fn export(format: ExportFormat, skill: ExportSource<'_>) -> Exported {
    let (text, held, changes) = match format {
        ExportFormat::SkillMd => skill_md::write(skill),
        ExportFormat::FunctionCalling => tool_description::write_function(skill),
        ExportFormat::Mcp => tool_description::write_tool(skill),
        ExportFormat::Curia => curia::write(skill),
        ExportFormat::AgentsKit => agentskit::write(skill),
        ExportFormat::Sweny => sweny::write(skill),
        ExportFormat::SwenyYaml => sweny::write_yaml(skill),
    };
    let losses = source::losses(skill, held).into_iter().map(str::to_owned).chain(changes).collect();
    Exported { text, losses }
}
