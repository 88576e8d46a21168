//! The data model of plans: plan, steps, arguments and conditions.

pub(super) mod condition;
pub(super) mod plan;
pub(super) mod step;
