//! Requests and descriptors on their way from the host to the process that runs them, and what these processes tell each other, one
//! message each.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::SandboxLevel;
use crate::linux::layers::seccomp::{KernelGaps, SeccompOptions};
use crate::{LaunchRequest, NetworkAccess, Observations, SIGNAL_SCOPE_ABI, SandboxPolicy, TRUNCATION_ABI};

/// The descriptors that go with a request.
pub(crate) struct LaunchFds {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// The script's end of the host API, where it has one.
    pub(crate) api: Option<OwnedFd>,
    /// Hangs up when the tree is to be killed.
    pub(crate) control: OwnedFd,
    /// Receives the report.
    pub(crate) report: OwnedFd,
    /// Receives the sockets of a script that reaches granted hosts only.
    pub(crate) egress: Option<OwnedFd>,
    /// A clone of the script's overlay, attached nowhere.
    pub(crate) overlay: Option<OwnedFd>,
    /// The file to which the observations of a watched run are written before the report.
    pub(crate) observations: Option<OwnedFd>,
}

/// Every request has five descriptors; some have more.
const MIN_FDS: usize = 5;
const MAX_FDS: usize = MIN_FDS + 5;

/// The descriptors that go with the request to mount an overlay.
pub(crate) struct OverlayFds {
    /// The server's end of the socket to the host.
    pub(crate) socket: OwnedFd,
    pub(crate) lower: OwnedFd,
    pub(crate) upper: OwnedFd,
    pub(crate) work: OwnedFd,
}

/// Bytes of a request that fit in a message. Arguments may be larger.
const MAX_INLINE_BYTES: usize = 8 << 10;

/// Maximum bytes of the message header.
const MAX_HEADER_BYTES: usize = 256;

/// What a supervisor must know before it reads its request, to prepare for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxProfile {
    /// The strongest sandbox level to set up.
    pub(crate) level: SandboxLevel,
    /// Which system calls are filtered.
    pub(crate) seccomp: SeccompOptions,
    /// Whether nothing is started if a restriction cannot be set up.
    pub(crate) required: bool,
}

impl SandboxProfile {
    /// That of requests with this policy, at this sandbox level at most.
    pub(crate) fn new(sandbox: &SandboxPolicy, level: SandboxLevel) -> Self {
        let SandboxPolicy { network, allow_flock, allow_local_sockets, required, .. } = *sandbox;
        let is_watched = sandbox.watch.is_some();
        let local_sockets = allow_local_sockets && network != NetworkAccess::Open;
        let gaps = KernelGaps::default();
        let seccomp = SeccompOptions { network, allow_flock, local_sockets, is_watched, gaps };
        Self { level, seccomp, required }
    }

    /// The same at this sandbox level, with a filter for what is missing there on a kernel with this Landlock ABI: mounts protect
    /// files from being truncated, and a PID namespace keeps signals inside.
    pub(crate) fn at_level(self, level: SandboxLevel, landlock_abi: u8) -> Self {
        let is_alone = level != SandboxLevel::Namespaces;
        let gaps = KernelGaps {
            truncation: is_alone && landlock_abi < TRUNCATION_ABI,
            signals: is_alone && landlock_abi < SIGNAL_SCOPE_ABI,
        };
        // Without mounts a script sees the sockets of others, and a sandbox in this one may need to answer calls itself on an older kernel.
        let local_sockets = self.seccomp.local_sockets && !is_alone && landlock_abi >= SIGNAL_SCOPE_ABI;
        Self { level, seccomp: SeccompOptions { local_sockets, gaps, ..self.seccomp }, ..self }
    }

    /// The same where a script can have no network of its own: it then has none, and no other.
    pub(crate) fn without_hosts(self) -> Self {
        let network = match self.seccomp.network {
            NetworkAccess::Hosts => NetworkAccess::Blocked,
            network => network,
        };
        Self { seccomp: SeccompOptions { network, ..self.seccomp }, ..self }
    }
}

/// A request and what goes with it.
pub(crate) struct LaunchMessage {
    /// As the host asks for it.
    pub(crate) requested: SandboxProfile,
    /// What of it this machine supports.
    pub(crate) profile: SandboxProfile,
    /// The process limit that each process inherits, which is known once its namespaces are set up.
    pub(crate) nproc_rlimit: Option<u64>,
    pub(crate) request: EncodedRequest,
    pub(crate) fds: LaunchFds,
    /// Whether the machine supports a stronger sandbox than this, which could not be set up.
    pub(crate) is_downgraded: bool,
}

/// A request, not decoded yet. It goes in the message, or lies in a file in memory.
pub(crate) enum EncodedRequest {
    Inline(Vec<u8>),
    Memfd(File),
}

/// The header of a message. Only processes of the same release understand each other.
#[derive(Serialize, Deserialize)]
struct MessageHeader<'a> {
    release: &'a str,
    content: MessageContent,
}

/// What a message is about.
#[derive(Serialize, Deserialize)]
enum MessageContent {
    Launch(LaunchHeader),
    /// A request that a standby has accepted.
    Accepted(LaunchHeader),
    Prepare(SandboxProfile, Option<u64>),
    MountOverlay,
    Shutdown,
}

/// The header of a request; a short request follows it.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "each says what comes with the message")]
struct LaunchHeader {
    profile: SandboxProfile,
    nproc_rlimit: Option<u64>,
    is_inline: bool,
    has_api: bool,
    has_egress: bool,
    has_overlay: bool,
    has_observations: bool,
}

const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Encodes a value for another process of the sandbox.
pub(crate) fn encode(value: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(io::Error::other)
}

/// Decodes the value at the start of these bytes, and returns the bytes after it.
pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> io::Result<(T, &'a [u8])> {
    postcard::take_from_bytes(bytes).map_err(io::Error::other)
}

/// Both ends of a socket for messages.
pub(crate) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// A received message.
pub(crate) enum Message {
    /// To run this.
    Launch(Box<LaunchMessage>),
    /// That a request with this profile and this process limit is about to come.
    Prepare(SandboxProfile, Option<u64>),
    /// To mount an overlay of these folders, and to serve it.
    MountOverlay(OverlayFds),
    /// That a standby has accepted this request; `None` if this process has too many descriptors to receive it.
    Accepted(Option<Box<LaunchMessage>>),
    /// That nothing more is to be run.
    Shutdown,
    /// The sender is gone.
    Disconnected,
}

impl LaunchMessage {
    /// Encodes a request, at this sandbox level at most.
    pub(crate) fn new(request: &LaunchRequest, level: SandboxLevel, fds: LaunchFds) -> io::Result<Self> {
        let requested = SandboxProfile::new(&request.sandbox, level);
        Ok(Self {
            requested,
            profile: requested,
            nproc_rlimit: None,
            request: EncodedRequest::encode(request)?,
            fds,
            is_downgraded: false,
        })
    }
}

impl EncodedRequest {
    fn encode(request: &LaunchRequest) -> io::Result<Self> {
        let bytes = encode(request)?;
        if bytes.len() <= MAX_INLINE_BYTES {
            return Ok(Self::Inline(bytes));
        }
        let mut file = anonymous_file()?;
        file.write_all(&bytes)?;
        Ok(Self::Memfd(file))
    }

    /// Decodes the request. Others read the same file, so its position is not used.
    pub(crate) fn decode(&self) -> io::Result<LaunchRequest> {
        match self {
            Self::Inline(bytes) => Ok(decode(bytes)?.0),
            Self::Memfd(file) => {
                let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(0)];
                file.read_exact_at(&mut bytes, 0)?;
                Ok(decode(&bytes)?.0)
            }
        }
    }

    /// The request if it went in a message.
    pub(crate) fn into_inline(self) -> Option<Self> {
        matches!(self, Self::Inline(_)).then_some(self)
    }

    /// The same request, to be read later.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Inline(bytes) => Self::Inline(bytes.clone()),
            Self::Memfd(file) => Self::Memfd(file.try_clone()?),
        })
    }
}

/// A file without a name, in memory if supported: not for a host that a script started in its sandbox.
pub(crate) fn anonymous_file() -> io::Result<File> {
    let created = match memfd_create("metier-request", MemfdFlags::CLOEXEC) {
        Err(Errno::NOSYS) => {
            let flags = OFlags::TMPFILE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
            open(std::env::temp_dir(), flags, Mode::RUSR | Mode::WUSR)
        }
        created => created,
    };
    Ok(File::from(created?))
}

/// What a supervisor has observed, from the file that it was given; `None` if it has observed nothing.
pub(crate) fn read_observations(file: &File) -> Option<Observations> {
    // Longer than any that a supervisor writes.
    const MAX_BYTES: u64 = 2 << 20;
    let length = file.metadata().ok()?.len();
    let mut bytes = vec![0; usize::try_from(length).ok().filter(|_| length <= MAX_BYTES)?];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Some(decode(&bytes).ok()?.0)
}

/// Tells the host that the request belongs to this process, and must not be given to another one. Whether the host has learnt it.
pub(crate) fn send_taken(socket: &OwnedFd) -> bool {
    rustix::io::write(socket, b"taken").is_ok()
}

/// Announces that no more requests come.
pub(crate) fn send_shutdown(socket: &OwnedFd) {
    // If this is lost, the socket still hangs up.
    send_announcement(socket, MessageContent::Shutdown);
}

/// Announces that a request with this profile and this process limit is about to come.
pub(crate) fn send_prepare(socket: &OwnedFd, profile: SandboxProfile, process_limit: Option<u64>) {
    // If this is lost, the request takes longer.
    send_announcement(socket, MessageContent::Prepare(profile, process_limit));
}

fn send_announcement(socket: &OwnedFd, content: MessageContent) {
    if let Ok(header) = encode(&MessageHeader { release: RELEASE, content }) {
        rustix::net::send(socket, &header, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).ok();
    }
}

/// Sends the request to mount an overlay.
pub(crate) fn send_mount_overlay(socket: &OwnedFd, fds: &OverlayFds) -> io::Result<()> {
    let header = encode(&MessageHeader { release: RELEASE, content: MessageContent::MountOverlay })?;
    let OverlayFds { socket: server, lower, upper, work } = fds;
    send_with_fds(socket, &[IoSlice::new(&header)], &[server, lower, upper, work].map(AsFd::as_fd))
}

/// Sends a request.
pub(crate) fn send_launch(socket: &OwnedFd, message: &LaunchMessage) -> io::Result<()> {
    send_request(socket, message, MessageContent::Launch)
}

/// Sends a copy of a request that this process, a standby, has accepted.
pub(crate) fn send_accepted(socket: &OwnedFd, message: &LaunchMessage) -> io::Result<()> {
    send_request(socket, message, MessageContent::Accepted)
}

fn send_request(
    socket: &OwnedFd,
    message: &LaunchMessage,
    content: impl FnOnce(LaunchHeader) -> MessageContent,
) -> io::Result<()> {
    let LaunchMessage { profile, nproc_rlimit, request, fds, .. } = message;
    let (short, long) = match request {
        EncodedRequest::Inline(bytes) => (bytes.as_slice(), None),
        EncodedRequest::Memfd(file) => (&[][..], Some(file.as_fd())),
    };
    let [api, egress, overlay, observations] =
        [&fds.api, &fds.egress, &fds.overlay, &fds.observations].map(|fd| fd.as_ref().map(AsFd::as_fd));
    let launch = LaunchHeader {
        profile: *profile,
        nproc_rlimit: *nproc_rlimit,
        is_inline: long.is_none(),
        has_api: api.is_some(),
        has_egress: egress.is_some(),
        has_overlay: overlay.is_some(),
        has_observations: observations.is_some(),
    };
    let header = encode(&MessageHeader { release: RELEASE, content: content(launch) })?;
    let always = [&fds.stdin, &fds.stdout, &fds.stderr, &fds.control, &fds.report].map(AsFd::as_fd);
    let optional = long.into_iter().chain(api).chain(egress).chain(overlay).chain(observations);
    let all: Vec<BorrowedFd<'_>> = always.into_iter().chain(optional).collect();
    send_with_fds(socket, &[IoSlice::new(&header), IoSlice::new(short)], &all)
}

fn send_with_fds(socket: &OwnedFd, buffers: &[IoSlice<'_>], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::NOMEM);
        }
        retry_on_intr(|| sendmsg(socket, buffers, &mut ancillary, SendFlags::NOSIGNAL))
    };
    match send() {
        Err(Errno::TOOMANYREFS) => with_max_open_files(send)?,
        done => done?,
    };
    Ok(())
}

/// Does this while this process may have as many descriptors as its hard limit allows. All programs of a user share one number
/// of descriptors in transit through sockets; the process with a low limit is the first to be refused when many are left there.
fn with_max_open_files<T>(work: impl FnOnce() -> T) -> T {
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before }).ok();
    let done = work();
    setrlimit(Resource::Nofile, before).ok();
    done
}

/// The next message. `Unsupported` if another release sent it, `InvalidData` if some of its descriptors are missing.
pub(crate) fn receive(socket: &OwnedFd) -> io::Result<Message> {
    let mut buffer = vec![0; MAX_HEADER_BYTES + MAX_INLINE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut slices = [IoSliceMut::new(&mut buffer)];
        match recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    buffer.truncate(received.bytes);
    if buffer.is_empty() {
        return Ok(Message::Disconnected);
    }
    let other = |_| io::Error::from(io::ErrorKind::Unsupported);
    let (MessageHeader { release, content }, rest) = decode(&buffer).map_err(other)?;
    if release != RELEASE {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let mut rights = rights.flatten();
    let mut next = || rights.next().ok_or(io::ErrorKind::InvalidData);
    let is_accepted = matches!(content, MessageContent::Accepted(_));
    let header = match content {
        MessageContent::Launch(launch) | MessageContent::Accepted(launch) => launch,
        MessageContent::Prepare(profile, process_limit) => {
            return Ok(Message::Prepare(profile, process_limit));
        }
        MessageContent::MountOverlay => {
            let (socket, lower, upper, work) = (next()?, next()?, next()?, next()?);
            return Ok(Message::MountOverlay(OverlayFds { socket, lower, upper, work }));
        }
        MessageContent::Shutdown => return Ok(Message::Shutdown),
    };
    match receive_launch(header, rest, next) {
        Ok(message) if is_accepted => Ok(Message::Accepted(Some(message))),
        Ok(message) => Ok(Message::Launch(message)),
        Err(_) if is_accepted => Ok(Message::Accepted(None)),
        Err(missing) => Err(missing.into()),
    }
}

/// The request of a header, with what follows it in the message and the descriptors that came with it.
fn receive_launch(
    header: LaunchHeader,
    rest: &[u8],
    mut next: impl FnMut() -> Result<OwnedFd, io::ErrorKind>,
) -> Result<Box<LaunchMessage>, io::ErrorKind> {
    let LaunchHeader { profile, nproc_rlimit, is_inline, .. } = header;
    let LaunchHeader { has_api, has_egress, has_overlay, has_observations, .. } = header;
    let (stdin, stdout, stderr) = (next()?, next()?, next()?);
    let (control, report) = (next()?, next()?);
    let request =
        if is_inline { EncodedRequest::Inline(rest.to_vec()) } else { EncodedRequest::Memfd(next()?.into()) };
    let api = has_api.then(&mut next).transpose()?;
    let egress = has_egress.then(&mut next).transpose()?;
    let overlay = has_overlay.then(&mut next).transpose()?;
    let observations = has_observations.then(&mut next).transpose()?;
    let fds = LaunchFds { stdin, stdout, stderr, api, control, report, egress, overlay, observations };
    Ok(Box::new(LaunchMessage {
        requested: profile,
        profile,
        nproc_rlimit,
        request,
        fds,
        is_downgraded: false,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dev_null() -> OwnedFd {
        File::open("/dev/null").unwrap().into()
    }

    fn request(argument: usize) -> LaunchRequest {
        LaunchRequest {
            program: "/bin/true".into(),
            args: vec!["x".repeat(argument).into()],
            environment: Vec::new(),
            folder: "/".into(),
            sandbox: SandboxPolicy::default(),
            cleanup_dirs: Vec::new(),
            timeout_ms: 0,
        }
    }

    #[test]
    fn announcements_arrive() {
        let (ours, theirs) = socket_pair().unwrap();
        let profile = SandboxProfile::new(&SandboxPolicy::default(), SandboxLevel::Namespaces);
        send_prepare(&ours, profile, Some(7));
        send_shutdown(&ours);
        let received = receive(&theirs).unwrap();
        assert!(matches!(received, Message::Prepare(known, Some(7)) if known == profile));
        assert!(matches!(receive(&theirs).unwrap(), Message::Shutdown));
    }

    #[test]
    fn a_request_arrives_however_long_it_is_with_all_that_goes_with_it() {
        let (ours, theirs) = socket_pair().unwrap();
        for argument in [0, MAX_INLINE_BYTES - 100, MAX_INLINE_BYTES, MAX_INLINE_BYTES + 1, 1 << 20] {
            for has_api in [false, true] {
                let (report, report_write) = io::pipe().unwrap();
                let fds = LaunchFds {
                    stdin: dev_null(),
                    stdout: dev_null(),
                    stderr: dev_null(),
                    api: has_api.then(dev_null),
                    control: dev_null(),
                    report: report_write.into(),
                    egress: has_api.then(dev_null),
                    overlay: has_api.then(dev_null),
                    observations: has_api.then(dev_null),
                };
                let request = request(argument);
                send_launch(&ours, &LaunchMessage::new(&request, SandboxLevel::Landlock, fds).unwrap())
                    .unwrap();
                let Message::Launch(message) = receive(&theirs).unwrap() else { panic!("{argument}") };
                assert_eq!(message.request.decode().unwrap().args, request.args, "{argument}");
                assert_eq!(message.fds.api.is_some(), has_api);
                assert_eq!(message.fds.egress.is_some(), has_api);
                assert_eq!(message.fds.overlay.is_some(), has_api);
                assert_eq!(message.fds.observations.is_some(), has_api);
                send_accepted(&ours, &message).unwrap();
                let Message::Accepted(Some(copy)) = receive(&theirs).unwrap() else { panic!("{argument}") };
                assert_eq!(copy.request.decode().unwrap().args, request.args, "{argument}");
                File::from(message.fds.report).write_all(b"x").unwrap();
                assert_eq!(rustix::io::read(&report, &mut [0; 8]), Ok(1));
            }
        }
    }

    #[test]
    fn messages_of_other_releases_are_not_understood() {
        let (ours, theirs) = socket_pair().unwrap();
        let other =
            encode(&MessageHeader { release: "0.0.0-other", content: MessageContent::Shutdown }).unwrap();
        for message in
            [other.as_slice(), br#"{"Run":{}}"#, br#""Farewell""#, b"\0", b"\xff\xff\xff\xff\xff\xff"]
        {
            rustix::net::send(&ours, message, SendFlags::empty()).unwrap();
            let error = receive(&theirs).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{}", message.escape_ascii());
        }
        send_shutdown(&ours);
        assert!(matches!(receive(&theirs), Ok(Message::Shutdown)));
        drop(ours);
        assert!(matches!(receive(&theirs), Ok(Message::Disconnected)));
    }
}
