//! The data model of a plan: steps, arguments, references, templates and conditions.

pub(super) mod argument;
pub(super) mod condition;
pub(super) mod reference;
pub(super) mod step;
pub(super) mod template;
