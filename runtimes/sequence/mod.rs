//! Plans as a runtime: `scripts/sequence.json`, and `steps` or `composed_of` in `skill.yaml`.

mod executor;
mod stage;

pub(super) use executor::load;
