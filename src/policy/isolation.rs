//! How firmly a process must be held before it may start, and by what.

use serde::{Deserialize, Serialize};

/// What the caller wants of the cage around external scripts. Embedded languages reach nothing but the host API anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isolation {
    /// Files outside the project, the network and the end of the whole tree must be enforced, or nothing starts:
    /// `sandbox-unavailable`.
    #[default]
    Required,
    /// What this machine can enforce is enforced; the outcome says what that was.
    BestEffort,
    /// A plain process with the user's own rights, whatever the grants.
    Off,
}

/// The best cage to put up; where the machine has less, less is put up, and the outcome says what.
///
/// Lower ones are for comparisons, and for machines that resent namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Tier {
    /// Namespaces of its own, Landlock, seccomp.
    #[default]
    Namespaces,
    /// Landlock and seccomp.
    Landlock,
    /// The same, where the kernel cannot keep signals inside: a tree is killed generation by generation.
    Walk,
}
