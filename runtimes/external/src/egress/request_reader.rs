//! Reads the requests of a connection, waiting for them: their lines, and their bodies without the framing.

use std::io::{self, Read};
use std::time::Instant;

use super::client_stream::ClientStream;
use super::connection::INSPECTION_TIME;
use super::http_guard::{Framing, MAX_CHUNK_LINE_BYTES, MAX_HEAD_BYTES, check_trailer, parse_chunk_length};
use super::network_log::NetworkLog;
use super::refusal::Refusal;

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 16 << 10;

/// The requests of one connection.
pub(super) struct RequestReader<'s> {
    stream: &'s dyn ClientStream,
    log: &'s NetworkLog,
    held: HeldBytes,
}

/// What was read and belongs to what comes next.
#[derive(Default)]
struct HeldBytes {
    bytes: Vec<u8>,
    /// Where those begin that were not taken yet.
    start: usize,
}

impl HeldBytes {
    fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn extend(&mut self, bytes: &[u8]) {
        // What was taken is removed when there is as much of it as of the rest, so that no byte is moved often.
        if self.start >= self.bytes.len() - self.start {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn take(&mut self, count: usize) -> &[u8] {
        let start = self.start;
        self.start += count;
        &self.bytes[start..self.start]
    }
}

/// Why there is no request.
pub(super) enum HeadError {
    Refused(Refusal),
    Broken(io::Error),
}

/// The body of a request.
pub(super) struct BodyReader<'r, 's> {
    reader: &'r mut RequestReader<'s>,
    state: BodyState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyState {
    /// So many bytes are left of the body.
    Counted(u64),
    ChunkLine,
    /// So many bytes are left of a chunk.
    Chunk(u64),
    Ended,
}

impl<'s> RequestReader<'s> {
    pub(super) fn new(stream: &'s dyn ClientStream, log: &'s NetworkLog) -> Self {
        Self { stream, log, held: HeldBytes::default() }
    }

    /// The lines of the next request, with the empty one; `None` if the connection ends before it begins. The time for them begins with
    /// their first byte.
    pub(super) fn read_head(&mut self) -> Result<Option<Vec<u8>>, HeadError> {
        let mut until = (!self.held.as_slice().is_empty()).then(|| Instant::now() + INSPECTION_TIME);
        loop {
            if let Some(head) = self.take_through(b"\r\n\r\n") {
                self.stream.set_read_timeout(None).map_err(HeadError::Broken)?;
                return if head.len() > MAX_HEAD_BYTES { Err(too_long()) } else { Ok(Some(head)) };
            }
            if self.held.as_slice().len() >= MAX_HEAD_BYTES {
                return Err(too_long());
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(HeadError::Refused(Refusal::Slow));
            }
            self.stream.set_read_timeout(left).map_err(HeadError::Broken)?;
            match self.read_more() {
                Ok(0) if self.held.as_slice().is_empty() => return Ok(None),
                Ok(0) => return Err(HeadError::Broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => until = until.or_else(|| Some(Instant::now() + INSPECTION_TIME)),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                }
                Err(error) => return Err(HeadError::Broken(error)),
            }
        }
    }

    /// The body that follows the lines which were read last.
    pub(super) fn body(&mut self, framing: Framing) -> BodyReader<'_, 's> {
        let state = match framing {
            Framing::NoBody => BodyState::Ended,
            Framing::Length(length) => BodyState::Counted(length),
            Framing::Chunked => BodyState::ChunkLine,
        };
        BodyReader { reader: self, state }
    }

    fn read_more(&mut self) -> io::Result<usize> {
        let mut buffer = [0; BUFFER_BYTES];
        let count = self.stream.read(&mut buffer)?;
        self.log.count_sent(count);
        self.held.extend(&buffer[..count]);
        Ok(count)
    }

    /// Takes what is held through this end.
    fn take_through(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        let at = memchr::memmem::find(self.held.as_slice(), end)?;
        Some(self.held.take(at + end.len()).to_vec())
    }

    /// One line without its end, of at most so many bytes with it.
    fn read_line(&mut self, max: usize) -> io::Result<Vec<u8>> {
        loop {
            if let Some(mut line) = self.take_through(b"\r\n") {
                if line.len() > max {
                    return Err(invalid(Refusal::Http("a line is too long")));
                }
                line.truncate(line.len() - 2);
                return Ok(line);
            }
            if self.held.as_slice().len() >= max {
                return Err(invalid(Refusal::Http("a line is too long")));
            }
            if self.read_more()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Bytes of a body of which so many are left.
    fn read_counted(&mut self, buffer: &mut [u8], left: u64) -> io::Result<usize> {
        if self.held.as_slice().is_empty() && self.read_more()? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let count = self.held.as_slice().len().min(buffer.len()).min(left);
        buffer[..count].copy_from_slice(self.held.take(count));
        Ok(count)
    }
}

impl BodyReader<'_, '_> {
    /// Whether all of it was read.
    pub(super) fn has_ended(&self) -> bool {
        self.state == BodyState::Ended
    }

    /// Reads the lines after a body in chunks, which are not passed on.
    fn read_trailers(&mut self) -> io::Result<()> {
        let mut left = MAX_HEAD_BYTES;
        loop {
            let line = self.reader.read_line(left)?;
            if line.is_empty() {
                return Ok(());
            }
            check_trailer(&line).map_err(invalid)?;
            left = left.saturating_sub(line.len() + 2);
        }
    }
}

impl Read for BodyReader<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.state {
                BodyState::Ended => return Ok(0),
                BodyState::Counted(left) => {
                    let count = self.reader.read_counted(buffer, left)?;
                    let left = left - count as u64;
                    self.state = if left == 0 { BodyState::Ended } else { BodyState::Counted(left) };
                    return Ok(count);
                }
                BodyState::ChunkLine => {
                    let line = self.reader.read_line(MAX_CHUNK_LINE_BYTES)?;
                    self.state = match parse_chunk_length(&line).map_err(invalid)? {
                        0 => {
                            self.read_trailers()?;
                            BodyState::Ended
                        }
                        length => BodyState::Chunk(length),
                    };
                }
                BodyState::Chunk(left) => {
                    let count = self.reader.read_counted(buffer, left)?;
                    let left = left - count as u64;
                    self.state = BodyState::Chunk(left);
                    if left == 0 {
                        if !self.reader.read_line(2)?.is_empty() {
                            return Err(invalid(Refusal::Http("a chunk is longer than its length says")));
                        }
                        self.state = BodyState::ChunkLine;
                    }
                    return Ok(count);
                }
            }
        }
    }
}

fn too_long() -> HeadError {
    HeadError::Refused(Refusal::Http("a line or a head is too long, or does not end as it must"))
}

fn invalid(refusal: Refusal) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, refusal.reason())
}
