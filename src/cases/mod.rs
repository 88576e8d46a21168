//! Tests of skills, as cases: the files of a project, an input, and the expected result.
//!
//! A [`Case`] is a file `cases/NAME.json` in the skill's folder. A [`Suite`] runs each in a fresh project of its own, where
//! tools, other skills, a model, secrets and the web return what the case declares, and the [`CaseResult`] lists every
//! difference. Permissions that reach outside that project can be required by a case, but only the caller can grant them.

mod case;
mod difference;
mod discovery;
mod expected;
mod file_fixture;
mod git_fixture;
mod request_recorder;
mod result;
mod suite;
mod tool_recorder;

pub use self::discovery::{DiscoveredCases, discover_cases};
pub use self::result::{CaseResult, CaseStatus};
pub use case::Case;
pub use difference::Difference;
pub use suite::Suite;
