//! Requests and descriptors on their way from the host to the fork server, and from there to a supervisor, one message each.

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

use crate::policy::SandboxLevel;
use crate::runtimes::sandbox::linux::layers::seccomp::SeccompOptions;
use crate::runtimes::sandbox::{LaunchRequest, SandboxPolicy};

/// The descriptors that go with a request.
pub(in crate::runtimes::sandbox::linux) struct LaunchFds {
    pub(in crate::runtimes::sandbox::linux) stdin: OwnedFd,
    pub(in crate::runtimes::sandbox::linux) stdout: OwnedFd,
    pub(in crate::runtimes::sandbox::linux) stderr: OwnedFd,
    /// The script's end of the host API, where it has one.
    pub(in crate::runtimes::sandbox::linux) api: Option<OwnedFd>,
    /// Hangs up when the tree is to be killed.
    pub(in crate::runtimes::sandbox::linux) control: OwnedFd,
    /// Receives the report.
    pub(in crate::runtimes::sandbox::linux) report: OwnedFd,
}

/// Every request has five descriptors; some have more.
const MIN_FDS: usize = 5;
const MAX_FDS: usize = MIN_FDS + 2;

/// Bytes of a request that fit in a message. Arguments may be larger.
const MAX_INLINE_BYTES: usize = 8 << 10;

/// Maximum bytes of the message header.
const MAX_HEADER_BYTES: usize = 256;

/// What a supervisor must know before it reads its request, to prepare for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::runtimes::sandbox::linux) struct SandboxProfile {
    /// The strongest sandbox level to set up.
    pub(in crate::runtimes::sandbox::linux) level: SandboxLevel,
    /// Which system calls are filtered.
    pub(in crate::runtimes::sandbox::linux) seccomp: SeccompOptions,
    /// Whether system calls are filtered.
    pub(in crate::runtimes::sandbox::linux) filter_syscalls: bool,
    /// Whether nothing is started if a restriction cannot be set up.
    pub(in crate::runtimes::sandbox::linux) required: bool,
}

/// A request and what goes with it.
pub(in crate::runtimes::sandbox::linux) struct LaunchMessage {
    pub(in crate::runtimes::sandbox::linux) profile: SandboxProfile,
    /// The process limit that each process inherits, which is known once its namespaces are set up.
    pub(in crate::runtimes::sandbox::linux) nproc_rlimit: Option<u64>,
    pub(in crate::runtimes::sandbox::linux) request: EncodedRequest,
    pub(in crate::runtimes::sandbox::linux) fds: LaunchFds,
    /// Whether the machine supports a stronger sandbox than this, which could not be set up.
    pub(in crate::runtimes::sandbox::linux) is_downgraded: bool,
}

/// A request, not decoded yet. It goes in the message, or lies in a file in memory.
pub(in crate::runtimes::sandbox::linux) enum EncodedRequest {
    Inline(Vec<u8>),
    Memfd(File),
}

/// The header of a message. Only processes of the same release understand each other.
#[derive(Serialize, Deserialize)]
struct MessageHeader<'a> {
    release: &'a str,
    /// `None` when no more requests come.
    launch: Option<LaunchHeader>,
}

/// The header of a request; a short request follows it.
#[derive(Serialize, Deserialize)]
struct LaunchHeader {
    profile: SandboxProfile,
    nproc_rlimit: Option<u64>,
    is_inline: bool,
    has_api: bool,
}

const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Encodes a value for another process of the sandbox.
pub(in crate::runtimes::sandbox::linux) fn encode(value: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(io::Error::other)
}

/// Decodes the value at the start of these bytes, and returns the bytes after it.
pub(in crate::runtimes::sandbox::linux) fn decode<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
) -> io::Result<(T, &'a [u8])> {
    postcard::take_from_bytes(bytes).map_err(io::Error::other)
}

/// Both ends of a socket for messages.
pub(in crate::runtimes::sandbox::linux) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// A received message.
pub(in crate::runtimes::sandbox::linux) enum Message {
    /// To run this.
    Launch(Box<LaunchMessage>),
    /// That nothing more is to be run.
    Shutdown,
    /// The sender is gone.
    Disconnected,
}

impl LaunchMessage {
    /// Encodes a request, at this sandbox level at most.
    pub(in crate::runtimes::sandbox::linux) fn new(
        order: &LaunchRequest,
        tier: SandboxLevel,
        ends: LaunchFds,
    ) -> io::Result<Self> {
        // Without file rules nothing keeps signals inside.
        let tier = if order.sandbox.files.is_some() { tier } else { SandboxLevel::LandlockUnscoped };
        let SandboxPolicy {
            block_network: shut_network,
            allow_flock: may_lock,
            filter_syscalls: guard_calls,
            required,
            ..
        } = order.sandbox;
        let kind = SandboxProfile {
            level: tier,
            seccomp: SeccompOptions { block_network: shut_network, allow_flock: may_lock },
            filter_syscalls: guard_calls,
            required,
        };
        Ok(Self {
            profile: kind,
            nproc_rlimit: None,
            request: EncodedRequest::encode(order)?,
            fds: ends,
            is_downgraded: false,
        })
    }
}

impl EncodedRequest {
    fn encode(order: &LaunchRequest) -> io::Result<Self> {
        let text = encode(order)?;
        if text.len() <= MAX_INLINE_BYTES {
            return Ok(Self::Inline(text));
        }
        let mut file = Self::anonymous_file()?;
        file.write_all(&text)?;
        Ok(Self::Memfd(file))
    }

    /// A file without a name, in memory if supported: not for a host that a script started in its sandbox.
    fn anonymous_file() -> io::Result<File> {
        let made = match memfd_create("metier-order", MemfdFlags::CLOEXEC) {
            Err(Errno::NOSYS) => {
                let flags = OFlags::TMPFILE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
                open(std::env::temp_dir(), flags, Mode::RUSR | Mode::WUSR)
            }
            made => made,
        };
        Ok(File::from(made?))
    }

    /// Decodes the request. Others read the same file, so its position is not used.
    pub(in crate::runtimes::sandbox::linux) fn decode(&self) -> io::Result<LaunchRequest> {
        match self {
            Self::Inline(text) => Ok(decode(text)?.0),
            Self::Memfd(file) => {
                let mut text = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(0)];
                file.read_exact_at(&mut text, 0)?;
                Ok(decode(&text)?.0)
            }
        }
    }

    /// The same request, to be read later.
    pub(in crate::runtimes::sandbox::linux) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Inline(text) => Self::Inline(text.clone()),
            Self::Memfd(file) => Self::Memfd(file.try_clone()?),
        })
    }
}

/// Announces that no more requests come.
pub(in crate::runtimes::sandbox::linux) fn send_shutdown(socket: &OwnedFd) {
    // If this is lost, the socket still hangs up.
    if let Ok(word) = encode(&MessageHeader { release: RELEASE, launch: None }) {
        rustix::net::send(socket, &word, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).ok();
    }
}

/// Sends a request.
pub(in crate::runtimes::sandbox::linux) fn send_launch(
    socket: &OwnedFd,
    parcel: &LaunchMessage,
) -> io::Result<()> {
    let LaunchMessage { profile: kind, nproc_rlimit: process_limit, request: text, fds: ends, .. } = parcel;
    let (short, long) = match text {
        EncodedRequest::Inline(text) => (text.as_slice(), None),
        EncodedRequest::Memfd(file) => (&[][..], Some(file.as_fd())),
    };
    let api = ends.api.as_ref().map(AsFd::as_fd);
    let run = LaunchHeader {
        profile: *kind,
        nproc_rlimit: *process_limit,
        is_inline: long.is_none(),
        has_api: api.is_some(),
    };
    let word = encode(&MessageHeader { release: RELEASE, launch: Some(run) })?;
    let always = [&ends.stdin, &ends.stdout, &ends.stderr, &ends.control, &ends.report].map(AsFd::as_fd);
    let all: Vec<BorrowedFd<'_>> = always.into_iter().chain(long).chain(api).collect();
    let message = [IoSlice::new(&word), IoSlice::new(short)];
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&all)) {
            return Err(Errno::NOMEM);
        }
        retry_on_intr(|| sendmsg(socket, &message, &mut ancillary, SendFlags::NOSIGNAL))
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
pub(in crate::runtimes::sandbox::linux) fn receive(socket: &OwnedFd) -> io::Result<Message> {
    let mut message = vec![0; MAX_HEADER_BYTES + MAX_INLINE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut place = [IoSliceMut::new(&mut message)];
        match recvmsg(socket, &mut place, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    message.truncate(received.bytes);
    if message.is_empty() {
        return Ok(Message::Disconnected);
    }
    let other = |_| io::Error::from(io::ErrorKind::Unsupported);
    let (MessageHeader { release, launch: run }, behind) = decode(&message).map_err(other)?;
    if release != RELEASE {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let Some(LaunchHeader { profile: kind, nproc_rlimit: process_limit, is_inline: is_short, has_api }) = run
    else {
        return Ok(Message::Shutdown);
    };
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let mut rights = rights.flatten();
    let mut next = || rights.next().ok_or(io::ErrorKind::InvalidData);
    let (stdin, stdout, stderr) = (next()?, next()?, next()?);
    let (control, report) = (next()?, next()?);
    let text = if is_short {
        EncodedRequest::Inline(behind.to_vec())
    } else {
        EncodedRequest::Memfd(next()?.into())
    };
    let api = has_api.then(next).transpose()?;
    let ends = LaunchFds { stdin, stdout, stderr, api, control, report };
    Ok(Message::Launch(Box::new(LaunchMessage {
        profile: kind,
        nproc_rlimit: process_limit,
        request: text,
        fds: ends,
        is_downgraded: false,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere() -> OwnedFd {
        File::open("/dev/null").unwrap().into()
    }

    fn order(argument: usize) -> LaunchRequest {
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
    fn an_order_arrives_however_long_it_is_with_all_that_goes_with_it() {
        let (ours, theirs) = socket_pair().unwrap();
        for argument in [0, MAX_INLINE_BYTES - 100, MAX_INLINE_BYTES, MAX_INLINE_BYTES + 1, 1 << 20] {
            for has_api in [false, true] {
                let (report, says) = io::pipe().unwrap();
                let ends = LaunchFds {
                    stdin: nowhere(),
                    stdout: nowhere(),
                    stderr: nowhere(),
                    api: has_api.then(nowhere),
                    control: nowhere(),
                    report: says.into(),
                };
                let order = order(argument);
                send_launch(&ours, &LaunchMessage::new(&order, SandboxLevel::Landlock, ends).unwrap())
                    .unwrap();
                let Message::Launch(parcel) = receive(&theirs).unwrap() else { panic!("{argument}") };
                assert_eq!(parcel.request.decode().unwrap().args, order.args, "{argument}");
                assert_eq!(parcel.fds.api.is_some(), has_api);
                File::from(parcel.fds.report).write_all(b"x").unwrap();
                assert_eq!(rustix::io::read(&report, &mut [0; 8]), Ok(1));
            }
        }
    }

    #[test]
    fn words_of_other_releases_are_not_understood() {
        let (ours, theirs) = socket_pair().unwrap();
        let other = encode(&MessageHeader { release: "0.0.0-other", launch: None }).unwrap();
        for word in [other.as_slice(), br#"{"Run":{}}"#, br#""Farewell""#, b"\0", b"\xff\xff\xff\xff\xff\xff"]
        {
            rustix::net::send(&ours, word, SendFlags::empty()).unwrap();
            let error = receive(&theirs).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{}", word.escape_ascii());
        }
        send_shutdown(&ours);
        assert!(matches!(receive(&theirs), Ok(Message::Shutdown)));
        drop(ours);
        assert!(matches!(receive(&theirs), Ok(Message::Disconnected)));
    }
}
