//! Orders and descriptors on their way from the host to the helper, one message each.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::super::sandbox::Order;
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

/// What the host says.
pub(super) enum Word {
    /// To run this, in this cage at best.
    Run(Box<(Order, Tier)>, Ends),
    /// That it needs no helper any more.
    Farewell,
    /// Nothing, for it is gone.
    Gone,
}

const RUN: &[u8] = b"run";
const FAREWELL: &[u8] = b"farewell";

/// Says that no more orders come.
pub(super) fn say_farewell(socket: &OwnedFd) {
    // Should it not be heard, the socket hangs up.
    rustix::net::send(socket, FAREWELL, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).ok();
}

/// Sends an order. Its text goes through a file in memory: arguments may be larger than a message.
pub(super) fn send(socket: &OwnedFd, order: &Order, tier: Tier, ends: &Ends) -> io::Result<()> {
    let mut text = File::from(memfd_create("metier-order", MemfdFlags::CLOEXEC)?);
    text.write_all(&serde_json::to_vec(&(order, tier))?)?;
    let text = OwnedFd::from(text);
    let always: [&OwnedFd; LEAST] =
        [&text, &ends.stdin, &ends.stdout, &ends.stderr, &ends.control, &ends.report];
    let all: Vec<BorrowedFd<'_>> = always.into_iter().chain(&ends.api).map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&all)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(socket, &[IoSlice::new(RUN)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next word of the host's.
pub(super) fn receive(socket: &OwnedFd) -> io::Result<Word> {
    let mut word = [0; 16];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut place = [IoSliceMut::new(&mut word)];
        match recvmsg(socket, &mut place, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    match &word[..received.bytes.min(word.len())] {
        [] => return Ok(Word::Gone),
        FAREWELL => return Ok(Word::Farewell),
        _ => {}
    }
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
    let (mut text, mut order) = (File::from(text), Vec::new());
    text.rewind()?;
    text.read_to_end(&mut order)?;
    let ends = Ends { stdin, stdout, stderr, api, control, report };
    Ok(Word::Run(Box::new(serde_json::from_slice(&order)?), ends))
}
