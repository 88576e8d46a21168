//! Carries out each `connect` of a script: to sockets of its own, which have a path in a folder of the run or a name in its network, and to
//! addresses of a network that is its own.
//!
//! Neither Landlock nor a filter of system calls tells a socket of the script from a service of the user: the address is in memory, which may
//! change once it was looked at, and so may the socket that a number means. So the filter stops each `connect`, and the supervisor carries
//! it out: it reads the address once, opens a path below a folder of the run without following a link, takes a copy of the socket, and
//! connects that. What was tried in vain is reported.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fcntl_getfl, fstat, openat2, readlink};
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{AddressFamily, SocketAddrUnix, connect, connect_unspec, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::linux::layers::landlock::{open_no_symlinks, open_pinned};
use crate::linux::layers::namespaces::{NamespaceSetup, NetworkIsolation};
use crate::linux::procfs::thread_group;
use crate::linux::sys;
use crate::linux::sys::PendingCall;
use crate::{FailedConnection, FileRules, MAX_FAILED_CONNECTIONS, NetworkAccess};

/// The most connections to sockets with a path or a name in a run. What waits in one that nobody has accepted is not counted as memory: at
/// most 208 KiB each.
const MAX_LOCAL_CONNECTIONS: usize = 1024;
/// The most calls that wait for their connection at a time.
const MAX_WAITING: usize = 256;
/// Bytes of an address: its family, and what belongs to that. Some programs pass as many as any address may have.
const MAX_ADDRESS_BYTES: usize = 128;
/// Of these the family.
const FAMILY_BYTES: usize = 2;
/// Bytes of a path.
const MAX_PATH_BYTES: usize = 108;

/// The connections of one tree.
#[derive(Default)]
pub(super) struct Connections {
    /// Folders of the run, as the script names them.
    folders: Vec<(PathBuf, OwnedFd)>,
    /// Whether the network is that of this run alone, with all names in it.
    has_own_network: bool,
    local_count: usize,
    /// Calls whose connection is being made.
    waiting: Vec<WaitingConnect>,
    failed: BTreeMap<SocketAddr, u64>,
}

/// A call on a socket that blocks, whose connection is not there yet.
struct WaitingConnect {
    call: PendingCall,
    socket: OwnedFd,
    address: SocketAddr,
}

/// What a script connects to.
enum Target {
    Path(PathBuf),
    /// A name in the network, which begins with NUL there.
    Name(Vec<u8>),
    Internet(SocketAddr),
    /// Nothing: the connection of the socket ends.
    Nowhere,
}

/// What a call has come to.
enum Progress {
    Done,
    /// The connection is being made.
    Waiting(OwnedFd, SocketAddr),
}

impl Connections {
    /// Those of a run with these rules. Process ids are looked up in `/proc`, which must be that of the tree.
    pub(super) fn new(
        files: &FileRules,
        network: NetworkAccess,
        namespaces: Option<&NamespaceSetup>,
    ) -> Self {
        let Some(namespaces) = namespaces.filter(|namespaces| namespaces.private_proc) else {
            return Self::default();
        };
        let own = files.socket_dirs.iter().map(|dir| (PathBuf::from(&dir.path), open_pinned(dir)));
        let private = files.private_folders.iter().filter(|folder| files.may_have_sockets(folder));
        let private = private.map(|folder| (PathBuf::from(&folder.path), open_no_symlinks(&folder.path)));
        let folders = own.chain(private).filter_map(|(path, opened)| Some((path, opened.ok()?))).collect();
        let has_own_network =
            network == NetworkAccess::Hosts || namespaces.network == NetworkIsolation::OwnNetns;
        Self { folders, has_own_network, ..Self::default() }
    }

    /// Carries out a `connect` of a process that descends from this one, or refuses it.
    pub(super) fn answer(&mut self, listener: &OwnedFd, call: PendingCall) {
        let errno = match self.connect(listener, &call) {
            Ok(Progress::Done) => 0,
            Ok(Progress::Waiting(socket, address)) => {
                self.waiting.push(WaitingConnect { call, socket, address });
                return;
            }
            Err(errno) => errno.raw_os_error(),
        };
        sys::end_call(listener, &call, errno);
    }

    /// Sockets that are ready when their connection was made, or was refused.
    pub(super) fn poll_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.waiting.iter().map(|waiting| waiting.socket.as_fd())
    }

    /// Ends the calls whose connections are there, or cannot be made.
    pub(super) fn end_ready(&mut self, listener: &OwnedFd) {
        for waiting in std::mem::take(&mut self.waiting) {
            let WaitingConnect { call, socket, address } = waiting;
            match connect_result(&socket) {
                // A thread that got a signal, or is gone, waits no longer.
                None if sys::is_waiting(listener, &call) => {
                    self.waiting.push(WaitingConnect { call, socket, address });
                }
                None => {}
                Some(result) => {
                    self.count_result(address, result);
                    sys::end_call(listener, &call, result.err().map_or(0, Errno::raw_os_error));
                }
            }
        }
    }

    /// Addresses that the script did not reach.
    pub(super) fn into_failed(self) -> Vec<FailedConnection> {
        self.failed.into_iter().map(|(address, count)| FailedConnection { address, count }).collect()
    }

    fn connect(&mut self, listener: &OwnedFd, call: &PendingCall) -> Result<Progress, Errno> {
        let [descriptor, _, length] = call.arguments;
        if descriptor < 0 {
            return Err(Errno::BADF);
        }
        let thread = call.thread.ok_or(Errno::SRCH)?;
        let process = thread_group(thread).ok_or(Errno::SRCH)?;
        let target = read_target(thread, call.pointer, length)?;
        let handle = pidfd_open(process, PidfdFlags::empty())?;
        let socket = pidfd_getfd(handle, descriptor, PidfdGetfdFlags::empty())?;
        // All of it was that thread's as long as the call waits.
        if !sys::is_waiting(listener, call) {
            return Err(Errno::INVAL);
        }
        let domain = sockopt::socket_domain(&socket)?;
        match target {
            Target::Path(_) | Target::Name(_) if domain != AddressFamily::UNIX => Err(Errno::INVAL),
            Target::Path(path) => {
                // What is opened is held until the end: the address leads to it.
                let opened = self.open(thread, &path)?;
                let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", opened.as_raw_fd()))?;
                self.connect_local(&socket, &address)
            }
            Target::Name(name) if self.has_own_network => {
                self.connect_local(&socket, &SocketAddrUnix::new_abstract_name(&name)?)
            }
            Target::Name(_) => Err(Errno::PERM),
            _ if ![AddressFamily::INET, AddressFamily::INET6].contains(&domain) => Err(Errno::INVAL),
            Target::Internet(address) => self.connect_internet(socket, address),
            Target::Nowhere => connect_unspec(&socket).map(|()| Progress::Done),
        }
    }

    fn connect_local(&mut self, socket: &OwnedFd, address: &SocketAddrUnix) -> Result<Progress, Errno> {
        if self.local_count >= MAX_LOCAL_CONNECTIONS {
            return Err(Errno::AGAIN);
        }
        // Who waits for room in the queue of the other side gets `EAGAIN`.
        connect_briefly(socket, address).map_err(|errno| match errno {
            Errno::INTR => Errno::AGAIN,
            other => other,
        })?;
        self.local_count += 1;
        Ok(Progress::Done)
    }

    /// Connects a socket in the network of the script, which leads nowhere else.
    fn connect_internet(&mut self, socket: OwnedFd, address: SocketAddr) -> Result<Progress, Errno> {
        let result = connect_briefly(&socket, &address);
        if !matches!(result, Err(Errno::INPROGRESS | Errno::INTR)) {
            self.count_result(address, result);
            return result.map(|()| Progress::Done);
        }
        if !waits(&socket)? {
            // The script asks the socket itself, which reports its error once.
            if ready_events(&socket).contains(PollFlags::ERR) {
                self.count_result(address, Err(Errno::CONNREFUSED));
            }
            return Err(Errno::INPROGRESS);
        }
        match connect_result(&socket) {
            Some(result) => {
                self.count_result(address, result);
                result.map(|()| Progress::Done)
            }
            None if self.waiting.len() < MAX_WAITING => Ok(Progress::Waiting(socket, address)),
            None => Err(Errno::AGAIN),
        }
    }

    /// An address that is reached at last was not missed: programs try one until a server of their own is up.
    fn count_result(&mut self, address: SocketAddr, result: Result<(), Errno>) {
        match result {
            Ok(()) => drop(self.failed.remove(&address)),
            Err(Errno::CONNREFUSED | Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::TIMEDOUT) => {
                if self.failed.len() < MAX_FAILED_CONNECTIONS || self.failed.contains_key(&address) {
                    *self.failed.entry(address).or_default() += 1;
                }
            }
            Err(_) => {}
        }
    }

    /// The socket at this path, which lies in a folder of the run.
    fn open(&self, thread: Pid, path: &Path) -> Result<OwnedFd, Errno> {
        let whole = if path.is_absolute() { path.to_owned() } else { working_directory(thread)?.join(path) };
        let found = self.open_below(&whole)?;
        let is_socket = FileType::from_raw_mode(fstat(&found)?.st_mode).is_socket();
        if is_socket { Ok(found) } else { Err(Errno::CONNREFUSED) }
    }

    /// What is at this absolute path, which lies in a folder of the run.
    pub(super) fn open_below(&self, whole: &Path) -> Result<OwnedFd, Errno> {
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
        found.map_err(|errno| match errno {
            Errno::XDEV | Errno::LOOP => Errno::PERM,
            other => other,
        })
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
    let (family, rest) = address.split_first_chunk::<FAMILY_BYTES>().ok_or(Errno::INVAL)?;
    match AddressFamily::from_raw(u16::from_ne_bytes(*family)) {
        AddressFamily::UNIX => match rest {
            [] => Err(Errno::INVAL),
            rest if rest.len() > MAX_PATH_BYTES => Err(Errno::INVAL),
            [0, name @ ..] => Ok(Target::Name(name.to_owned())),
            path => {
                let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
                Ok(Target::Path(OsStr::from_bytes(path.get(..end).unwrap_or_default()).into()))
            }
        },
        AddressFamily::INET => internet_address(rest).map(Target::Internet).ok_or(Errno::INVAL),
        AddressFamily::INET6 => internet6_address(rest).map(Target::Internet).ok_or(Errno::INVAL),
        AddressFamily::UNSPEC => Ok(Target::Nowhere),
        _ => Err(Errno::INVAL),
    }
}

/// A port, an address, and eight bytes that mean nothing.
fn internet_address(bytes: &[u8]) -> Option<SocketAddr> {
    const UNUSED_BYTES: usize = 8;
    let (port, rest) = bytes.split_first_chunk()?;
    let (address, rest) = rest.split_first_chunk::<4>()?;
    let address = IpAddr::V4(Ipv4Addr::from(*address));
    (rest.len() >= UNUSED_BYTES).then(|| SocketAddr::new(address, u16::from_be_bytes(*port)))
}

/// A port, what flow it belongs to, an address, and which interface it is of, which old programs leave out.
fn internet6_address(bytes: &[u8]) -> Option<SocketAddr> {
    let (port, rest) = bytes.split_first_chunk()?;
    let (flow, rest) = rest.split_first_chunk()?;
    let (address, rest) = rest.split_first_chunk::<16>()?;
    let scope = rest.first_chunk().map_or(0, |scope| u32::from_ne_bytes(*scope));
    let (address, flow) = (Ipv6Addr::from(*address), u32::from_be_bytes(*flow));
    Some(SocketAddrV6::new(address, u16::from_be_bytes(*port), flow, scope).into())
}

fn working_directory(thread: Pid) -> Result<PathBuf, Errno> {
    let link = readlink(format!("/proc/{}/cwd", thread.as_raw_nonzero()), Vec::new())?;
    Ok(OsStr::from_bytes(link.as_bytes()).into())
}

/// Connects a socket, which is one of the script, too: whether it waits, and how long, the script may change at any moment. What is in the
/// same machine is there at once, and an error that comes after that is left in the socket, for the script.
fn connect_briefly(socket: &OwnedFd, address: &impl SocketAddrArg) -> Result<(), Errno> {
    const TIME: Duration = Duration::from_millis(5);
    sys::interrupt_after(TIME, || connect(socket, address))
}

/// Whether calls on this socket wait for what they are to do.
fn waits(socket: &OwnedFd) -> Result<bool, Errno> {
    Ok(!fcntl_getfl(socket)?.contains(OFlags::NONBLOCK))
}

/// What has come of a connection; `None` if it is still being made.
fn connect_result(socket: &OwnedFd) -> Option<Result<(), Errno>> {
    let is_made = !ready_events(socket).is_empty();
    is_made.then(|| sockopt::socket_error(socket).and_then(|outcome| outcome))
}

fn ready_events(socket: &OwnedFd) -> PollFlags {
    let mut fds = [PollFd::new(socket, PollFlags::OUT)];
    match poll(&mut fds, Some(&Timespec::default())) {
        Ok(_) => fds[0].revents(),
        Err(_) => PollFlags::empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_address_is_a_path_or_a_name() {
        let unix = AddressFamily::UNIX.as_raw().to_ne_bytes();
        let parse = |rest: &[u8]| match parse_target(&[&unix, rest].concat()) {
            Ok(Target::Path(path)) => format!("path {}", path.display()),
            Ok(Target::Name(name)) => format!("name {}", name.escape_ascii()),
            Ok(Target::Internet(address)) => address.to_string(),
            Ok(Target::Nowhere) => "nowhere".into(),
            Err(errno) => format!("{errno:?}"),
        };
        assert_eq!(parse(b"/tmp/x\0rest"), "path /tmp/x");
        assert_eq!(parse(b"x"), "path x");
        assert_eq!(parse(b"\0a\0b"), "name a\\x00b");
        assert!(parse_target(&unix).is_err() && parse_target(&[1]).is_err() && parse_target(b"").is_err());
        assert!(parse_target(&[&unix[..], &[b'x'; MAX_PATH_BYTES + 1]].concat()).is_err());
    }

    #[test]
    fn an_address_of_the_internet_is_read_as_the_kernel_reads_it() {
        let parse = |family: AddressFamily, rest: &[u8]| match parse_target(
            &[&family.as_raw().to_ne_bytes(), rest].concat(),
        ) {
            Ok(Target::Internet(address)) => address.to_string(),
            Ok(Target::Nowhere) => "nowhere".into(),
            Ok(_) => "local".into(),
            Err(errno) => format!("error {}", errno.raw_os_error()),
        };
        let (port, unused) = (443_u16.to_be_bytes(), [0; 8]);
        assert_eq!(parse(AddressFamily::INET, &[&port[..], &[1, 2, 3, 4], &unused].concat()), "1.2.3.4:443");
        assert_eq!(parse(AddressFamily::INET, &[&port[..], &[1, 2, 3, 4]].concat()), "error 22");
        let v6 = [&port[..], &[0; 4], &Ipv6Addr::LOCALHOST.octets()].concat();
        assert_eq!(parse(AddressFamily::INET6, &v6), "[::1]:443");
        assert_eq!(parse(AddressFamily::INET6, &[&v6[..], &7_u32.to_ne_bytes()].concat()), "[::1%7]:443");
        assert_eq!(parse(AddressFamily::INET6, &port), "error 22");
        assert_eq!(parse(AddressFamily::UNSPEC, &[0; 14]), "nowhere");
        assert_eq!(parse(AddressFamily::NETLINK, &[0; 10]), "error 22");
    }
}
