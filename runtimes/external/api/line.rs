//! One end of a socket: requests on their way in, a line each, and the answer that nobody has read yet.

use std::io::IoSliceMut;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_type;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketType, getsockname,
    recv, recvmsg, send,
};

use super::super::super::sandbox::flags::{NO_SIGNAL, OWN_DESCRIPTORS};
use super::service::Refused;

/// Bytes that are read in one turn.
const TURN: usize = 16 << 10;

/// Descriptors that are taken with one message; the system closes further ones.
const DESCRIPTORS: usize = 4;

/// No time at all.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A line to a process. Whoever has the other end may do with it what they like: nothing here waits for them, and the
/// descriptor's own flags, which they share, do not matter.
pub(super) struct Line {
    socket: OwnedFd,
    /// Whether descriptors are taken that come by it.
    is_door: bool,
    sent: Vec<OwnedFd>,
    came: Vec<u8>,
    /// How much of `came` is known to hold no end of a line.
    searched: usize,
    /// Whether the rest of a line that was too long is thrown away.
    skips: bool,
    going: Vec<u8>,
    given: usize,
    refused: Option<Refused>,
}

/// A line that nobody attends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody has the other end.
    Gone,
    /// Nothing was said that is not answered, and nothing is still to be read.
    Quiet,
    Speaks,
}

/// What came of a turn.
pub(super) enum Turn {
    /// Nobody has the other end.
    Gone,
    Nothing,
    Request(Vec<u8>),
    TooLong,
}

impl Line {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            is_door: false,
            sent: Vec::new(),
            came: Vec::new(),
            searched: 0,
            skips: false,
            going: Vec::new(),
            given: 0,
            refused: None,
        }
    }

    /// The line that all processes share, by which they send others.
    pub(super) fn door(socket: OwnedFd) -> Self {
        Self { is_door: true, ..Self::new(socket) }
    }

    pub(super) fn is_door(&self) -> bool {
        self.is_door
    }

    /// What to wait for: room for the answer, or else the next request.
    pub(super) fn waiting(&self) -> PollFd<'_> {
        let event = if self.going.is_empty() { PollFlags::IN } else { PollFlags::OUT };
        PollFd::new(&self.socket, event)
    }

    /// Whether a request has come that had no turn yet.
    pub(super) fn has_request(&self) -> bool {
        self.going.is_empty() && self.came[self.searched..].contains(&b'\n')
    }

    /// Bytes of requests that had no turn yet.
    pub(super) fn unfinished(&self) -> usize {
        self.came.len()
    }

    /// Bytes of an answer that is to go.
    pub(super) fn unread(&self) -> usize {
        self.going.len()
    }

    /// How it is with a line that nobody attends.
    pub(super) fn state(&self) -> State {
        if !self.came.is_empty() || !self.going.is_empty() {
            return State::Speaks;
        }
        // Who shares the socket can have a look at it find nothing (`SO_PEEK_OFF`), but not keep it from being ready.
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&AT_ONCE)) {
            Ok(0) => return State::Quiet,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return State::Gone,
        }
        match recv(&self.socket, &mut [0; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, 1..)) | Err(Errno::INTR | Errno::AGAIN) => State::Speaks,
            Ok(_) | Err(_) => State::Gone,
        }
    }

    /// The descriptors that came, if they are lines.
    pub(super) fn sent(&mut self) -> Vec<OwnedFd> {
        mem::take(&mut self.sent)
    }

    /// The error that was last answered here.
    pub(super) fn refused(&mut self) -> &mut Option<Refused> {
        &mut self.refused
    }

    /// Sends what is to go, or else takes one request of at most `longest` bytes. One turn is one request, so that nobody
    /// keeps the others from theirs.
    pub(super) fn turn(&mut self, longest: usize) -> Turn {
        if !self.give() {
            return Turn::Gone;
        }
        if !self.going.is_empty() {
            return Turn::Nothing;
        }
        let mut found = self.request();
        if found.is_none() {
            if !self.take() {
                return Turn::Gone;
            }
            found = self.request();
        }
        match found {
            None if self.came.len() > longest => {
                self.came = Vec::new();
                self.searched = 0;
                if mem::replace(&mut self.skips, true) { Turn::Nothing } else { Turn::TooLong }
            }
            Some(Turn::Request(text)) if text.len() > longest => Turn::TooLong,
            found => found.unwrap_or(Turn::Nothing),
        }
    }

    /// Puts an answer on its way.
    pub(super) fn say(&mut self, answer: Vec<u8>) {
        self.going = answer;
        // An error is found again, and told, in the next turn.
        self.give();
    }

    /// Whether somebody may still read the rest.
    fn give(&mut self) -> bool {
        while self.given < self.going.len() {
            let rest = &self.going[self.given..];
            match send(&self.socket, rest, SendFlags::DONTWAIT | NO_SIGNAL) {
                Ok(given) => self.given += given,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        self.going = Vec::new();
        self.given = 0;
        true
    }

    /// The next whole line.
    fn request(&mut self) -> Option<Turn> {
        let end = self.came[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = self.came.len();
            return None;
        };
        let text: Vec<u8> = self.came.drain(..=end).collect();
        self.searched = 0;
        let is_nothing = mem::take(&mut self.skips) || text.trim_ascii().is_empty();
        Some(if is_nothing { Turn::Nothing } else { Turn::Request(text) })
    }

    /// Takes what is there; false when nobody has the other end.
    fn take(&mut self) -> bool {
        let mut bytes = [0; TURN];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | OWN_DESCRIPTORS;
        let taken = match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
            Ok(received) => received.bytes,
            Err(error) => return matches!(error, Errno::AGAIN | Errno::INTR),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                self.sent.extend(rights.filter(|right| self.is_door && is_line(right)));
            }
        }
        // The byte that goes with a descriptor may fall in the midst of another process's request.
        for part in bytes[..taken].split(|byte| *byte == 0) {
            self.came.extend_from_slice(part);
        }
        taken > 0
    }
}

/// Whether a stranger's descriptor can be a line. Another kind of file could hold up whoever reads or closes it.
fn is_line(descriptor: &impl AsFd) -> bool {
    let is_local = getsockname(descriptor).is_ok_and(|name| name.address_family() == AddressFamily::UNIX);
    is_local && socket_type(descriptor).is_ok_and(|kind| kind == SocketType::STREAM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixDatagram, UnixStream};

    #[test]
    fn only_a_local_stream_can_be_a_line() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(is_line(&UnixStream::pair().unwrap().0));
        assert!(!is_line(&far), "it may be told to take its time when it is closed");
        assert!(!is_line(&UnixDatagram::pair().unwrap().0));
        assert!(!is_line(&std::io::pipe().unwrap().0));
        assert!(!is_line(&std::fs::File::open("/dev/zero").unwrap()));
    }
}
