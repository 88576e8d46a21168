//! Overlays: what a host program requests, and why it cannot have one.

use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use crate::{Refusal, SandboxLevel};

/// The folders of an overlay. All three are opened before the overlay is mounted; what comes to their paths later is not used.
#[derive(Clone, Copy, Debug)]
pub struct OverlayRequest<'a> {
    /// The folder that programs see. Nothing is ever written to it.
    pub lower: BorrowedFd<'a>,
    /// The folder for what they change; empty, or from an earlier overlay of the same folder. An empty one gets the mode, the times and, if
    /// this user may give it away, the owner of the lower one: the root that programs see has its attributes. Only this user should be able to enter the
    /// folder around it: what is in it has the owners and modes that the programs chose.
    pub upper: &'a Path,
    /// An empty folder on the same mount as `upper`, which the kernel works in. It serves one overlay, and can be removed like any other
    /// when that is gone.
    pub work: &'a Path,
}

/// Why there is no overlay.
#[derive(Debug)]
#[non_exhaustive]
pub enum OverlayError {
    /// The launcher's sandbox level has no mounts.
    Level(SandboxLevel),
    /// This machine has no namespaces for a process of this user.
    Namespaces(Refusal),
    /// Linux before 5.11, with this release.
    OldKernel(String),
    /// The kernel has no overlayfs.
    NoOverlayfs,
    /// A folder cannot be opened.
    Open(PathBuf, io::Error),
    /// The folder for changes cannot hold any.
    Upper(PathBuf, UpperLack),
    /// The lower folder, and something that is mounted in it, which the overlay would not show.
    MountBelow(PathBuf, PathBuf),
    /// Another folder is at this path than when it was opened.
    Replaced(PathBuf),
    /// The kernel does not accept these folders; the option of overlayfs that it refuses, and the system's error.
    Mount(String, io::Error),
    /// The process that mounts the overlay could not be started or ended early.
    Start(io::Error),
}

/// What a folder for changes lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpperLack {
    /// It is on an overlayfs itself.
    OnOverlayfs,
    /// Its file system has no user attributes.
    UserXattrs,
    /// It contains the lower folder. The reverse is possible: what shows the folder for changes in the overlay cannot be entered.
    ContainsLower,
}

/// File systems that can hold changes.
const SUITABLE: &str =
    "use a folder on another file system, such as ext4, XFS or Btrfs, or tmpfs since Linux 6.6";

impl OverlayError {
    /// The same as sentences: why there is no overlay, and what would help.
    pub fn refusal(&self) -> Refusal {
        let (reason, help) = match self {
            Self::Namespaces(Refusal { reason, help, needs_apparmor_profile }) => {
                return Refusal {
                    reason: format!("an overlay needs namespaces: {reason}"),
                    help: help.clone(),
                    needs_apparmor_profile: *needs_apparmor_profile,
                };
            }
            Self::Level(level) => (
                format!("an overlay needs mounts, which the sandbox level {} does not have", level.name()),
                format!("use the sandbox level {}", SandboxLevel::Namespaces.name()),
            ),
            Self::OldKernel(release) => (
                format!("Linux {release} cannot mount an overlay for this: the option userxattr came with Linux 5.11"),
                "use Linux 5.11 or later".into(),
            ),
            Self::NoOverlayfs => (
                "the kernel has no overlayfs".into(),
                "load its module (`modprobe overlay`, as root), or use a kernel that was built with it (CONFIG_OVERLAY_FS)".into(),
            ),
            Self::Open(path, error) => (
                format!("failed to open {}: {error}", path.display()),
                "create it, as a folder of this user".into(),
            ),
            Self::Upper(path, UpperLack::OnOverlayfs) => (
                format!("{} is on an overlayfs itself, which cannot hold the changes of another one", path.display()),
                SUITABLE.into(),
            ),
            Self::Upper(path, UpperLack::UserXattrs) => (
                format!(
"the file system of {} has no user attributes (xattrs), in which overlayfs notes what was replaced",
path.display()
),
                SUITABLE.into(),
            ),
            Self::Upper(path, UpperLack::ContainsLower) => (
                format!("{} contains the folder that the overlay shows", path.display()),
                "use a folder for changes that is elsewhere".into(),
            ),
            Self::MountBelow(lower, mount) => (
                format!(
"{} is mounted in {}, and an overlay does not show what is mounted in its folder",
mount.display(),
lower.display()
),
                "unmount it, or use a folder in which nothing is mounted".into(),
            ),
            Self::Replaced(path) => (
                format!("another folder is at {} than when it was opened", path.display()),
                "try again when nothing replaces it".into(),
            ),
            Self::Mount(option, error) => (
                format!("overlayfs cannot be mounted here ({option}: {error})"),
                "use folders on a local file system, such as ext4, XFS or Btrfs; the kernel's log may say more".into(),
            ),
            Self::Start(error) => {
                (format!("the process that mounts an overlay did not start: {error}"), "try again".into())
            }
        };
        Refusal { reason, help, needs_apparmor_profile: false }
    }
}

impl fmt::Display for OverlayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal { reason, help, .. } = self.refusal();
        write!(f, "{reason}; {help}")
    }
}

impl Error for OverlayError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Open(_, error) | Self::Mount(_, error) | Self::Start(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for OverlayError {
    fn from(error: io::Error) -> Self {
        Self::Start(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_a_sentence_with_a_way() {
        let namespaces = Refusal {
            reason: "on Linux 6.8.0, AppArmor keeps user namespaces from this program".into(),
            help: "load a profile".into(),
            needs_apparmor_profile: true,
        };
        for (error, expected) in [
            (
                OverlayError::Level(SandboxLevel::Landlock),
                "an overlay needs mounts, which the sandbox level landlock does not have; use the sandbox level namespaces",
            ),
            (
                OverlayError::Namespaces(namespaces),
                "an overlay needs namespaces: on Linux 6.8.0, AppArmor keeps user namespaces from this program; load a profile",
            ),
            (
                OverlayError::OldKernel("5.10.0".into()),
                "Linux 5.10.0 cannot mount an overlay for this: the option userxattr came with Linux 5.11; use Linux 5.11 or later",
            ),
            (
                OverlayError::MountBelow("/p".into(), "/p/cache".into()),
                "/p/cache is mounted in /p, and an overlay does not show what is mounted in its folder; unmount it, or use a folder in \
                 which nothing is mounted",
            ),
            (
                OverlayError::Upper("/u".into(), UpperLack::OnOverlayfs),
                "/u is on an overlayfs itself, which cannot hold the changes of another one; use a folder on another file system, such \
                 as ext4, XFS or Btrfs, or tmpfs since Linux 6.6",
            ),
        ] {
            assert_eq!(error.to_string(), expected);
            let profile = matches!(error, OverlayError::Namespaces(_));
            assert_eq!(error.refusal().needs_apparmor_profile, profile);
        }
    }
}
