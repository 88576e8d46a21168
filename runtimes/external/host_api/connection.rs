//! One connection to a process: incoming requests, a line each, and the answer that is not sent yet.

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

use crate::runtimes::external::host_api::request_handler::AnsweredError;
use crate::runtimes::sandbox::compat::{CMSG_CLOEXEC, MSG_NOSIGNAL};

/// Bytes that are read in one turn.
const READ_QUOTA: usize = 16 << 10;

/// Descriptors that are taken with one message; the system closes further ones.
const MAX_DESCRIPTORS: usize = 4;

/// No time at all.
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A line to a process. Whoever has the other end may do with it what they like: nothing here waits for them, and the
/// descriptor's own flags, which they share, do not matter.
pub(super) struct Connection {
    socket: OwnedFd,
    /// Whether descriptors are taken that come by it.
    is_shared: bool,
    received_fds: Vec<OwnedFd>,
    received: Vec<u8>,
    /// How much of `came` is known to hold no end of a line.
    searched: usize,
    /// Whether the rest of a line that was too long is thrown away.
    discards_line: bool,
    outgoing: Vec<u8>,
    written: usize,
    last_error: Option<AnsweredError>,
}

/// A line that nobody attends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// Nobody has the other end.
    Closed,
    /// Nothing was said that is not answered, and nothing is still to be read.
    Idle,
    Active,
}

/// What came of a turn.
pub(super) enum TurnOutcome {
    /// Nobody has the other end.
    Closed,
    Nothing,
    Request(Vec<u8>),
    TooLong,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            is_shared: false,
            received_fds: Vec::new(),
            received: Vec::new(),
            searched: 0,
            discards_line: false,
            outgoing: Vec::new(),
            written: 0,
            last_error: None,
        }
    }

    /// The line that all processes share, by which they send others.
    pub(super) fn shared(socket: OwnedFd) -> Self {
        Self { is_shared: true, ..Self::new(socket) }
    }

    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// What to wait for: room for the answer, or else the next request.
    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        let event = if self.outgoing.is_empty() { PollFlags::IN } else { PollFlags::OUT };
        PollFd::new(&self.socket, event)
    }

    /// Whether a request has come that had no turn yet.
    pub(super) fn has_request(&self) -> bool {
        self.outgoing.is_empty() && self.received[self.searched..].contains(&b'\n')
    }

    /// Bytes of requests that had no turn yet.
    pub(super) fn request_bytes(&self) -> usize {
        self.received.len()
    }

    /// Bytes of an answer that is to go.
    pub(super) fn answer_bytes(&self) -> usize {
        self.outgoing.len()
    }

    /// How it is with a line that nobody attends.
    pub(super) fn state(&self) -> ConnectionState {
        if !self.received.is_empty() || !self.outgoing.is_empty() {
            return ConnectionState::Active;
        }
        // Who shares the socket can have a look at it find nothing (`SO_PEEK_OFF`), but not keep it from being ready.
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&NO_WAIT)) {
            Ok(0) => return ConnectionState::Idle,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return ConnectionState::Closed,
        }
        match recv(&self.socket, &mut [0; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, 1..)) | Err(Errno::INTR | Errno::AGAIN) => ConnectionState::Active,
            Ok(_) | Err(_) => ConnectionState::Closed,
        }
    }

    /// The descriptors that came, if they are lines.
    pub(super) fn take_received_fds(&mut self) -> Vec<OwnedFd> {
        mem::take(&mut self.received_fds)
    }

    /// The error that was last answered here.
    pub(super) fn last_error(&mut self) -> &mut Option<AnsweredError> {
        &mut self.last_error
    }

    /// Sends what is to go, or else takes one request of at most `longest` bytes. One turn is one request, so that nobody
    /// keeps the others from theirs.
    pub(super) fn take_turn(&mut self, longest: usize) -> TurnOutcome {
        if !self.flush() {
            return TurnOutcome::Closed;
        }
        if !self.outgoing.is_empty() {
            return TurnOutcome::Nothing;
        }
        let mut found = self.next_request();
        if found.is_none() {
            if !self.receive() {
                return TurnOutcome::Closed;
            }
            found = self.next_request();
        }
        match found {
            None if self.received.len() > longest => {
                self.received = Vec::new();
                self.searched = 0;
                if mem::replace(&mut self.discards_line, true) {
                    TurnOutcome::Nothing
                } else {
                    TurnOutcome::TooLong
                }
            }
            Some(TurnOutcome::Request(text)) if text.len() > longest => TurnOutcome::TooLong,
            found => found.unwrap_or(TurnOutcome::Nothing),
        }
    }

    /// Puts an answer on its way.
    pub(super) fn send_answer(&mut self, answer: Vec<u8>) {
        self.outgoing = answer;
        // An error is found again, and told, in the next turn.
        self.flush();
    }

    /// Whether somebody may still read the rest.
    fn flush(&mut self) -> bool {
        while self.written < self.outgoing.len() {
            let rest = &self.outgoing[self.written..];
            match send(&self.socket, rest, SendFlags::DONTWAIT | MSG_NOSIGNAL) {
                Ok(given) => self.written += given,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        self.outgoing = Vec::new();
        self.written = 0;
        true
    }

    /// The next whole line.
    fn next_request(&mut self) -> Option<TurnOutcome> {
        let end = self.received[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = self.received.len();
            return None;
        };
        let text: Vec<u8> = self.received.drain(..=end).collect();
        self.searched = 0;
        let is_nothing = mem::take(&mut self.discards_line) || text.trim_ascii().is_empty();
        Some(if is_nothing { TurnOutcome::Nothing } else { TurnOutcome::Request(text) })
    }

    /// Takes what is there; false when nobody has the other end.
    fn receive(&mut self) -> bool {
        let mut bytes = [0; READ_QUOTA];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | CMSG_CLOEXEC;
        let taken = match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
            Ok(received) => received.bytes,
            Err(error) => return matches!(error, Errno::AGAIN | Errno::INTR),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                self.received_fds.extend(rights.filter(|right| self.is_shared && is_unix_stream(right)));
            }
        }
        // The byte that goes with a descriptor may fall in the midst of another process's request.
        for part in bytes[..taken].split(|byte| *byte == 0) {
            self.received.extend_from_slice(part);
        }
        taken > 0
    }
}

/// Whether a stranger's descriptor can be a line. Another kind of file could hold up whoever reads or closes it.
fn is_unix_stream(descriptor: &impl AsFd) -> bool {
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
        assert!(is_unix_stream(&UnixStream::pair().unwrap().0));
        assert!(!is_unix_stream(&far), "it may be told to take its time when it is closed");
        assert!(!is_unix_stream(&UnixDatagram::pair().unwrap().0));
        assert!(!is_unix_stream(&std::io::pipe().unwrap().0));
        assert!(!is_unix_stream(&std::fs::File::open("/dev/zero").unwrap()));
    }
}
