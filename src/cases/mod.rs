//! What a skill promises, as cases: what is there, what goes in, what must come out.
//!
//! A [`Case`] is a file `cases/NAME.json` in the skill's folder. A [`Suite`] runs each in a fresh project of its own, where
//! tools, other skills, a model, secrets and the web answer with what the case says, and the [`Verdict`] names every
//! difference. What leads out of that project, a case may need but never grant.

mod case;
mod difference;
mod discovery;
mod expected;
mod file_fixture;
mod git_fixture;
mod result;
mod suite;
mod tool_recorder;

pub use self::discovery::{DiscoveredCases, discover_cases};
pub use self::result::{CaseResult, CaseStatus};
pub use case::Case;
pub use difference::Difference;
pub use suite::Suite;
