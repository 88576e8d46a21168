//! The limits that only some runtimes enforce.

use serde::{Serialize, Serializer};

use crate::policy::Limits;

/// A limit that only some runtimes enforce. Every runtime enforces the deadline and the output cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RuntimeLimit {
    /// [`Limits::memory`].
    Memory,
    /// [`Limits::operations`].
    Operations,
    /// [`Limits::cpu`].
    Cpu,
    /// [`Limits::file_size`].
    FileSize,
    /// [`Limits::open_files`].
    OpenFiles,
}

impl Serialize for RuntimeLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl RuntimeLimit {
    /// All of them, in the order of outcomes.
    pub const ALL: [Self; 5] = [Self::Memory, Self::Operations, Self::Cpu, Self::FileSize, Self::OpenFiles];

    /// The name in outcomes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Operations => "operations",
            Self::Cpu => "cpu",
            Self::FileSize => "file_size",
            Self::OpenFiles => "open_files",
        }
    }
}

/// For the other packages of metier; may change in any release.
#[doc(hidden)]
impl RuntimeLimit {
    /// Whether it is set in these limits.
    pub fn is_set(self, limits: &Limits) -> bool {
        match self {
            Self::Memory => limits.memory.is_some(),
            Self::Operations => limits.operations.is_some(),
            Self::Cpu => limits.cpu.is_some(),
            Self::FileSize => limits.file_size.is_some(),
            Self::OpenFiles => limits.open_files.is_some(),
        }
    }

    /// Removes it from these limits.
    pub fn remove(self, limits: &mut Limits) {
        match self {
            Self::Memory => limits.memory = None,
            Self::Operations => limits.operations = None,
            Self::Cpu => limits.cpu = None,
            Self::FileSize => limits.file_size = None,
            Self::OpenFiles => limits.open_files = None,
        }
    }
}
