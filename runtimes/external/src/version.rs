//! What is known of the version of a program on `PATH`.

use semver::Version;

/// The version of a program on `PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramVersion {
    /// There is no such program.
    Absent,
    /// It does not say, or not in time.
    Unreadable,
    /// This one.
    #[cfg_attr(not(unix), allow(dead_code, reason = "no program is started there"))]
    Is(Version),
}
