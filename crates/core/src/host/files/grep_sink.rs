//! Collects the matching lines of one file with their context lines.

use std::collections::VecDeque;
use std::io;

use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use serde_json::{Map, Value};

use crate::host::io_error::into_io_error;
use crate::host::memory::HostMemoryReservation;

/// Maximum bytes of a line that are shown.
const MAX_LINE_BYTES: usize = 2000;

/// Approximate bytes of a match, and of the value that it becomes, besides its texts.
const ROW_OVERHEAD_BYTES: u64 = 1 << 10;

/// A line that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepMatch {
    /// The file, relative to the root.
    pub file: String,
    /// The line number, from 1.
    pub line: u64,
    /// The line without its line ending. Of a line beyond 2,000 bytes, the beginning and `…`.
    pub content: String,
    /// The lines before it, if context was requested.
    pub before: Option<Vec<Value>>,
    /// The lines after it, if context was requested.
    pub after: Option<Vec<Value>>,
}

impl GrepMatch {
    /// The JSON object that results contain.
    pub(crate) fn into_value(self) -> Value {
        let mut record = Map::new();
        record.insert("file".into(), self.file.into());
        record.insert("line".into(), self.line.into());
        record.insert("content".into(), self.content.into());
        record.extend(self.before.map(|lines| ("before".into(), lines.into())));
        record.extend(self.after.map(|lines| ("after".into(), lines.into())));
        Value::Object(record)
    }

    /// Bytes of its texts.
    pub(super) fn text_bytes(&self) -> usize {
        let around = [&self.before, &self.after]
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::len)
            .sum::<usize>();
        self.file.len() + self.content.len() + around
    }
}

/// Collects the matches of one file.
pub(super) struct MatchSink<'a> {
    file: &'a str,
    context: usize,
    rows: Vec<GrepMatch>,
    /// The consecutive lines just before the current one.
    before: VecDeque<String>,
    /// The first match that still needs lines after it.
    first_incomplete: usize,
    is_binary: bool,
    /// The memory of all matches found.
    reservation: &'a mut HostMemoryReservation,
}

impl<'a> MatchSink<'a> {
    pub(super) fn new(file: &'a str, context: usize, reservation: &'a mut HostMemoryReservation) -> Self {
        Self {
            file,
            context,
            rows: Vec::new(),
            before: VecDeque::new(),
            first_incomplete: 0,
            is_binary: false,
            reservation,
        }
    }

    /// Whether no match was found.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The matches; none for a binary file.
    pub(super) fn rows(self) -> Vec<GrepMatch> {
        if self.is_binary { Vec::new() } else { self.rows }
    }

    /// Receives the next line, in the order of the file.
    fn push_context_line(&mut self, line: &str) -> io::Result<()> {
        if self.context == 0 {
            return Ok(());
        }
        // Counted once for each match that has it as context, and once for later ones.
        let copies = (self.rows.len() - self.first_incomplete + 1) as u64;
        self.reservation.grow(copies * line_memory_size(line)).map_err(into_io_error)?;
        for row in &mut self.rows[self.first_incomplete..] {
            row.after.get_or_insert_default().push(line.into());
        }
        let is_full = |row: &GrepMatch| row.after.as_ref().is_some_and(|after| after.len() >= self.context);
        self.first_incomplete +=
            self.rows[self.first_incomplete..].iter().take_while(|row| is_full(row)).count();
        self.before.push_back(line.to_owned());
        if self.before.len() > self.context {
            self.before.pop_front();
        }
        Ok(())
    }
}

impl Sink for MatchSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let content = display_line(found.bytes());
        let before_it = self.before.iter().map(|line| line_memory_size(line)).sum::<u64>();
        let row = ROW_OVERHEAD_BYTES + self.file.len() as u64 + content.len() as u64;
        self.reservation.grow(row + before_it).map_err(into_io_error)?;
        let before =
            (self.context > 0).then(|| self.before.iter().map(|line| line.as_str().into()).collect());
        let after = (self.context > 0).then(Vec::new);
        let line = found.line_number().unwrap_or_default();
        self.push_context_line(&content)?;
        self.rows.push(GrepMatch { file: self.file.to_owned(), line, content, before, after });
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        self.push_context_line(&display_line(found.bytes()))?;
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.before.clear();
        self.first_incomplete = self.rows.len();
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.is_binary = true;
        Ok(false)
    }
}

/// Approximate bytes that a context line takes.
fn line_memory_size(line: &str) -> u64 {
    const BESIDE: u64 = 112;
    line.len() as u64 + BESIDE
}

/// A line as it is shown: without its line ending, and with bytes replaced that are not UTF-8.
fn display_line(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= MAX_LINE_BYTES {
        return String::from_utf8_lossy(line).into_owned();
    }
    let mut start = String::from_utf8_lossy(&line[..MAX_LINE_BYTES]).into_owned();
    start.push('…');
    start
}
