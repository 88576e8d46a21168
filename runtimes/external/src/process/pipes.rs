//! The host's ends of a process's pipes: buffered input and captured output.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};

use rustix::event::{PollFd, PollFlags};
use rustix::io::{ioctl_fionbio, ioctl_fionread};

use metier_core::policy::{Limits, OutputPolicy};

/// Bytes that are read from one stream before the others have their turn.
const READ_QUOTA: u64 = 256 << 10;

/// Writes to standard input without blocking. The host must ignore `SIGPIPE`, as Rust programs do by default.
pub(crate) struct StdinWriter {
    pipe: Option<File>,
    bytes: Vec<u8>,
    written: usize,
    /// Whether the pipe is closed after the last byte.
    closes_when_done: bool,
}

impl StdinWriter {
    /// Writes these bytes, then closes the pipe.
    pub(crate) fn with_input(pipe: Option<File>, bytes: Vec<u8>) -> io::Result<Self> {
        let mut writer = Self { pipe: set_nonblocking(pipe)?, bytes, written: 0, closes_when_done: true };
        writer.write_available();
        Ok(writer)
    }

    /// Writes the requests of [`StdinWriter::write_request`]. The pipe stays open.
    pub(crate) fn for_lines(pipe: Option<File>) -> io::Result<Self> {
        Ok(Self { pipe: set_nonblocking(pipe)?, bytes: Vec::new(), written: 0, closes_when_done: false })
    }

    /// Starts to write a request. The one before must have been written.
    pub(crate) fn write_request(&mut self, request: Vec<u8>) {
        self.bytes = request;
        self.written = 0;
        self.write_available();
    }

    /// Whether all bytes were written.
    pub(crate) fn is_done(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether the other end may still be open.
    pub(crate) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// The descriptor to poll while there are bytes to write.
    pub(crate) fn poll_fd(&self) -> Option<PollFd<'_>> {
        let pipe = self.pipe.as_ref().filter(|_| !self.is_done());
        pipe.map(|pipe| PollFd::new(pipe, PollFlags::OUT))
    }

    /// Writes as many bytes as the pipe takes. Closes the pipe if its reader is gone.
    pub(crate) fn write_available(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        let mut has_reader = true;
        if self.written < self.bytes.len() {
            match pipe.write(&self.bytes[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if is_transient(&error) => return,
                // A script need not read its input.
                Err(_) => has_reader = false,
            }
        }
        if !has_reader || self.written == self.bytes.len() {
            self.bytes = Vec::new();
            self.written = 0;
            if !has_reader || self.closes_when_done {
                self.pipe = None;
            }
        }
    }
}

/// What was captured of a stream. The cut never splits a character.
#[derive(Clone, Default)]
pub(crate) struct CapturedOutput {
    pub(crate) bytes: Vec<u8>,
    pub(crate) truncated: bool,
    /// The number of bytes that were read, including those that were not kept.
    pub(crate) total_bytes: u64,
}

/// Reads standard output or error without blocking, and keeps up to `cap` bytes.
pub(crate) struct OutputReader {
    pipe: Option<File>,
    bytes: Vec<u8>,
    cap: u64,
    policy: OutputPolicy,
    /// The number of bytes that were read and not kept.
    discarded: u64,
}

impl OutputReader {
    pub(crate) fn new(pipe: Option<File>, limits: &Limits) -> io::Result<Self> {
        let (cap, policy) = (limits.output, limits.on_output);
        Ok(Self { pipe: set_nonblocking(pipe)?, bytes: Vec::new(), cap, policy, discarded: 0 })
    }

    /// Sets the cap and the policy of what is read from now on.
    pub(crate) fn set_limits(&mut self, limits: &Limits) {
        (self.cap, self.policy) = (limits.output, limits.on_output);
    }

    /// The descriptor to poll until the other end is closed.
    pub(crate) fn poll_fd(&self) -> Option<PollFd<'_>> {
        self.pipe.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN))
    }

    /// Whether the stream exceeded its limit, and the output policy ends the run for it.
    pub(crate) fn exceeds_limit(&self) -> bool {
        self.is_full() && self.policy == OutputPolicy::Kill
    }

    /// Reads what the pipe holds, up to a quota.
    pub(crate) fn read_available(&mut self) {
        self.read_up_to(READ_QUOTA);
    }

    /// Reads what the pipe holds now, and closes it even if the other end is still open.
    pub(crate) fn into_last_captured(mut self) -> CapturedOutput {
        self.drain();
        self.into_captured()
    }

    /// Reads what the pipe holds now.
    pub(crate) fn drain(&mut self) {
        let held = self.pipe.as_ref().and_then(|pipe| ioctl_fionread(pipe).ok());
        self.read_up_to(held.unwrap_or_default());
    }

    /// The bytes that were kept so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same without what is beyond the cap.
    pub(crate) fn capped_bytes(&self) -> &[u8] {
        let cap = usize::try_from(self.cap).unwrap_or(usize::MAX);
        &self.bytes[..self.bytes.len().min(cap)]
    }

    /// What was captured so far. The reader starts anew with the same pipe.
    pub(crate) fn take_captured(&mut self, limits: &Limits) -> io::Result<CapturedOutput> {
        let next = Self::new(self.pipe.take(), limits)?;
        Ok(std::mem::replace(self, next).into_captured())
    }

    /// What was captured, cut at the cap or up to three bytes before it.
    fn into_captured(mut self) -> CapturedOutput {
        let (truncated, total_bytes) = (self.is_full(), self.bytes.len() as u64 + self.discarded);
        if truncated {
            self.bytes.truncate(usize::try_from(self.cap).unwrap_or(usize::MAX));
            self.bytes.truncate(complete_utf8_len(&self.bytes));
        }
        CapturedOutput { bytes: self.bytes, truncated, total_bytes }
    }

    fn is_full(&self) -> bool {
        self.bytes.len() as u64 > self.cap
    }

    fn read_up_to(&mut self, most: u64) {
        // One byte beyond the cap is kept, which shows that the stream exceeded it.
        let room = self.cap.saturating_add(1) - self.bytes.len() as u64;
        let Some(pipe) = &mut self.pipe else { return };
        let kept = most.min(room);
        let mut is_open = true;
        if kept > 0 {
            // The bytes that were read before an error are kept.
            is_open = is_still_open(&pipe.take(kept).read_to_end(&mut self.bytes));
        }
        let beyond = most - kept;
        if is_open
            && beyond > 0
            && self.bytes.len() as u64 > self.cap
            && self.policy == OutputPolicy::Truncate
        {
            let discarded = discard(pipe, beyond);
            is_open = is_still_open(&discarded);
            self.discarded += discarded.unwrap_or_default() as u64;
        }
        if !is_open {
            self.pipe = None;
        }
    }
}

fn is_still_open(read: &io::Result<usize>) -> bool {
    match read {
        Ok(count) => *count > 0,
        Err(error) => is_transient(error),
    }
}

/// Reads up to `most` bytes and drops them. Returns their number.
fn discard(pipe: &mut File, most: u64) -> io::Result<usize> {
    let mut buffer = [0; 16 << 10];
    let mut count = 0;
    while (count as u64) < most {
        match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(_) if count > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// The length without an incomplete UTF-8 character at the end. Bytes that are not UTF-8 are kept.
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
