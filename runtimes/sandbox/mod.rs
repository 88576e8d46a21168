//! The cage around processes: what it keeps out, where it is put up, and by whom. This is the one door to it.

mod order;
mod scratch;

pub(crate) use super::cage::{Launcher, Started, helper_main, inherited};
pub(crate) use order::{API, Cage, Ceilings, End, Enforced, FileRules, Guarded, Order, Report, Used};
pub(crate) use scratch::{Leftover, Scratch};

use std::path::PathBuf;

/// Where the helper comes from that starts programs in cages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Source {
    /// This very program, where its `main` begins with [`helper_main`](crate::helper_main); else a copy of this process.
    #[default]
    Itself,
    /// The `metier` program at this path, or another whose `main` begins in that way.
    Program(PathBuf),
}
