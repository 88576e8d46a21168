//! Rhai with no modules, no files and nothing that waits; its data is weighed by our own meter.

mod engine;
mod executor;
mod failure;
mod from_rhai;
mod growth;
mod host;
mod meter;
mod to_rhai;

#[cfg(test)]
mod tests;

pub(super) use executor::load;
