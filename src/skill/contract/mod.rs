//! A skill's contract: `skill.yaml` beside `SKILL.md`, the machine's half of a skill.
//!
//! `SKILL.md` is what a model reads, and alone it still makes a skill. The contract says what goes in and comes out, what
//! runs, how much of everything it needs, and what it needs around it. Its keys stand below one key `skill`, or at the top of
//! the file; [`Contract`] lists them. All of them are optional, and unknown ones are kept.
//!
//! As with `SKILL.md`, one parse gives everything: the [`Contract`] and the [`Diagnostic`](super::Diagnostic)s. A fault that
//! blocks leaves no contract, and then the skill is still listed, but does not run: an input could not be held against
//! anything. Where both files name a thing, they agree, or that is a fault that blocks too; descriptions may differ.

mod consistency;
mod fields;
mod parse;
mod schema;
mod self_check;
mod serialize;

mod sections;
#[cfg(test)]
mod tests;

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::{Map, Value as Json};

pub use self::parse::{MAX_CONTRACT, ParsedContract, load, load_with_manifest, parse, parse_with_manifest};
pub use self::sections::dependencies::{Dependencies, Dependency};
pub use self::sections::entrypoints::Entrypoint;
pub(crate) use self::sections::entrypoints::SourceLocation;
pub use self::sections::examples::Example;
pub use self::sections::limits::ContractLimits;
pub use self::sections::metadata::ContractMetadata;
pub use self::sections::permissions::PermissionRequest;
pub use schema::{Schema, ValidationFailure};

/// What the file may be called; there is to be one of them.
pub const CONTRACT_FILES: [&str; 2] = ["skill.yaml", "skill.yml"];

/// What a contract says. In JSON every key is there, `null` or empty where the contract says nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Contract {
    /// The skill's name, in Unicode NFKC.
    pub name: Option<String>,
    /// Its version.
    #[serde(serialize_with = "self::serialize::text")]
    pub version: Option<semver::Version>,
    /// What it does, for people who read contracts.
    pub description: Option<String>,
    /// The runtime of its script, as written.
    pub runtime: Option<String>,
    /// Where that is written.
    #[serde(skip)]
    pub(crate) runtime_location: SourceLocation,
    /// What runs when nobody names a script.
    pub entrypoint: Option<Entrypoint>,
    /// Scripts that may be run by these names, in the order written.
    #[serde(serialize_with = "by_name")]
    pub entrypoints: Vec<(String, Entrypoint)>,
    /// What goes in.
    pub inputs: Option<Schema>,
    /// What comes out.
    pub outputs: Option<Schema>,
    /// How much a run needs at most.
    pub limits: ContractLimits,
    /// What it asks for; nothing where the contract leaves that to `allowed-tools`.
    pub permissions: Option<Vec<PermissionRequest>>,
    /// What it needs around it.
    pub dependencies: Dependencies,
    /// What a caller wants to know beforehand.
    pub metadata: ContractMetadata,
    /// Calls of it, and what they answer.
    pub examples: Vec<Example>,
    /// Whether its work is a plan of steps, and in which form that is written.
    pub steps: Option<StepsForm>,
    /// Where they are written.
    #[serde(skip)]
    pub(crate) steps_location: SourceLocation,
    /// Keys that are none of these.
    pub unknown: Map<String, Json>,
}

/// How a plan of steps is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepsForm {
    /// Under `steps`.
    Steps,
    /// Under `composed_of`.
    ComposedOf,
}

impl Contract {
    /// What runs when nobody names a script: the entrypoint, `main` among the named ones, or the only one of them.
    pub fn main_entrypoint(&self) -> Option<&Entrypoint> {
        let only = match &self.entrypoints[..] {
            [(_, only)] => Some(only),
            _ => None,
        };
        self.entrypoint.as_ref().or_else(|| self.entrypoint_by_name("main")).or(only)
    }

    /// The entrypoint of that name; `main` is the one that runs when none is named.
    pub fn entrypoint_by_name(&self, name: &str) -> Option<&Entrypoint> {
        let named =
            self.entrypoints.iter().find(|(known, _)| known == name).map(|(_, entrypoint)| entrypoint);
        named.or_else(|| self.entrypoint.as_ref().filter(|_| name == "main"))
    }
}

fn by_name<S: Serializer>(entrypoints: &[(String, Entrypoint)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entrypoints.iter().map(|(name, entrypoint)| (name, entrypoint)))
}
