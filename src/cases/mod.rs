//! What a skill promises, as cases: what is there, what goes in, what must come out.
//!
//! A [`Case`] is a file `cases/NAME.json` in the skill's folder. A [`Suite`] runs each in a fresh project of its own, where
//! tools, other skills, a model, secrets and the web answer with what the case says, and the [`Verdict`] names every
//! difference. What leads out of that project, a case may need but never grant.

mod case;
mod collected;
mod difference;
mod expected;
mod history;
mod layout;
mod recorder;
mod suite;
mod verdict;

pub use case::Case;
pub use collected::{DiscoveredCases, discover_cases};
pub use difference::Difference;
pub use suite::Suite;
pub use verdict::{CaseResult, CaseStatus};
