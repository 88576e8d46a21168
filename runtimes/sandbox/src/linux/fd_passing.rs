//! Descriptors on their way from one process to another.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::MAX_EGRESS_PORTS;

/// Sends these descriptors, which come together.
pub(crate) fn send_fds(socket: &OwnedFd, fds: &[OwnedFd]) -> io::Result<()> {
    send_message(socket, b"x", fds)
}

/// Sends a message with descriptors.
pub(crate) fn send_message(socket: &OwnedFd, bytes: &[u8], fds: &[OwnedFd]) -> io::Result<()> {
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_EGRESS_PORTS + 2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(Errno::NOMEM.into());
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The descriptor in the next message; `None` if it has none, or the sender is gone.
pub(crate) fn receive_fd(socket: &OwnedFd) -> Option<OwnedFd> {
    receive_message(socket, &mut [0]).ok()?.1
}

/// The length of the next message, of which so much is received as fits, and its descriptor, if it has one.
pub(crate) fn receive_message(
    socket: &OwnedFd,
    buffer: &mut [u8],
) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let fd = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok((received.bytes, fd))
}
