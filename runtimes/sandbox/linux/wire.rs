//! Orders and descriptors on their way from the host to the helper, and from there to a stub, one message each.

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

use super::super::sandbox::{Cage, Order};
use super::calls::Calls;
use crate::policy::Tier;

/// What goes with an order.
pub(super) struct Ends {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    /// The script's end of the host API, where it has one.
    pub(super) api: Option<OwnedFd>,
    /// Hangs up when the tree is to be killed.
    pub(super) control: OwnedFd,
    /// Takes the report.
    pub(super) report: OwnedFd,
}

/// Those of every order, and those that some have.
const LEAST: usize = 5;
const MOST: usize = LEAST + 2;

/// Bytes of an order that go in a message. Arguments may be larger.
const SHORT: usize = 8 << 10;

/// Bytes of what is said beside it.
const WORD: usize = 256;

/// What a stub has to know before it reads its order, to be ready for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kind {
    /// The best cage to put up.
    pub(super) tier: Tier,
    /// Which system calls are filtered.
    pub(super) calls: Calls,
    /// Whether system calls are filtered.
    pub(super) guard_calls: bool,
    /// Whether a wall that cannot be put up is a reason to start nothing.
    pub(super) required: bool,
}

/// An order and what goes with it.
pub(super) struct Parcel {
    pub(super) kind: Kind,
    /// How many processes each process is told that there may be, which is known once its namespaces are furnished.
    pub(super) process_limit: Option<u64>,
    pub(super) text: Text,
    pub(super) ends: Ends,
    /// Whether the machine gives a better cage than this, which could not be put up.
    pub(super) is_lowered: bool,
}

/// An order, unread. It goes in the message, or lies in a file in memory.
pub(super) enum Text {
    Short(Vec<u8>),
    Long(File),
}

/// What is said: a message. Only those of the same release understand each other.
#[derive(Serialize, Deserialize)]
struct Said<'a> {
    release: &'a str,
    /// Nothing when no more orders come.
    run: Option<Run>,
}

/// What comes with an order; the short text of one stands behind it.
#[derive(Serialize, Deserialize)]
struct Run {
    kind: Kind,
    process_limit: Option<u64>,
    is_short: bool,
    has_api: bool,
}

const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// A value in bytes, as the processes of a cage tell it each other.
pub(super) fn packed(value: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(io::Error::other)
}

/// The value that these bytes begin with, and what is behind it.
pub(super) fn unpacked<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> io::Result<(T, &'a [u8])> {
    postcard::take_from_bytes(bytes).map_err(io::Error::other)
}

/// Both ends of a line for words.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// What was heard.
pub(super) enum Word {
    /// To run this.
    Run(Box<Parcel>),
    /// That nothing more is to be run.
    Farewell,
    /// Nothing, for whoever speaks is gone.
    Gone,
}

impl Parcel {
    /// Packs an order, in the cage of this tier at best.
    pub(super) fn of(order: &Order, tier: Tier, ends: Ends) -> io::Result<Self> {
        // Without rules for files nothing keeps signals inside.
        let tier = if order.cage.files.is_some() { tier } else { Tier::Walk };
        let Cage { shut_network, may_lock, guard_calls, required, .. } = order.cage;
        let kind = Kind { tier, calls: Calls { shut_network, may_lock }, guard_calls, required };
        Ok(Self { kind, process_limit: None, text: Text::of(order)?, ends, is_lowered: false })
    }
}

impl Text {
    fn of(order: &Order) -> io::Result<Self> {
        let text = packed(order)?;
        if text.len() <= SHORT {
            return Ok(Self::Short(text));
        }
        let mut file = Self::file()?;
        file.write_all(&text)?;
        Ok(Self::Long(file))
    }

    /// A file without a name, in memory where there are such: not for a host that a script started in its sandbox.
    fn file() -> io::Result<File> {
        let made = match memfd_create("metier-order", MemfdFlags::CLOEXEC) {
            Err(Errno::NOSYS) => {
                let flags = OFlags::TMPFILE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
                open(std::env::temp_dir(), flags, Mode::RUSR | Mode::WUSR)
            }
            made => made,
        };
        Ok(File::from(made?))
    }

    /// The order. Others read the same file, so its position is nobody's.
    pub(super) fn order(&self) -> io::Result<Order> {
        match self {
            Self::Short(text) => Ok(unpacked(text)?.0),
            Self::Long(file) => {
                let mut text = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(0)];
                file.read_exact_at(&mut text, 0)?;
                Ok(unpacked(&text)?.0)
            }
        }
    }

    /// The same, to be read later.
    pub(super) fn again(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Short(text) => Self::Short(text.clone()),
            Self::Long(file) => Self::Long(file.try_clone()?),
        })
    }
}

/// Says that no more orders come.
pub(super) fn say_farewell(socket: &OwnedFd) {
    // Should it not be heard, the socket hangs up.
    if let Ok(word) = packed(&Said { release: RELEASE, run: None }) {
        rustix::net::send(socket, &word, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).ok();
    }
}

/// Sends an order.
pub(super) fn send(socket: &OwnedFd, parcel: &Parcel) -> io::Result<()> {
    let Parcel { kind, process_limit, text, ends, .. } = parcel;
    let (short, long) = match text {
        Text::Short(text) => (text.as_slice(), None),
        Text::Long(file) => (&[][..], Some(file.as_fd())),
    };
    let api = ends.api.as_ref().map(AsFd::as_fd);
    let run =
        Run { kind: *kind, process_limit: *process_limit, is_short: long.is_none(), has_api: api.is_some() };
    let word = packed(&Said { release: RELEASE, run: Some(run) })?;
    let always = [&ends.stdin, &ends.stdout, &ends.stderr, &ends.control, &ends.report].map(AsFd::as_fd);
    let all: Vec<BorrowedFd<'_>> = always.into_iter().chain(long).chain(api).collect();
    let message = [IoSlice::new(&word), IoSlice::new(short)];
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&all)) {
            return Err(Errno::NOMEM);
        }
        retry_on_intr(|| sendmsg(socket, &message, &mut ancillary, SendFlags::NOSIGNAL))
    };
    match send() {
        Err(Errno::TOOMANYREFS) => with_every_descriptor(send)?,
        done => done?,
    };
    Ok(())
}

/// Does this while this process may have as many descriptors as it may ever have. All programs of a user share one number of
/// descriptors on their way through sockets; who may have few open is the first to be refused when somebody leaves many there.
fn with_every_descriptor<T>(work: impl FnOnce() -> T) -> T {
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before }).ok();
    let done = work();
    setrlimit(Resource::Nofile, before).ok();
    done
}

/// The next word. `Unsupported` where it is one of another version's, `InvalidData` where not all that goes with it came.
pub(super) fn receive(socket: &OwnedFd) -> io::Result<Word> {
    let mut message = vec![0; WORD + SHORT];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
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
        return Ok(Word::Gone);
    }
    let other = |_| io::Error::from(io::ErrorKind::Unsupported);
    let (Said { release, run }, behind) = unpacked(&message).map_err(other)?;
    if release != RELEASE {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let Some(Run { kind, process_limit, is_short, has_api }) = run else { return Ok(Word::Farewell) };
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let mut rights = rights.flatten();
    let mut next = || rights.next().ok_or(io::ErrorKind::InvalidData);
    let (stdin, stdout, stderr) = (next()?, next()?, next()?);
    let (control, report) = (next()?, next()?);
    let text = if is_short { Text::Short(behind.to_vec()) } else { Text::Long(next()?.into()) };
    let api = has_api.then(next).transpose()?;
    let ends = Ends { stdin, stdout, stderr, api, control, report };
    Ok(Word::Run(Box::new(Parcel { kind, process_limit, text, ends, is_lowered: false })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere() -> OwnedFd {
        File::open("/dev/null").unwrap().into()
    }

    fn order(argument: usize) -> Order {
        Order {
            program: "/bin/true".into(),
            args: vec!["x".repeat(argument).into()],
            environment: Vec::new(),
            folder: "/".into(),
            cage: Cage::default(),
            leftovers: Vec::new(),
            deadline_ms: 0,
        }
    }

    #[test]
    fn an_order_arrives_however_long_it_is_with_all_that_goes_with_it() {
        let (ours, theirs) = pair().unwrap();
        for argument in [0, SHORT - 100, SHORT, SHORT + 1, 1 << 20] {
            for has_api in [false, true] {
                let (report, says) = io::pipe().unwrap();
                let ends = Ends {
                    stdin: nowhere(),
                    stdout: nowhere(),
                    stderr: nowhere(),
                    api: has_api.then(nowhere),
                    control: nowhere(),
                    report: says.into(),
                };
                let order = order(argument);
                send(&ours, &Parcel::of(&order, Tier::Landlock, ends).unwrap()).unwrap();
                let Word::Run(parcel) = receive(&theirs).unwrap() else { panic!("{argument}") };
                assert_eq!(parcel.text.order().unwrap().args, order.args, "{argument}");
                assert_eq!(parcel.ends.api.is_some(), has_api);
                File::from(parcel.ends.report).write_all(b"x").unwrap();
                assert_eq!(rustix::io::read(&report, &mut [0; 8]), Ok(1));
            }
        }
    }

    #[test]
    fn words_of_other_releases_are_not_understood() {
        let (ours, theirs) = pair().unwrap();
        let other = packed(&Said { release: "0.0.0-other", run: None }).unwrap();
        for word in [other.as_slice(), br#"{"Run":{}}"#, br#""Farewell""#, b"\0", b"\xff\xff\xff\xff\xff\xff"]
        {
            rustix::net::send(&ours, word, SendFlags::empty()).unwrap();
            let error = receive(&theirs).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{}", word.escape_ascii());
        }
        say_farewell(&ours);
        assert!(matches!(receive(&theirs), Ok(Word::Farewell)));
        drop(ours);
        assert!(matches!(receive(&theirs), Ok(Word::Gone)));
    }
}
