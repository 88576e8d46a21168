//! Parses the text of a contract or a `sequence.json` into a plan.

pub(super) mod condition;
pub(super) mod json_tree;
pub(super) mod markdown;
pub(super) mod plan;
pub(super) mod step;
