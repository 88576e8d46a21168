//! The ends of a process's pipes: what is still to be written, what was read and kept.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};

use rustix::event::{PollFd, PollFlags};
use rustix::io::{ioctl_fionbio, ioctl_fionread};

use super::CapturedOutput;
use crate::policy::{Limits, OutputPolicy};

/// How much is read of one stream before the others have their turn.
const READ_QUOTA: u64 = 256 << 10;

/// Standard input: bytes on their way into a pipe. Hosts ignore `SIGPIPE`, as Rust programs do unless told otherwise.
pub(in crate::runtimes::external) struct StdinWriter {
    pipe: Option<File>,
    bytes: Vec<u8>,
    written: usize,
    /// Whether nothing comes after these bytes.
    closes_when_done: bool,
}

impl StdinWriter {
    /// Gives these bytes, and no others.
    pub(in crate::runtimes::external) fn with_input(pipe: Option<File>, bytes: Vec<u8>) -> io::Result<Self> {
        let mut feed = Self { pipe: set_nonblocking(pipe)?, bytes, written: 0, closes_when_done: true };
        feed.write_available();
        Ok(feed)
    }

    /// Gives lines, when there are some.
    pub(in crate::runtimes::external) fn for_lines(pipe: Option<File>) -> io::Result<Self> {
        Ok(Self { pipe: set_nonblocking(pipe)?, bytes: Vec::new(), written: 0, closes_when_done: false })
    }

    /// Puts a line on its way.
    pub(in crate::runtimes::external) fn write_line(&mut self, line: Vec<u8>) {
        self.bytes = line;
        self.written = 0;
        self.write_available();
    }

    /// Whether everything was given.
    pub(in crate::runtimes::external) fn is_done(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether somebody may still read what is given.
    pub(in crate::runtimes::external) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// What to wait for, while there is something to give.
    pub(in crate::runtimes::external) fn poll_fd(&self) -> Option<PollFd<'_>> {
        let pipe = self.pipe.as_ref().filter(|_| !self.is_done());
        pipe.map(|pipe| PollFd::new(pipe, PollFlags::OUT))
    }

    /// Gives what the pipe takes; closes it when nobody reads, or after the last byte where nothing comes after it.
    pub(in crate::runtimes::external) fn write_available(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        let mut is_read = true;
        if self.written < self.bytes.len() {
            match pipe.write(&self.bytes[self.written..]) {
                Ok(taken) => self.written += taken,
                Err(error) if is_transient(&error) => return,
                // A script that does not want its input is not at fault.
                Err(_) => is_read = false,
            }
        }
        if !is_read || self.written == self.bytes.len() {
            self.bytes = Vec::new();
            self.written = 0;
            if !is_read || self.closes_when_done {
                self.pipe = None;
            }
        }
    }
}

/// Standard output or error: a pipe and what came out of it, kept up to a cap in bytes.
pub(in crate::runtimes::external) struct OutputReader {
    pipe: Option<File>,
    bytes: Vec<u8>,
    cap: u64,
    policy: OutputPolicy,
    /// Bytes that came beyond those that are kept.
    discarded: u64,
}

impl OutputReader {
    pub(in crate::runtimes::external) fn new(pipe: Option<File>, limits: &Limits) -> io::Result<Self> {
        let (cap, policy) = (limits.output, limits.on_output);
        Ok(Self { pipe: set_nonblocking(pipe)?, bytes: Vec::new(), cap, policy, discarded: 0 })
    }

    /// What to wait for, until the other side closes.
    pub(in crate::runtimes::external) fn poll_fd(&self) -> Option<PollFd<'_>> {
        self.pipe.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN))
    }

    /// Whether more came than may be kept, where that is the end of the run.
    pub(in crate::runtimes::external) fn exceeds_limit(&self) -> bool {
        self.is_full() && self.policy == OutputPolicy::Kill
    }

    /// Takes what is there, for one turn.
    pub(in crate::runtimes::external) fn read_available(&mut self) {
        self.read_up_to(READ_QUOTA);
    }

    /// Takes what the pipe holds now and closes it, whoever may still hold the other side.
    pub(in crate::runtimes::external) fn drain_and_close(&mut self) {
        self.drain();
        self.pipe = None;
    }

    /// Takes what the pipe holds now.
    pub(in crate::runtimes::external) fn drain(&mut self) {
        let held = self.pipe.as_ref().and_then(|pipe| ioctl_fionread(pipe).ok());
        self.read_up_to(held.unwrap_or_default());
    }

    /// What came so far.
    pub(in crate::runtimes::external) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What was kept, and an intake of the same pipe for what comes from now on.
    pub(in crate::runtimes::external) fn take_captured(
        &mut self,
        limits: &Limits,
    ) -> io::Result<CapturedOutput> {
        let next = Self::new(self.pipe.take(), limits)?;
        Ok(std::mem::replace(self, next).into_captured())
    }

    /// What was kept, cut at the cap or up to three bytes before it.
    pub(in crate::runtimes::external) fn into_captured(mut self) -> CapturedOutput {
        let (truncated, came) = (self.is_full(), self.bytes.len() as u64 + self.discarded);
        if truncated {
            self.bytes.truncate(usize::try_from(self.cap).unwrap_or(usize::MAX));
            self.bytes.truncate(complete_utf8_len(&self.bytes));
        }
        CapturedOutput { bytes: self.bytes, truncated, total_bytes: came }
    }

    fn is_full(&self) -> bool {
        self.bytes.len() as u64 > self.cap
    }

    fn read_up_to(&mut self, most: u64) {
        // One byte beyond the cap is kept: that is how the cap is known to be exceeded.
        let room = self.cap.saturating_add(1) - self.bytes.len() as u64;
        let Some(pipe) = &mut self.pipe else { return };
        let kept = most.min(room);
        let mut is_open = true;
        if kept > 0 {
            // What was read before an error is kept.
            is_open = is_still_open(&pipe.take(kept).read_to_end(&mut self.bytes));
        }
        let beyond = most - kept;
        if is_open
            && beyond > 0
            && self.bytes.len() as u64 > self.cap
            && self.policy == OutputPolicy::Truncate
        {
            let thrown_away = discard(pipe, beyond);
            is_open = is_still_open(&thrown_away);
            self.discarded += thrown_away.unwrap_or_default() as u64;
        }
        if !is_open {
            self.pipe = None;
        }
    }
}

fn is_still_open(read: &io::Result<usize>) -> bool {
    match read {
        Ok(taken) => *taken > 0,
        Err(error) => is_transient(error),
    }
}

/// Reads what is there and forgets it: how much that was.
fn discard(pipe: &mut File, most: u64) -> io::Result<usize> {
    let mut place = [0; 16 << 10];
    let mut count = 0;
    while (count as u64) < most {
        match pipe.read(&mut place) {
            Ok(0) => break,
            Ok(taken) => count += taken,
            Err(_) if count > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// How many of these bytes end with a whole letter, should they be UTF-8.
fn complete_utf8_len(bytes: &[u8]) -> usize {
    const MAX_UTF8_BYTES: usize = 4;
    let begins = |byte: &u8| byte & 0b1100_0000 != 0b1000_0000;
    let last = bytes.iter().rev().take(MAX_UTF8_BYTES).position(begins).map(|back| bytes.len() - 1 - back);
    let is_cut =
        |at: &usize| std::str::from_utf8(&bytes[*at..]).is_err_and(|error| error.error_len().is_none());
    last.filter(is_cut).unwrap_or(bytes.len())
}

fn set_nonblocking(pipe: Option<File>) -> io::Result<Option<File>> {
    if let Some(pipe) = &pipe {
        ioctl_fionbio(pipe, true)?;
    }
    Ok(pipe)
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_leaves_whole_letters() {
        for (text, whole) in [("", 0), ("abc", 3), ("aé", 3), ("a€", 4), ("a𝄞", 5)] {
            assert_eq!(complete_utf8_len(text.as_bytes()), whole, "{text}");
            let last = text.char_indices().last().map_or(0, |(at, _)| at);
            for cut in last + 1..text.len() {
                assert_eq!(complete_utf8_len(&text.as_bytes()[..cut]), last, "{text} at {cut}");
            }
        }
        for bytes in [&b"a\xff"[..], b"\x80\x80\x80\x80\x80", b"a\xe2\x28", b"\xc3\xa9\xff"] {
            assert_eq!(complete_utf8_len(bytes), bytes.len(), "what is no UTF-8 stays as it is");
        }
    }

    #[test]
    fn what_comes_beyond_the_cap_is_counted_and_not_kept() {
        for (policy, came) in [(OutputPolicy::Kill, 11), (OutputPolicy::Truncate, 300_000)] {
            let (reader, mut writer) = io::pipe().unwrap();
            let limits = Limits::default().output(10).on_output(policy);
            let mut intake =
                OutputReader::new(Some(File::from(std::os::fd::OwnedFd::from(reader))), &limits).unwrap();
            let writing = std::thread::spawn(move || {
                for _ in 0..300 {
                    if writer.write_all(&[b'x'; 1000]).is_err() {
                        return;
                    }
                }
            });
            while intake.poll_fd().is_some() && !intake.exceeds_limit() {
                intake.read_available();
            }
            assert!(intake.bytes.capacity() < 1000, "nothing is kept beyond the cap");
            let kept = intake.into_captured();
            assert_eq!(
                (kept.bytes.as_slice(), kept.truncated, kept.total_bytes),
                (&[b'x'; 10][..], true, came)
            );
            writing.join().unwrap();
        }
    }
}
