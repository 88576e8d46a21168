//! What discovery promises: which skills are found, whose name reaches which, and what is said about the rest.
//!
//! SY- and AS- numbers name the cases of the systems these promises come from.

mod broken;
mod catalog;
mod disk;
mod drop_ins;
mod links;
mod names;
mod on_demand;
mod project;
mod roots;
