//! Whether a skill could run now: its runtime, its script, and what its contract says that it needs.
//!
//! `list`, `show`, the catalog, the MCP server and the run itself ask the same check, and give its sentences.

mod check;
mod infrastructure;
mod packages;
mod report;
mod requirements;
mod settings_report;

pub use report::{Availability, Requirement, RequirementKind, RequirementState};
pub use settings_report::{CategoryProblem, SettingsReport, UnconfiguredSkill};
