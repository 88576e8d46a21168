//! The runtime of plans: `scripts/sequence.json`, and `steps` or `composed_of` in `skill.yaml`.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backend;
mod executor;

pub use executor::load;
