//! The mounts of this namespace, as the kernel lists them, and whether a protected path is also visible through another mount,
//! where the covering mount does not help.
//!
//! Landlock identifies a folder by its inode, not by its path: what may be read at one path may be read at every other.

use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::MountFlags;

use crate::FileRules;
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

/// Whether some of the hidden paths are visible at other paths as well, or some of the read-only ones in a writable folder. If the
/// kernel does not show the mounts, true.
pub(crate) fn have_mount_alias(files: &FileRules) -> bool {
    let (hidden, read_only) = (&files.protected_paths.hidden, &files.protected_paths.read_only);
    if hidden.is_empty() && read_only.is_empty() {
        return false;
    }
    let Ok(mounts) = read_mounts() else { return true };
    let writable: Vec<&Path> = files.write.iter().map(|pinned| Path::new(&pinned.path)).collect();
    hidden.iter().any(|path| has_mount_alias(&mounts, Path::new(path), |_| true))
        || has_mount_in(&mounts, &writable)
            && read_only.iter().any(|path| {
                let path = Path::new(path);
                let is_writable = |place: &Path| writable.iter().any(|folder| place.starts_with(folder));
                has_mount_alias(&mounts, path, |place| !place.starts_with(path) && is_writable(place))
            })
}

/// Whether something is mounted in one of these folders: without that, all that is in them has one path there.
fn has_mount_in(mounts: &[Mount], folders: &[&Path]) -> bool {
    mounts.iter().any(|mount| folders.iter().any(|folder| mount.target.starts_with(folder)))
}

/// Whether another mount shows the path, or a part of it, at a place that counts.
fn has_mount_alias(mounts: &[Mount], path: &Path, counts: impl Fn(&Path) -> bool) -> bool {
    // Of several mounts at the same path the last is visible.
    let shown = mounts.iter().enumerate().filter(|(_, mount)| path.starts_with(&mount.target));
    let Some((number, own)) =
        shown.max_by_key(|(number, mount)| (mount.target.components().count(), *number))
    else {
        return true;
    };
    let Ok(below) = path.strip_prefix(&own.target) else { return true };
    let path_on_device = own.root.join(below);
    let others =
        mounts.iter().enumerate().filter(|(other, mount)| *other != number && mount.device == own.device);
    let mut others = others.map(|(_, other)| other);
    others.any(|other| match path_on_device.strip_prefix(&other.root) {
        Ok(below) => counts(&other.target.join(below)),
        Err(_) => other.root.starts_with(&path_on_device) && counts(&other.target),
    })
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

    #[test]
    fn a_folder_is_shown_twice_when_another_mount_of_its_device_holds_some_of_it() {
        let usual = "22 27 0:21 / /proc rw - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
28 27 254:1 / /home rw - ext4 /dev/vdb rw
29 27 0:25 / /tmp rw - tmpfs tmpfs rw";
        let with = |line: &str| {
            let text = format!("{usual}\n{line}");
            let mounts: Vec<Mount> = text.lines().filter_map(Mount::parse).collect();
            has_mount_alias(&mounts, Path::new("/home/a/my project"), |_| true)
        };
        for twice in [
            "30 27 254:1 /a /mnt rw - ext4 /dev/vdb rw",
            "30 27 254:1 /a/my\\040project /mnt rw - ext4 /dev/vdb rw",
            "30 27 254:1 /a/my\\040project/secrets /mnt rw - ext4 /dev/vdb rw",
            "30 27 254:1 / /mnt rw - ext4 /dev/vdb rw",
            // Mounted over itself: what is beneath cannot be reached, but the check does not go that far.
            "30 27 254:1 /a/my\\040project /home/a/my\\040project rw - ext4 /dev/vdb rw",
        ] {
            assert!(with(twice), "{twice}");
        }
        for once in [
            "30 27 254:1 /b /mnt rw - ext4 /dev/vdb rw",
            "30 27 254:1 /a/my /mnt rw - ext4 /dev/vdb rw",
            "30 27 254:0 /a /mnt rw - ext4 /dev/vda rw",
            "",
        ] {
            assert!(!with(once), "{once}");
        }
    }

    #[test]
    fn a_protected_folder_is_writable_where_a_mount_in_a_granted_folder_shows_some_of_it() {
        let usual = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 254:0 /w/p/.git/hooks /mnt rw - ext4 /dev/vda rw";
        let with = |line: &str, folder: &str| {
            let text = format!("{usual}\n{line}");
            let mounts: Vec<Mount> = text.lines().filter_map(Mount::parse).collect();
            let is_in = |place: &Path| place.starts_with(folder) && !place.starts_with("/w/p/.git");
            has_mount_in(&mounts, &[Path::new(folder)])
                && has_mount_alias(&mounts, Path::new("/w/p/.git"), is_in)
        };
        for (twice, folder) in [
            ("31 27 254:0 /w/p/.git/hooks /w/p/out rw - ext4 /dev/vda rw", "/w/p/out"),
            ("31 27 254:0 /w/p/.git /w/p/out/deep rw - ext4 /dev/vda rw", "/w/p/out"),
            ("31 27 254:0 /w /w/p/out rw - ext4 /dev/vda rw", "/w/p"),
        ] {
            assert!(with(twice, folder), "{twice}");
        }
        for (once, folder) in [
            ("", "/w/p"),
            ("31 27 254:0 /w/p/src /w/p/out rw - ext4 /dev/vda rw", "/w/p"),
            ("31 27 254:1 /w/p/.git/hooks /w/p/out rw - ext4 /dev/vdb rw", "/w/p"),
            ("31 27 254:0 /w/p/.git/hooks /w/p/out rw - ext4 /dev/vda rw", "/w/p/src"),
            ("31 27 254:0 /w/p/.git /w/p/.git rw - ext4 /dev/vda rw", "/w/p"),
        ] {
            assert!(!with(once, folder), "{once}");
        }
    }
}
