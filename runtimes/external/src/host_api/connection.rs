//! One connection to a process: the requests that arrive, a line each, and the answer that is being sent.

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

use crate::compat::{CMSG_CLOEXEC, MSG_NOSIGNAL};
use crate::host_api::request::AnsweredError;

/// Maximum number of bytes that are read in one turn.
const READ_QUOTA: usize = 16 << 10;

/// Maximum number of descriptors that are received with one message. The system closes further ones.
const MAX_DESCRIPTORS: usize = 4;

const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A connection to a process. The other end is untrusted: nothing here blocks on it, and the flags of the socket, which the other
/// end can change, do not matter.
pub(super) struct Connection {
    socket: OwnedFd,
    /// Whether all processes share it and may send descriptors over it.
    is_shared: bool,
    received_fds: Vec<OwnedFd>,
    received: Vec<u8>,
    /// The length of the prefix of `received` that contains no newline.
    searched: usize,
    /// Whether the rest of a line that was too long is discarded.
    discards_line: bool,
    outgoing: Vec<u8>,
    written: usize,
    last_error: Option<AnsweredError>,
}

/// The state of a connection that no thread serves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// The other end is closed.
    Closed,
    /// No request is unanswered, and no answer unread.
    Idle,
    Active,
}

/// The result of one turn.
pub(super) enum TurnOutcome {
    /// The other end is closed.
    Closed,
    Nothing,
    Request(Vec<u8>),
    /// The request is longer than allowed.
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

    /// The connection that all processes share, over which they send others.
    pub(super) fn shared(socket: OwnedFd) -> Self {
        Self { is_shared: true, ..Self::new(socket) }
    }

    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The descriptor to poll: for room to write the rest of an answer, or else for the next request.
    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        let event = if self.outgoing.is_empty() { PollFlags::IN } else { PollFlags::OUT };
        PollFd::new(&self.socket, event)
    }

    /// Whether a whole request was received and waits for its turn.
    pub(super) fn has_request(&self) -> bool {
        self.outgoing.is_empty() && self.received[self.searched..].contains(&b'\n')
    }

    /// The number of received bytes that wait for a turn.
    pub(super) fn request_bytes(&self) -> usize {
        self.received.len()
    }

    /// The number of bytes of the answer that is being sent.
    pub(super) fn answer_bytes(&self) -> usize {
        self.outgoing.len()
    }

    /// The state of the connection while no thread serves it.
    pub(super) fn state(&self) -> ConnectionState {
        if !self.received.is_empty() || !self.outgoing.is_empty() {
            return ConnectionState::Active;
        }
        // The other end can make a peek find nothing (`SO_PEEK_OFF`), but it cannot keep the socket from being ready.
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

    /// The sockets that were received.
    pub(super) fn take_received_fds(&mut self) -> Vec<OwnedFd> {
        mem::take(&mut self.received_fds)
    }

    /// The last error that was sent over this connection.
    pub(super) fn last_error(&mut self) -> &mut Option<AnsweredError> {
        &mut self.last_error
    }

    /// Sends the rest of an answer, or else takes one request of at most `longest` bytes. A turn has one request, so that no
    /// connection keeps the others from theirs.
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

    /// Starts to send an answer.
    pub(super) fn send_answer(&mut self, answer: Vec<u8>) {
        self.outgoing = answer;
        // The next turn finds the same error and reports it.
        self.flush();
    }

    /// Sends as much as the socket takes. Returns whether the other end may still be open.
    fn flush(&mut self) -> bool {
        while self.written < self.outgoing.len() {
            let rest = &self.outgoing[self.written..];
            match send(&self.socket, rest, SendFlags::DONTWAIT | MSG_NOSIGNAL) {
                Ok(count) => self.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        self.outgoing = Vec::new();
        self.written = 0;
        true
    }

    /// The next whole line that was received.
    fn next_request(&mut self) -> Option<TurnOutcome> {
        let end = self.received[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = self.received.len();
            return None;
        };
        let text: Vec<u8> = self.received.drain(..=end).collect();
        self.searched = 0;
        let is_discarded = mem::take(&mut self.discards_line) || text.trim_ascii().is_empty();
        Some(if is_discarded { TurnOutcome::Nothing } else { TurnOutcome::Request(text) })
    }

    /// Receives what the socket holds. Returns false if the other end is closed.
    fn receive(&mut self) -> bool {
        let mut bytes = [0; READ_QUOTA];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | CMSG_CLOEXEC;
        let count = match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
            Ok(received) => received.bytes,
            Err(error) => return matches!(error, Errno::AGAIN | Errno::INTR),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                self.received_fds.extend(rights.filter(|right| self.is_shared && is_unix_stream(right)));
            }
        }
        // The NUL byte of a descriptor may be in the middle of a request of another process.
        for part in bytes[..count].split(|byte| *byte == 0) {
            self.received.extend_from_slice(part);
        }
        count > 0
    }
}

/// Whether a received descriptor is a socket of the kind that can be a connection. Reading or closing another kind of file could
/// block the host.
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
