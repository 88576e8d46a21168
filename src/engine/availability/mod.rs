//! Whether a skill could run now: what it says that it needs, its runtime, and its script with the interpreter.
//!
//! `list`, `show`, the catalog, the MCP server and the run itself ask the same check, and give its sentences. The first of these counts,
//! everywhere: the skill is switched off; what its contract and metadata require, and its plan, all of it; no script can be selected; its runtime is not
//! in this build; its interpreter is not there, or not in a version that fits; there is no sandbox.

mod check;
mod infrastructure;
mod packages;
mod planned_skills;
mod report;
mod requirements;
mod script;
mod settings_report;

pub(super) use check::settings_context;
pub use report::{Availability, Requirement, RequirementKind, RequirementState, SkillContent};
pub use settings_report::{CategoryProblem, SettingsReport, UnconfiguredSkill};
