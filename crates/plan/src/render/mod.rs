//! Renders a plan as JSON and as a tree for the terminal.

pub(super) mod serialize;
pub(super) mod tree;
