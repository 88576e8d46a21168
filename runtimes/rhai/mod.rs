//! Rhai, with no module, no file and no clock to wait on, metered by our own rules instead of its size limits.

mod engine;
mod executor;
mod failure;
mod from_rhai;
mod host;
mod to_rhai;

#[cfg(test)]
mod tests;

pub(super) use executor::load;
