//! Watched runs: which accesses are reported, and the paths that processes named in system calls.

use std::ffi::OsString;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::bytes;

/// Which accesses of a run are reported. Watching decides nothing: each call goes on as it would without.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchRules {
    /// Folders below which accesses are reported. Of several around a path, the innermost decides.
    pub folders: Vec<WatchedFolder>,
    /// Whether each program that a process tries to execute is reported, wherever it lies.
    pub programs: bool,
}

/// A folder or file, and which accesses to it and below it are reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedFolder {
    /// Absolute, as the program names it: links are not followed.
    #[serde(with = "bytes")]
    pub path: OsString,
    /// None of them leaves it out of a folder around it.
    pub accesses: AccessKinds,
}

/// A set of [`AccessKind`]s.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessKinds(u8);

impl fmt::Debug for AccessKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        bitflags::parser::to_writer(self, f)
    }
}

bitflags::bitflags! {
    impl AccessKinds: u8 {
        /// [`AccessKind::Read`]
        const READ = 1;
        /// [`AccessKind::Write`]
        const WRITE = 1 << 1;
        /// [`AccessKind::Create`]
        const CREATE = 1 << 2;
        /// [`AccessKind::Remove`]
        const REMOVE = 1 << 3;
        /// [`AccessKind::Execute`]
        const EXECUTE = 1 << 4;
        /// [`AccessKind::LookUp`]
        const LOOK_UP = 1 << 5;
        /// [`AccessKind::CreateFolder`]
        const CREATE_FOLDER = 1 << 6;
        /// Those that change something.
        const CHANGES =
            Self::WRITE.bits() | Self::CREATE.bits() | Self::CREATE_FOLDER.bits() | Self::REMOVE.bits();
    }
}

/// What a process wanted to do with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AccessKind {
    /// Open it for reading.
    Read,
    /// Open it for writing, or change its length, mode, owner or times. It was not to be created.
    Write,
    /// Create it, or open it for writing and create it if it does not exist.
    Create,
    /// Create it as a folder.
    CreateFolder,
    /// Remove it, or give it another name.
    Remove,
    /// Execute it.
    Execute,
    /// Find out whether it exists, what it is, or where it leads; or make it the working directory.
    LookUp,
}

impl From<AccessKind> for AccessKinds {
    fn from(kind: AccessKind) -> Self {
        match kind {
            AccessKind::Read => Self::READ,
            AccessKind::Write => Self::WRITE,
            AccessKind::Create => Self::CREATE,
            AccessKind::CreateFolder => Self::CREATE_FOLDER,
            AccessKind::Remove => Self::REMOVE,
            AccessKind::Execute => Self::EXECUTE,
            AccessKind::LookUp => Self::LOOK_UP,
        }
    }
}

/// What the processes of a watched run wanted to access, whether or not they could.
///
/// All of it comes from the memory of the program, which may change while it is read: it is good for hints, and nothing may be decided
/// by it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observations {
    /// Sorted by path.
    pub accesses: Vec<ObservedAccess>,
    /// How many accesses are missing from the list, because it was full.
    pub unrecorded: u64,
}

/// A path that was named in system calls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObservedAccess {
    /// Absolute, as the program named it, without `.` and `..`. Any byte but NUL may be in it. Links were not followed.
    #[serde(with = "bytes")]
    pub path: OsString,
    /// What it was named for.
    pub kind: AccessKind,
    /// In how many calls.
    pub count: u64,
}
