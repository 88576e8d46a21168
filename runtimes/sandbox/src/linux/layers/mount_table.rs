//! The mounts of this namespace, as the kernel lists them.

use std::io;
use std::path::PathBuf;

use rustix::mount::MountFlags;

use crate::linux::procfs::read_lossy;

/// A mount: its device, the folder of the device that is its root, its mount point, and its options.
pub(crate) struct Mount {
    pub(super) device: String,
    pub(super) root: PathBuf,
    pub(crate) target: PathBuf,
    options: String,
}

impl Mount {
    /// `36 35 98:0 /from /at rw,noatime …`
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ').skip(2);
        Some(Self {
            device: words.next()?.to_owned(),
            root: unescape(words.next()?),
            target: unescape(words.next()?),
            options: words.next()?.to_owned(),
        })
    }

    /// What it refuses. A change keeps when it notes the time of access.
    pub(super) fn flags(&self) -> MountFlags {
        const NAMES: [(&str, MountFlags); 4] = [
            ("ro", MountFlags::RDONLY),
            ("nosuid", MountFlags::NOSUID),
            ("nodev", MountFlags::NODEV),
            ("noexec", MountFlags::NOEXEC),
        ];
        let named = |option: &str| NAMES.into_iter().find(|(name, _)| *name == option).map(|(_, flag)| flag);
        self.options.split(',').filter_map(named).fold(MountFlags::empty(), |all, flag| all | flag)
    }
}

/// All of them, in the order in which they were attached.
pub(crate) fn read_mounts() -> io::Result<Vec<Mount>> {
    Ok(read_lossy("/proc/thread-self/mountinfo")?.lines().filter_map(Mount::parse).collect())
}

/// Spaces and similar characters are written as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let written = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    written.iter().fold(text.to_owned(), |text, (digits, letter)| text.replace(digits, letter)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_keeps_what_it_refuses() {
        let mount =
            Mount::parse("36 35 98:0 /from /at\\040here rw,nosuid,relatime,noexec shared:1 - ext4 x rw")
                .unwrap();
        assert_eq!(mount.target, PathBuf::from("/at here"));
        assert_eq!(mount.flags(), MountFlags::NOSUID | MountFlags::NOEXEC);
    }
}
