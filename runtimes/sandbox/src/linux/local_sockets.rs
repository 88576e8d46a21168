//! Connects the sockets of a script to others of its own, which have a path in a folder of the run or a name in its network.
//!
//! Neither Landlock nor a filter of system calls tells a socket of the script from a service of the user: the path is in memory, which may
//! change once it was looked at. So the filter stops each `connect`, and the supervisor carries it out: it reads the address once, opens
//! the path below a folder of the run without following a link, takes a copy of the socket, and connects that to what it has opened.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fcntl_getfl, fcntl_setfl, fstat, openat2, readlink};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, connect, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::linux::layers::landlock::{open_no_symlinks, open_pinned};
use crate::linux::layers::namespaces::{NamespaceSetup, NetworkIsolation};
use crate::linux::procfs::thread_group;
use crate::linux::sys;
use crate::linux::sys::PendingCall;
use crate::{FileRules, PRIVATE_TMP};

/// The most connections of a run. What waits in one that nobody has accepted is not counted as memory: at most 208 KiB each.
const MAX_CONNECTIONS: usize = 1024;
/// Bytes of an address: its family, and a path of 108.
const MAX_ADDRESS_BYTES: usize = 110;
/// Of these the family.
const FAMILY_BYTES: usize = 2;

/// The sockets of one tree.
#[derive(Default)]
pub(super) struct LocalSockets {
    /// Folders of the run, as the script names them.
    folders: Vec<(PathBuf, OwnedFd)>,
    /// Whether the network is that of this run alone, with all names in it.
    has_own_network: bool,
    connections: usize,
}

/// What a script connects to.
enum Target {
    Path(PathBuf),
    /// A name in the network, which begins with NUL there.
    Name(Vec<u8>),
}

impl LocalSockets {
    /// Those of a run with these rules. Process ids are looked up in `/proc`, which must be that of the tree.
    pub(super) fn new(files: &FileRules, namespaces: Option<&NamespaceSetup>) -> Self {
        let Some(namespaces) = namespaces.filter(|namespaces| namespaces.private_proc) else {
            return Self::default();
        };
        let own = files.socket_dirs.iter().map(|dir| (PathBuf::from(&dir.path), open_pinned(dir)));
        let tmp =
            files.private_tmp.iter().map(|_| (PRIVATE_TMP.into(), open_no_symlinks(PRIVATE_TMP.as_ref())));
        let folders = own.chain(tmp).filter_map(|(path, opened)| Some((path, opened.ok()?))).collect();
        Self { folders, has_own_network: namespaces.network == NetworkIsolation::OwnNetns, connections: 0 }
    }

    /// Carries out a `connect` of a process that descends from this one, or refuses it.
    pub(super) fn answer(&mut self, listener: &OwnedFd, call: &PendingCall) {
        let errno = match self.connect(listener, call) {
            Ok(()) => 0,
            Err(errno) => errno.raw_os_error(),
        };
        sys::end_call(listener, call, errno);
    }

    fn connect(&mut self, listener: &OwnedFd, call: &PendingCall) -> Result<(), Errno> {
        let [descriptor, _, length] = call.arguments;
        if descriptor < 0 {
            return Err(Errno::BADF);
        }
        let thread = call.thread.ok_or(Errno::SRCH)?;
        let process = thread_group(thread).ok_or(Errno::SRCH)?;
        // What is opened is held until the end: the address leads to it.
        let (_opened, address) = match read_target(thread, call.pointer, length)? {
            Target::Path(path) => {
                let opened = self.open(thread, &path)?;
                let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", opened.as_raw_fd()))?;
                (Some(opened), address)
            }
            Target::Name(name) if self.has_own_network => (None, SocketAddrUnix::new_abstract_name(&name)?),
            Target::Name(_) => return Err(Errno::PERM),
        };
        let handle = pidfd_open(process, PidfdFlags::empty())?;
        let socket = pidfd_getfd(handle, descriptor, PidfdGetfdFlags::empty())?;
        // All of it was that thread's as long as the call waits.
        if !sys::is_waiting(listener, call) || sockopt::socket_domain(&socket)? != AddressFamily::UNIX {
            return Err(Errno::INVAL);
        }
        if self.connections >= MAX_CONNECTIONS {
            return Err(Errno::AGAIN);
        }
        connect_without_waiting(&socket, &address)?;
        self.connections += 1;
        Ok(())
    }

    /// The socket at this path, which lies in a folder of the run.
    fn open(&self, thread: Pid, path: &Path) -> Result<OwnedFd, Errno> {
        let whole = if path.is_absolute() { path.to_owned() } else { working_directory(thread)?.join(path) };
        let below = self
            .folders
            .iter()
            .filter_map(|(folder, opened)| Some((whole.strip_prefix(folder).ok()?, opened)));
        let (rest, folder) = below.min_by_key(|(rest, _)| rest.components().count()).ok_or(Errno::PERM)?;
        let beneath = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        let found = openat2(folder, rest, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), beneath);
        let found = found.map_err(|errno| match errno {
            Errno::XDEV | Errno::LOOP => Errno::PERM,
            other => other,
        })?;
        let is_socket = FileType::from_raw_mode(fstat(&found)?.st_mode).is_socket();
        if is_socket { Ok(found) } else { Err(Errno::CONNREFUSED) }
    }
}

/// The address in the memory of this thread.
fn read_target(thread: Pid, pointer: u64, length: i32) -> Result<Target, Errno> {
    let length = usize::try_from(length).map_err(|_| Errno::INVAL)?;
    if !(FAMILY_BYTES..=MAX_ADDRESS_BYTES).contains(&length) {
        return Err(Errno::INVAL);
    }
    let memory = File::open(format!("/proc/{}/mem", thread.as_raw_nonzero())).map_err(|_| Errno::PERM)?;
    let mut bytes = [0; MAX_ADDRESS_BYTES];
    let address = bytes.get_mut(..length).ok_or(Errno::INVAL)?;
    memory.read_exact_at(address, pointer).map_err(|_| Errno::FAULT)?;
    parse_target(address)
}

fn parse_target(address: &[u8]) -> Result<Target, Errno> {
    let (family, rest) = address.split_at_checked(FAMILY_BYTES).ok_or(Errno::INVAL)?;
    if *family != AddressFamily::UNIX.as_raw().to_ne_bytes() {
        return Err(Errno::INVAL);
    }
    match rest {
        [] => Err(Errno::INVAL),
        [0, name @ ..] => Ok(Target::Name(name.to_owned())),
        path => {
            let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
            Ok(Target::Path(OsStr::from_bytes(path.get(..end).unwrap_or_default()).into()))
        }
    }
}

fn working_directory(thread: Pid) -> Result<PathBuf, Errno> {
    let link = readlink(format!("/proc/{}/cwd", thread.as_raw_nonzero()), Vec::new())?;
    Ok(OsStr::from_bytes(link.as_bytes()).into())
}

/// Connects without waiting for room in the queue of the other side, in which the supervisor would hang: who waits gets `EAGAIN`.
fn connect_without_waiting(socket: &OwnedFd, address: &SocketAddrUnix) -> Result<(), Errno> {
    let flags = fcntl_getfl(socket.as_fd())?;
    fcntl_setfl(socket.as_fd(), flags | OFlags::NONBLOCK)?;
    let connected = connect(socket, address);
    if !flags.contains(OFlags::NONBLOCK) {
        fcntl_setfl(socket.as_fd(), flags)?;
    }
    connected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_path_or_a_name_and_nothing_else() {
        let unix = AddressFamily::UNIX.as_raw().to_ne_bytes();
        let parse = |rest: &[u8]| match parse_target(&[&unix, rest].concat()) {
            Ok(Target::Path(path)) => format!("path {}", path.display()),
            Ok(Target::Name(name)) => format!("name {}", name.escape_ascii()),
            Err(errno) => format!("{errno:?}"),
        };
        assert_eq!(parse(b"/tmp/x\0rest"), "path /tmp/x");
        assert_eq!(parse(b"x"), "path x");
        assert_eq!(parse(b"\0a\0b"), "name a\\x00b");
        assert!(parse_target(&unix).is_err() && parse_target(&[1]).is_err() && parse_target(b"").is_err());
        let internet = AddressFamily::INET.as_raw().to_ne_bytes();
        assert!(parse_target(&[&internet[..], b"/tmp/x"].concat()).is_err());
    }
}
