//! The lines that one file's search finds, with what surrounds them.

use std::collections::VecDeque;
use std::io;

use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use serde::Serialize;

/// Bytes of a line that are shown.
const LONGEST_LINE: usize = 2000;

/// A line that matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The file, relative to the root.
    pub file: String,
    /// The number of the line, from 1.
    pub line: u64,
    /// The line without its end. Of a line beyond 2,000 bytes, the beginning and `…`.
    pub content: String,
    /// The lines before it, when context was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Vec<String>>,
    /// The lines after it, when context was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
}

impl Row {
    /// Bytes of text in it.
    pub(super) fn size(&self) -> usize {
        let around =
            [&self.before, &self.after].into_iter().flatten().flatten().map(String::len).sum::<usize>();
        self.file.len() + self.content.len() + around
    }
}

/// Gathers the rows of one file.
pub(super) struct Matches<'a> {
    file: &'a str,
    context: usize,
    rows: Vec<Row>,
    /// The lines just before, without a gap.
    before: VecDeque<String>,
    /// The first row that still waits for lines after it.
    open: usize,
    is_binary: bool,
}

impl<'a> Matches<'a> {
    pub(super) fn new(file: &'a str, context: usize) -> Self {
        Self { file, context, rows: Vec::new(), before: VecDeque::new(), open: 0, is_binary: false }
    }

    /// The rows; none of a binary file.
    pub(super) fn rows(self) -> Vec<Row> {
        if self.is_binary { Vec::new() } else { self.rows }
    }

    /// A line passes by, in the order of the file.
    fn pass(&mut self, line: &str) {
        if self.context == 0 {
            return;
        }
        for row in &mut self.rows[self.open..] {
            row.after.get_or_insert_default().push(line.to_owned());
        }
        let is_full = |row: &Row| row.after.as_ref().is_some_and(|after| after.len() >= self.context);
        self.open += self.rows[self.open..].iter().take_while(|row| is_full(row)).count();
        self.before.push_back(line.to_owned());
        if self.before.len() > self.context {
            self.before.pop_front();
        }
    }
}

impl Sink for Matches<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let content = shown(found.bytes());
        let before = (self.context > 0).then(|| self.before.iter().cloned().collect());
        let after = (self.context > 0).then(Vec::new);
        let line = found.line_number().unwrap_or_default();
        self.pass(&content);
        self.rows.push(Row { file: self.file.to_owned(), line, content, before, after });
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        self.pass(&shown(found.bytes()));
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.before.clear();
        self.open = self.rows.len();
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.is_binary = true;
        Ok(false)
    }
}

/// A line as it is shown: without its end, bytes that are not UTF-8 replaced.
fn shown(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= LONGEST_LINE {
        return String::from_utf8_lossy(line).into_owned();
    }
    let mut start = String::from_utf8_lossy(&line[..LONGEST_LINE]).into_owned();
    start.push('…');
    start
}
