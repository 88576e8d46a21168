//! Rhai with no modules, no files and nothing that waits; its memory is what its thread allocates.

mod budget;
mod engine;
mod executor;
mod failure;
mod from_rhai;
mod growth;
mod host;
mod json;
mod leaks;
mod letters;
mod meter;
mod parse;
mod sorting;
mod stack;
mod text;
mod to_rhai;

#[cfg(test)]
mod tests;

pub(super) use executor::load;
