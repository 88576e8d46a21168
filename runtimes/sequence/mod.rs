//! The runtime of plans: `scripts/sequence.json`, and `steps` or `composed_of` in `skill.yaml`.

mod backend;
mod executor;

pub(super) use executor::load;
