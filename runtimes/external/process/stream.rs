//! The ends of a process's pipes: what is still to be written, what was read and kept.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};

use rustix::event::{PollFd, PollFlags};
use rustix::io::{ioctl_fionbio, ioctl_fionread};

use super::Kept;

/// How much is read of one stream before the others have their turn.
const TURN: u64 = 256 << 10;

/// Standard input: bytes on their way into a pipe. Hosts ignore `SIGPIPE`, as Rust programs do unless told otherwise.
pub(super) struct Feed {
    pipe: Option<File>,
    bytes: Vec<u8>,
    given: usize,
}

impl Feed {
    pub(super) fn new(pipe: Option<File>, bytes: Vec<u8>) -> io::Result<Self> {
        let mut feed = Self { pipe: waitless(pipe)?, bytes, given: 0 };
        feed.give();
        Ok(feed)
    }

    /// What to wait for, while there is something to give.
    pub(super) fn waiting(&self) -> Option<PollFd<'_>> {
        self.pipe.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::OUT))
    }

    /// Gives what the pipe takes; closes it after the last byte, or when nobody reads.
    pub(super) fn give(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.write(&self.bytes[self.given..]) {
            Ok(taken) => self.given += taken,
            Err(error) if is_passing(&error) => return,
            // A script that does not want its input is not at fault.
            Err(_) => self.given = self.bytes.len(),
        }
        if self.given == self.bytes.len() {
            self.pipe = None;
            self.bytes = Vec::new();
            self.given = 0;
        }
    }
}

/// Standard output or error: a pipe and what came out of it, up to a cap in bytes.
pub(super) struct Intake {
    pipe: Option<File>,
    bytes: Vec<u8>,
    cap: u64,
}

impl Intake {
    pub(super) fn new(pipe: Option<File>, cap: u64) -> io::Result<Self> {
        Ok(Self { pipe: waitless(pipe)?, bytes: Vec::new(), cap })
    }

    /// What to wait for, until the other side closes.
    pub(super) fn waiting(&self) -> Option<PollFd<'_>> {
        self.pipe.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN))
    }

    /// Whether more came than may be kept.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() as u64 > self.cap
    }

    /// Takes what is there, for one turn.
    pub(super) fn take(&mut self) {
        self.take_up_to(TURN);
    }

    /// Takes what the pipe holds now and closes it, whoever may still hold the other side.
    pub(super) fn take_rest(&mut self) {
        let held = self.pipe.as_ref().and_then(|pipe| ioctl_fionread(pipe).ok());
        self.take_up_to(held.unwrap_or_default());
        self.pipe = None;
    }

    /// What was kept, cut at the cap.
    pub(super) fn kept(mut self) -> Kept {
        let truncated = self.is_full();
        self.bytes.truncate(usize::try_from(self.cap).unwrap_or(usize::MAX));
        Kept { bytes: self.bytes, truncated }
    }

    /// One byte beyond the cap is read: that is how the cap is known to be exceeded.
    fn take_up_to(&mut self, most: u64) {
        let room = self.cap.saturating_add(1) - self.bytes.len() as u64;
        let most = most.min(room);
        let Some(pipe) = self.pipe.as_mut().filter(|_| most > 0) else { return };
        // What was read before an error is kept.
        match pipe.take(most).read_to_end(&mut self.bytes) {
            Ok(taken) if taken > 0 => {}
            Err(error) if is_passing(&error) => {}
            Ok(_) | Err(_) => self.pipe = None,
        }
    }
}

fn waitless(pipe: Option<File>) -> io::Result<Option<File>> {
    if let Some(pipe) = &pipe {
        ioctl_fionbio(pipe, true)?;
    }
    Ok(pipe)
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
