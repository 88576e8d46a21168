//! Orders and descriptors on their way from the host to the helper, and from there to a stub, one message each.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::{Deserialize, Serialize};

use super::super::sandbox::{Cage, Order};
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

/// Those of every order, and the one that some have.
const LEAST: usize = 6;
const MOST: usize = LEAST + 1;

/// What a stub has to know before it reads its order, to be ready for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kind {
    /// The best cage to put up.
    pub(super) tier: Tier,
    /// Whether the network stays shut.
    pub(super) shut_network: bool,
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

/// An order, unread. It lies in a file in memory: arguments may be larger than a message.
pub(super) struct Text(File);

/// What is said: a message.
#[derive(Serialize, Deserialize)]
enum Said {
    Run { kind: Kind, process_limit: Option<u64> },
    Farewell,
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
        let mut text = File::from(memfd_create("metier-order", MemfdFlags::CLOEXEC)?);
        text.write_all(&serde_json::to_vec(order)?)?;
        // Without rules for files nothing keeps signals inside.
        let tier = if order.cage.files.is_some() { tier } else { Tier::Walk };
        let Cage { shut_network, guard_calls, required, .. } = order.cage;
        let kind = Kind { tier, shut_network, guard_calls, required };
        Ok(Self { kind, process_limit: None, text: Text(text), ends, is_lowered: false })
    }
}

impl Text {
    /// The order. Others read the same file, so its position is nobody's.
    pub(super) fn order(&self) -> io::Result<Order> {
        let mut text = vec![0; usize::try_from(self.0.metadata()?.len()).unwrap_or(0)];
        self.0.read_exact_at(&mut text, 0)?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// The same, to be read later.
    pub(super) fn again(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }
}

/// Says that no more orders come.
pub(super) fn say_farewell(socket: &OwnedFd) {
    // Should it not be heard, the socket hangs up.
    if let Ok(word) = serde_json::to_vec(&Said::Farewell) {
        rustix::net::send(socket, &word, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).ok();
    }
}

/// Sends an order.
pub(super) fn send(socket: &OwnedFd, parcel: &Parcel) -> io::Result<()> {
    let Parcel { kind, process_limit, text, ends, .. } = parcel;
    let word = serde_json::to_vec(&Said::Run { kind: *kind, process_limit: *process_limit })?;
    let always = [&ends.stdin, &ends.stdout, &ends.stderr, &ends.control, &ends.report].map(AsFd::as_fd);
    let all: Vec<BorrowedFd<'_>> =
        [text.0.as_fd()].into_iter().chain(always).chain(ends.api.as_ref().map(AsFd::as_fd)).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&all)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    retry_on_intr(|| sendmsg(socket, &[IoSlice::new(&word)], &mut ancillary, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// The next word. `Unsupported` where it is one of another version's, `InvalidData` where not all that goes with it came.
pub(super) fn receive(socket: &OwnedFd) -> io::Result<Word> {
    let mut word = [0; 256];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut place = [IoSliceMut::new(&mut word)];
        match recvmsg(socket, &mut place, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    let word = &word[..received.bytes.min(word.len())];
    if word.is_empty() {
        return Ok(Word::Gone);
    }
    let (kind, process_limit) = match serde_json::from_slice(word).map_err(|_| io::ErrorKind::Unsupported)? {
        Said::Run { kind, process_limit } => (kind, process_limit),
        Said::Farewell => return Ok(Word::Farewell),
    };
    let mut descriptors = Vec::with_capacity(MOST);
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let api = descriptors.split_off(LEAST.min(descriptors.len())).pop();
    let Ok([text, stdin, stdout, stderr, control, report]) = <[OwnedFd; LEAST]>::try_from(descriptors) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let ends = Ends { stdin, stdout, stderr, api, control, report };
    let parcel = Parcel { kind, process_limit, text: Text(text.into()), ends, is_lowered: false };
    Ok(Word::Run(Box::new(parcel)))
}
