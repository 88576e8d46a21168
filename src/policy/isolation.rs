//! How firmly a process must be held before it may start.

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
