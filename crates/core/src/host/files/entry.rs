//! An entry of a directory: its name or path, and its kind.

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A symbolic link, whatever its target.
    Symlink,
    /// A FIFO, a socket, a device.
    Other,
}

/// An entry found by a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path, relative to the root.
    pub path: String,
    /// Its kind.
    pub kind: EntryKind,
}

impl Entry {
    /// Approximate bytes that it takes in a list.
    pub fn memory_size(&self) -> u64 {
        const BESIDE: u64 = 96;
        self.path.len() as u64 + BESIDE
    }
}
