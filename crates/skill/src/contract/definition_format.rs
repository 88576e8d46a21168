//! The format in which a contract is written.

use serde::Serialize;

/// A format of definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DefinitionFormat {
    /// The contract of metier, which structured skill definitions (`skill:` with inputs, outputs, dependencies) are part of.
    #[default]
    Contract,
    /// The manifest of a Curia skill, whose script is `handler.ts` or `handler.js`.
    Curia,
    /// A skill object of SWEny.
    Sweny,
    /// The keys that SWEny adds to the frontmatter of a `SKILL.md`.
    #[serde(rename = "sweny-skill-md")]
    SwenyFrontmatter,
    /// A skill of AgentsKit: what a model becomes.
    #[serde(rename = "agentskit")]
    AgentsKit,
    /// A published package of AgentsKit, with one skill.
    #[serde(rename = "agentskit-package")]
    AgentsKitPackage,
    /// A manifest of AgentsKit, with one skill or none, and tools.
    #[serde(rename = "agentskit-manifest")]
    AgentsKitManifest,
}

impl DefinitionFormat {
    /// What people call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Contract => "a contract",
            Self::Curia => "a Curia manifest",
            Self::Sweny => "a SWEny skill",
            Self::SwenyFrontmatter => "a SKILL.md of SWEny",
            Self::AgentsKit => "an AgentsKit skill",
            Self::AgentsKitPackage => "an AgentsKit package",
            Self::AgentsKitManifest => "an AgentsKit manifest",
        }
    }

    /// The scripts in the skill's folder of which the first that exists is run; empty where the contract or the folder `scripts`
    /// says what runs.
    pub fn handlers(self) -> &'static [&'static str] {
        match self {
            Self::Curia => &["handler.ts", "handler.js"],
            _ => &[],
        }
    }
}
