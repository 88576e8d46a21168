//! The host's handle of an overlay, and the way of the host program itself to where an overlay is in the place of a folder.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::event::Timespec;
use rustix::fs::{
    CWD, Dir, DirEntry, Mode, OFlags, Stat, Timestamps, XattrFlags, fchmod, fchown, fremovexattr, fsetxattr,
    fstat, fstatfs, futimens, openat, readlink,
};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Gid, Uid, chdir, set_dumpable_behavior};
use rustix::thread::CapabilitySet;

use super::server::{Failure, MAX_REPLY_BYTES, Reply, mount};
use crate::linux::fd_passing::receive_message;
use crate::linux::ipc::{self, OverlayFds};
use crate::linux::layers::capabilities;
use crate::linux::machine::machine;
use crate::{FileId, OverlayError, OverlayMount, OverlayRequest, PinnedPath, UpperLack, wait_readable};

/// A folder as a program sees it whose changes go elsewhere.
///
/// It is there as long as this value or an [`OverlayMount`] exists. Its files are those of one file system, for the host program and for
/// all sandboxed ones: each sees at once what another one changes, and they agree on the device and the number (inode) of each file.
#[derive(Debug)]
pub struct Overlay {
    root: OwnedFd,
    server: Arc<OwnedFd>,
    lower: FileId,
}

impl Overlay {
    /// The folder, opened to be read. What is below it can be changed as far as this process may change the lower folder.
    ///
    /// The numbers of its files and folders are not those of the lower ones. They stay the same when the kernel copies a file to change it,
    /// except for a file with several hard links, whose copy has a new number and one name.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// A clone of its mount, attached nowhere, which can be attached once.
    pub fn detached(&self) -> io::Result<OwnedFd> {
        request_clone(&self.server)
    }

    /// For [`FileRules::overlay`](crate::FileRules::overlay): the overlay in the place of its lower folder, which is at this path. If
    /// another folder is there when a program is to start, it does not start.
    pub fn mount_at(&self, path: &Path) -> OverlayMount {
        let target = PinnedPath { file_id: Some(self.lower), ..PinnedPath::from(path) };
        OverlayMount { target, server: Some(Arc::clone(&self.server)) }
    }
}

/// A clone of the overlay for one launch.
pub(crate) fn detached(mount: &OverlayMount) -> io::Result<OwnedFd> {
    let server = mount.server.as_ref().ok_or(io::ErrorKind::InvalidInput)?;
    request_clone(server)
}

/// Receives the clone that is ready, and requests the next one.
fn request_clone(server: &OwnedFd) -> io::Result<OwnedFd> {
    let is_gone = |error: io::Error| io::Error::other(format!("the overlay's process has ended: {error}"));
    rustix::net::send(server, b"x", rustix::net::SendFlags::NOSIGNAL)
        .map_err(|error| is_gone(error.into()))?;
    receive_reply(server).map_err(is_gone)?.map_err(|failure| match failure {
        Failure::Mount(_, errno) => io::Error::from_raw_os_error(errno),
        failure => io::Error::other(format!("{failure:?}")),
    })
}

/// The next descriptor from the server, whichever thread has requested it.
fn receive_reply(server: &OwnedFd) -> io::Result<Result<OwnedFd, Failure>> {
    if !wait_readable(server) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut buffer = vec![0; MAX_REPLY_BYTES];
    let (length, fd) = receive_message(server, &mut buffer)?;
    let bytes = buffer.get(..length).filter(|bytes| !bytes.is_empty()).ok_or(io::ErrorKind::UnexpectedEof)?;
    let (reply, _): (Reply, _) = ipc::decode(bytes)?;
    match reply {
        Ok(()) => Ok(Ok(fd.ok_or(io::ErrorKind::UnexpectedEof)?)),
        Err(failure) => Ok(Err(failure)),
    }
}

/// An overlay that is not mounted yet.
pub(crate) struct PendingOverlay {
    lower: FileId,
    upper_path: PathBuf,
    server: OwnedFd,
    fds: OverlayFds,
}

impl PendingOverlay {
    /// Opens its folders, and checks what a mount would not show.
    pub(crate) fn open(request: OverlayRequest<'_>) -> Result<Self, OverlayError> {
        let OverlayRequest { lower, upper, work } = request;
        let about = fstat(lower).map_err(io::Error::from)?;
        let (server, socket) = ipc::socket_pair()?;
        let fds = OverlayFds {
            socket,
            lower: lower.try_clone_to_owned()?,
            upper: open_folder(upper)?,
            work: open_folder(work)?,
        };
        check_upper(&fds.upper).map_err(|lack| OverlayError::Upper(upper.into(), lack))?;
        if is_empty(&fds.upper)? {
            copy_attributes(&about, &fds.upper);
        }
        Ok(Self { lower: FileId::from_stat(&about), upper_path: upper.into(), server, fds })
    }

    /// Its folders, and the path of that for changes.
    fn into_folders(self) -> (OverlayFds, PathBuf) {
        (self.fds, self.upper_path)
    }

    /// Sends it to the fork server and waits until it is mounted.
    pub(crate) fn mount(
        self,
        submit: impl FnOnce(&OverlayFds) -> io::Result<()>,
    ) -> Result<Overlay, OverlayError> {
        let Self { lower, upper_path, server, fds } = self;
        submit(&fds)?;
        // From here on it hangs up if the server ends.
        drop(fds);
        let root = receive_reply(&server)?.map_err(|failure| explain(failure, upper_path))?;
        Ok(Overlay { root, server: Arc::new(server), lower })
    }
}

fn open_folder(path: &Path) -> Result<OwnedFd, OverlayError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).map_err(|error| OverlayError::Open(path.into(), error.into()))
}

/// What overlayfs refuses with an error that says nothing, or works without and then fails at single changes.
fn check_upper(upper: &OwnedFd) -> Result<(), UpperLack> {
    const OVERLAYFS_MAGIC: i64 = 0x794c_7630;
    const PROBE: &str = "user.metier.probe";
    #[allow(clippy::unnecessary_cast, reason = "the field has other types on other processors")]
    if fstatfs(upper).is_ok_and(|about| about.f_type as i64 == OVERLAYFS_MAGIC) {
        return Err(UpperLack::OnOverlayfs);
    }
    let has_xattrs = fsetxattr(upper, PROBE, b"", XattrFlags::empty());
    fremovexattr(upper, PROBE).ok();
    if has_xattrs == Err(Errno::OPNOTSUPP) { Err(UpperLack::UserXattrs) } else { Ok(()) }
}

fn is_empty(folder: &OwnedFd) -> io::Result<bool> {
    let is_entry = |entry: rustix::io::Result<DirEntry>| {
        entry.map_or(true, |entry| ![c".", c".."].contains(&entry.file_name()))
    };
    Ok(!Dir::read_from(folder)?.any(is_entry))
}

/// The folder that is shown has the attributes of the one for changes: at first those of the lower one, as far as this user can set them.
fn copy_attributes(lower: &Stat, upper: &OwnedFd) {
    fchown(upper, Some(Uid::from_raw(lower.st_uid)), Some(Gid::from_raw(lower.st_gid))).ok();
    fchmod(upper, Mode::from_raw_mode(lower.st_mode)).ok();
    let time = |seconds: i64, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or(0),
    };
    let times = Timestamps {
        last_access: time(lower.st_atime, lower.st_atime_nsec),
        last_modification: time(lower.st_mtime, lower.st_mtime_nsec),
    };
    futimens(upper, &times).ok();
}

fn explain(failure: Failure, upper: PathBuf) -> OverlayError {
    const FIRST_RELEASE: (u32, u32) = (5, 11);
    match failure {
        Failure::Namespaces(errno) => match machine().and_then(|machine| machine.namespace_refusal()) {
            Some(refusal) => OverlayError::Namespaces(refusal),
            None => OverlayError::Start(io::Error::from_raw_os_error(errno)),
        },
        Failure::Replaced(path) => OverlayError::Replaced(path.into()),
        Failure::MountBelow(lower, mount) => OverlayError::MountBelow(lower.into(), mount.into()),
        Failure::NoOverlayfs => OverlayError::NoOverlayfs,
        Failure::Mount(_, libc::ELOOP) => OverlayError::Upper(upper, UpperLack::ContainsLower),
        Failure::Mount(option, errno) => match machine() {
            Some(machine) if machine.version().is_some_and(|version| version < FIRST_RELEASE) => {
                OverlayError::OldKernel(machine.kernel)
            }
            _ => OverlayError::Mount(option, io::Error::from_raw_os_error(errno)),
        },
    }
}

/// Mounts an overlay over its lower folder, for this process and all that it starts from here on: at the path of the folder they find what the
/// overlay shows, whatever they open it by. Nobody else sees it, and it ends with the last of them. What was opened before leads to the folder
/// itself.
///
/// For a program with one thread, soon after its start; in others, and where a namespace cannot be had, it fails. A user who is not root is
/// the same user afterwards, in a user namespace in which files of all others belong to nobody. After an error the process may be in
/// namespaces of its own, without the overlay and without rights there.
pub fn enter_overlay(request: OverlayRequest<'_>) -> Result<(), OverlayError> {
    let user_namespace = || readlink("/proc/self/ns/user", Vec::new()).ok();
    let (before, folder) = (user_namespace(), std::env::current_dir()?);
    let (OverlayFds { lower, upper, work, .. }, upper_path) = PendingOverlay::open(request)?.into_folders();
    let entered = mount(&lower, &upper, &work, CapabilitySet::all());
    // The way into a user namespace leaves it off, and the working directory below the overlay.
    set_dumpable_behavior(DumpableBehavior::Dumpable).ok();
    let returned = chdir(folder);
    // The right to mount was that of the namespace.
    let is_moved = user_namespace() != before;
    let dropped = if is_moved { capabilities::drop_all_except(CapabilitySet::empty()) } else { Ok(()) };
    entered.map_err(|failure| explain(failure, upper_path))?;
    returned.and(dropped).map_err(std::io::Error::from)?;
    Ok(())
}
