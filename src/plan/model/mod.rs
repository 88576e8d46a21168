//! The data model of a plan: steps, arguments and conditions.

pub(super) mod argument;
pub(super) mod condition;
pub(super) mod step;
