//! The lines of standard input, each a message.

use tokio::sync::mpsc;

use super::direct_stdio::DirectInput;
use super::request_id::{BYTE_ORDER_MARK, IdFinder, SentId};

/// Maximum bytes of a message that a client sends.
pub(super) const MAX_LINE: usize = 16 << 20;
/// Bytes that are read at a time.
const BUFFER: usize = 64 << 10;

/// One line of the input.
pub(super) enum Line {
    Message(Vec<u8>),
    /// It was longer than [`MAX_LINE`], and is gone, except for the id of its request.
    TooLong(Option<SentId>),
}

/// Where the lines come from.
pub(super) enum Lines {
    /// A thread that reads.
    OfThread(mpsc::Receiver<Line>),
    /// An input that the executor waits for.
    Direct(Box<DirectLines>),
}

/// What was read of an input, and is still to be split.
pub(super) struct DirectLines {
    input: DirectInput,
    splitter: LineSplitter,
    buffer: Vec<u8>,
    /// The part of the buffer that has something.
    unread: std::ops::Range<usize>,
}

impl Lines {
    pub(super) fn of_direct(input: DirectInput) -> Self {
        let buffer = vec![0; BUFFER];
        Self::Direct(Box::new(DirectLines { input, splitter: LineSplitter::default(), buffer, unread: 0..0 }))
    }

    /// The next line that ends; `None` when the input has ended. What follows the last line end is not a message. A caller that does not
    /// wait for it loses nothing.
    pub(super) async fn next(&mut self) -> Option<Line> {
        match self {
            Self::OfThread(lines) => lines.recv().await,
            Self::Direct(lines) => lines.next().await,
        }
    }
}

impl DirectLines {
    async fn next(&mut self) -> Option<Line> {
        // An input that always has more would leave the executor to nobody else.
        tokio::task::consume_budget().await;
        loop {
            while !self.unread.is_empty() {
                let (consumed, line) = self.splitter.next_line(&self.buffer[self.unread.clone()]);
                self.unread.start += consumed;
                if line.is_some() {
                    return line;
                }
            }
            let read = self.input.read(&mut self.buffer).await.ok().filter(|read| *read > 0)?;
            self.unread = 0..read;
        }
    }
}

/// Finds the lines in parts of an input.
#[derive(Default)]
pub(super) struct LineSplitter {
    line: Vec<u8>,
    /// Reads what is not kept of a line that is too long.
    too_long: Option<IdFinder>,
}

impl LineSplitter {
    /// How much of this part belongs to the current line, and that line if it ends there.
    pub(super) fn next_line(&mut self, available: &[u8]) -> (usize, Option<Line>) {
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        if let Some(finder) = &mut self.too_long {
            finder.read(part);
        } else if self.line.len() + part.len() > MAX_LINE {
            let line = std::mem::take(&mut self.line);
            let mut finder = IdFinder::default();
            finder.read(line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line));
            finder.read(part);
            self.too_long = Some(finder);
        } else {
            self.line.extend_from_slice(part);
        }
        let line = end.map(|_| match self.too_long.take() {
            Some(finder) => Line::TooLong(finder.into_id()),
            None => Line::Message(std::mem::take(&mut self.line)),
        });
        (part.len() + usize::from(end.is_some()), line)
    }
}
