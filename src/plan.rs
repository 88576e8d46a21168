//! Plans: the declarative steps of a skill, parsed and checked before the first step runs, and the journals of their runs.

#[doc(inline)]
pub use metier_plan::{
    Journal, JournalContent, JournalState, JournalStep, JournalSummary, Plan, PlanForm, RULES,
};
