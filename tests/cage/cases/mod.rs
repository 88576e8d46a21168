//! The attacks, by what they are after.

mod devices;
mod endings;
mod files;
mod guarded;
mod hidden;
mod kernel;
mod links;
mod lost;
mod memory;
mod others;
mod own;
mod planted;
mod powers;
mod quotas;
mod resources;
mod sockets;
mod streams;
mod trees;

use std::sync::{Mutex, MutexGuard, PoisonError};

use metier::policy::Tier;

use crate::case::Case;

/// The attacks on a tier.
pub fn of(tier: Tier) -> &'static [&'static [Case]] {
    if tier == Tier::Walk { KILLED } else { ALL }
}

/// Attacks on how trees are killed, which is all that the lowest tier has of its own.
const KILLED: &[&[Case]] = &[trees::CASES, streams::CASES, endings::CASES];

/// Every attack there is.
const ALL: &[&[Case]] = &[
    trees::CASES,
    streams::CASES,
    resources::CASES,
    powers::CASES,
    files::CASES,
    guarded::CASES,
    hidden::CASES,
    planted::CASES,
    lost::CASES,
    memory::CASES,
    links::CASES,
    devices::CASES,
    sockets::CASES,
    others::CASES,
    kernel::CASES,
    quotas::CASES,
    own::CASES,
    endings::CASES,
];

/// Held by what fills the user's descriptors on their way through sockets, and by what starts hosts in cages, which have no more
/// of them than the one that fills them.
static DESCRIPTORS_ON_THEIR_WAY: Mutex<()> = Mutex::new(());

fn alone_with_descriptors() -> MutexGuard<'static, ()> {
    DESCRIPTORS_ON_THEIR_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

const fn case(number: &'static str, tries: &'static str, run: fn() -> crate::case::Tried) -> Case {
    Case { number, tries, run }
}
