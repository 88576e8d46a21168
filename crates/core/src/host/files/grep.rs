//! Searches file contents with ripgrep's libraries, on files that the open backend opened.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use serde_json::{Map, Value};

use super::editor::UnsavedPaths;
use super::entry::EntryKind;
use super::walk::{Skipped, WalkFilter, WalkOptions};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::files::name_encoding;
use crate::host::files::operation::{FileOperation, not_regular_file};
use crate::host::files::read::FileContent;
use crate::host::files::symlinks::FinalSymlink;
use crate::host::files::view::FilesView;
use crate::host::io_error::into_io_error;
use crate::host::memory::HostMemoryReservation;
use crate::policy::{CancelToken, Limits, ThreadBudget, ThreadPermit};

/// Maximum lines in one result.
const MAX_ROWS: usize = 20_000;
/// Maximum bytes of a compiled pattern, and of the memory that it uses during a search.
const MAX_COMPILED_PATTERN_BYTES: usize = 10 << 20;
/// Maximum bytes of a regular expression. Its parsed form may take a thousand times as many.
const MAX_REGEX_BYTES: usize = 8 << 10;
/// Maximum character classes of a regular expression: each one iterates over all of Unicode, and nothing stops that halfway.
const MAX_CLASSES: usize = 100;
/// Maximum bytes of a text to search for.
const MAX_LITERAL_BYTES: usize = 64 << 10;
/// Approximate bytes stored about a skipped file, besides its name.
const SKIPPED_OVERHEAD_BYTES: u64 = 256;
/// Maximum characters of a pattern that an error repeats.
const MAX_SHOWN_CHARS: usize = 200;
/// Files that a thread takes at a time.
const BATCH_FILES: usize = 32;
/// Maximum threads of one search.
const MAX_THREADS: usize = 4;

/// What to search for.
pub struct Grep {
    matcher: RegexMatcher,
    context: usize,
    max: Option<usize>,
    thread_budget: ThreadBudget,
}

/// The result of a search, and the files that could not be searched.
pub struct GrepResults {
    /// The lines, sorted by file and number.
    pub rows: Vec<GrepMatch>,
    /// Files and folders that were skipped because they could not be read.
    pub skipped: Vec<Skipped>,
    /// The memory that both hold.
    pub(crate) reservation: HostMemoryReservation,
}

impl Grep {
    /// Lines with exactly this text.
    pub fn literal(text: &str, ignore_case: bool) -> Result<Self> {
        Self::build(RegexMatcherBuilder::new().fixed_strings(true), text, ignore_case, MAX_LITERAL_BYTES)
    }

    /// Lines that match this regular expression, in the syntax of the `regex` crate.
    pub fn regex(pattern: &str, ignore_case: bool) -> Result<Self> {
        let classes = count_classes(pattern);
        if classes > MAX_CLASSES {
            let sentence = format!(
                "the pattern has {classes} classes such as [a-z] or \\w; the maximum is {MAX_CLASSES}"
            );
            return Err(SkillError::new(ErrorKind::InvalidArgument, sentence)
                .with_help("search for a rare part of it"));
        }
        Self::build(&mut RegexMatcherBuilder::new(), pattern, ignore_case, MAX_REGEX_BYTES)
    }

    /// Returns each match with this many lines before and after it.
    pub fn context(mut self, lines: usize) -> Self {
        self.context = lines;
        self
    }

    /// Returns only the first matches, up to this number. Without it, more than 20,000 are an error.
    pub fn max(mut self, rows: usize) -> Self {
        self.max = Some(rows);
        self
    }

    /// The thread budget for helper threads; by default that of a run.
    pub fn thread_budget(mut self, threads: ThreadBudget) -> Self {
        self.thread_budget = threads;
        self
    }

    fn build(
        builder: &mut RegexMatcherBuilder,
        pattern: &str,
        ignore_case: bool,
        longest: usize,
    ) -> Result<Self> {
        if pattern.len() > longest {
            let sentence = format!("the pattern has {} bytes; the maximum is {longest}", pattern.len());
            return Err(SkillError::new(ErrorKind::InvalidArgument, sentence)
                .with_help("search for a rare part of it"));
        }
        builder.case_insensitive(ignore_case).line_terminator(Some(b'\n'));
        let matcher = builder
            .size_limit(MAX_COMPILED_PATTERN_BYTES)
            .dfa_size_limit(MAX_COMPILED_PATTERN_BYTES)
            .build(pattern);
        let matcher = matcher.map_err(|error| {
            SkillError::new(
                ErrorKind::InvalidArgument,
                format!(
                    "invalid pattern {:?}: {:.MAX_SHOWN_CHARS$}",
                    shown_prefix(pattern),
                    error.to_string()
                ),
            )
        })?;
        Ok(Self { matcher, context: 0, max: None, thread_budget: ThreadBudget::default() })
    }

    fn max_rows(&self) -> usize {
        self.max.unwrap_or(MAX_ROWS + 1).min(MAX_ROWS + 1)
    }
}

/// The number of character classes of a regular expression; the count may be too high.
fn count_classes(pattern: &str) -> usize {
    let is_class = |pair: &[u8]| pair[0] == b'\\' && b"wWdDsSpPbB".contains(&pair[1]);
    pattern.matches('[').count() + pattern.as_bytes().windows(2).filter(|pair| is_class(pair)).count()
}

/// A pattern, truncated to the length that an error repeats.
fn shown_prefix(pattern: &str) -> String {
    pattern.chars().take(MAX_SHOWN_CHARS).collect()
}

impl FilesView<'_> {
    /// Searches a file, or all files below a folder. Hidden files are searched only on request; files that `.gitignore` lists,
    /// binary files (with a NUL byte) and files that the run may not read are never searched.
    pub fn grep(
        &self,
        path: &str,
        grep: &Grep,
        filter: WalkFilter,
        cancel: &CancelToken,
    ) -> Result<GrepResults> {
        let operation = FileOperation::inspect("search", path);
        let unsaved = self.unsaved_paths(operation)?;
        let mut reservation = self.empty_reservation();
        let (files, skipped) = match self.target(operation, &unsaved)? {
            (file, EntryKind::File) => (vec![file], Vec::new()),
            (folder, _) => {
                let walk = WalkOptions { cancel, filter, depth: None };
                self.files_below(&folder, &walk, &unsaved, &mut reservation)?
            }
        };
        let search = GrepRun {
            failed: OnceLock::new(),
            view: *self,
            grep,
            files: &files,
            unsaved: &unsaved,
            cancel,
            next: AtomicUsize::new(0),
            found: AtomicUsize::new(0),
        };
        let mut found = search.run(operation)?;
        found.skipped.extend(skipped);
        found.rows.truncate(grep.max.unwrap_or(usize::MAX));
        let bytes: usize = found.rows.iter().map(GrepMatch::text_bytes).sum();
        if found.rows.len() > MAX_ROWS || bytes as u64 > Limits::MAX_READ_SIZE {
            let fault = format!("more than {MAX_ROWS} lines or {} bytes match", Limits::MAX_READ_SIZE);
            return Err(operation.refusal(fault, "narrow the search, or give {max: N} for the first N lines"));
        }
        Ok(found)
    }

    fn target(&self, operation: FileOperation<'_>, unsaved: &UnsavedPaths) -> Result<(String, EntryKind)> {
        self.with_resolved_path(operation, FinalSymlink::Follow, |path| {
            let name = name_encoding::decode(path);
            match self.files.open_dir(&name) {
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                    let file = self.files.open_file(&name)?;
                    if file.metadata()?.is_file() {
                        Ok((path.to_owned(), EntryKind::File))
                    } else {
                        Err(not_regular_file())
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound && unsaved.contains(path) => {
                    Ok((path.to_owned(), EntryKind::File))
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound && unsaved.has_below(path) => {
                    Ok((path.to_owned(), EntryKind::Dir))
                }
                opened => opened.map(|_| (path.to_owned(), EntryKind::Dir)),
            }
        })
    }

    fn files_below(
        &self,
        folder: &str,
        walk: &WalkOptions<'_>,
        unsaved: &UnsavedPaths,
        reservation: &mut HostMemoryReservation,
    ) -> Result<(Vec<String>, Vec<Skipped>)> {
        let mut files = Vec::new();
        let skipped = self.walk_with_unsaved(folder, walk, unsaved, |entry| {
            if entry.kind == EntryKind::File
                && self.may_read_entry(&entry.path)
                && self.may_search_file(&entry.path)?
            {
                reservation.grow(entry.memory_size())?;
                files.push(entry.path);
            }
            Ok(())
        })?;
        files.sort_unstable();
        Ok((files, skipped))
    }
}

/// One search over a list of files, shared by its threads. Batches are assigned in the order of the list, so once enough matches
/// are found, all that come before them in the list are found or in progress.
struct GrepRun<'a> {
    view: FilesView<'a>,
    grep: &'a Grep,
    files: &'a [String],
    /// Those of them that are searched as an editor has them.
    unsaved: &'a UnsavedPaths,
    cancel: &'a CancelToken,
    next: AtomicUsize,
    found: AtomicUsize,
    /// The error that ended the search.
    failed: OnceLock<SkillError>,
}

impl GrepRun<'_> {
    fn run(&self, operation: FileOperation<'_>) -> Result<GrepResults> {
        let most = MAX_THREADS.min(self.files.len() / (2 * BATCH_FILES));
        // Determining the number of processors takes longer than searching a few files.
        let threads = || std::thread::available_parallelism().map_or(1, usize::from);
        let helpers = if most < 2 { 0 } else { threads().min(most).saturating_sub(1) };
        let parts = std::thread::scope(|scope| {
            let spawn = |thread: ThreadPermit| {
                let work = move || {
                    let _thread = thread;
                    self.work()
                };
                std::thread::Builder::new().spawn_scoped(scope, work).ok()
            };
            // If a thread does not start, the others do its work.
            let taken = (0..helpers).map_while(|_| self.grep.thread_budget.try_acquire());
            let helpers: Vec<_> = taken.filter_map(spawn).collect();
            let mut parts = vec![self.work()];
            parts.extend(helpers.into_iter().filter_map(|helper| helper.join().ok()));
            parts
        });
        self.cancel.check()?;
        if let Some(error) = self.failed.get() {
            return Err(operation.with_context(error.clone()));
        }
        let mut all =
            GrepResults { rows: Vec::new(), skipped: Vec::new(), reservation: self.view.empty_reservation() };
        for part in parts {
            all.rows.extend(part.rows);
            all.skipped.extend(part.skipped);
            all.reservation.join(part.reservation);
        }
        // The sort is stable, and the matches of one file are in order already.
        all.rows.sort_by(|one, other| one.file.cmp(&other.file));
        Ok(all)
    }

    fn work(&self) -> GrepResults {
        let mut part =
            GrepResults { rows: Vec::new(), skipped: Vec::new(), reservation: self.view.empty_reservation() };
        let (mut searcher, mut longest) =
            (self.searcher(), LineBufferMemory { read: 0, reservation: self.view.empty_reservation() });
        let goes_on = || self.failed.get().is_none() && self.cancel.check().is_ok();
        while self.found.load(Ordering::Relaxed) < self.grep.max_rows() && goes_on() {
            let start = self.next.fetch_add(BATCH_FILES, Ordering::Relaxed);
            let Some(batch) = self
                .files
                .get(start..self.files.len().min(start + BATCH_FILES))
                .filter(|batch| !batch.is_empty())
            else {
                break;
            };
            let mut found = 0;
            for path in batch {
                // Files after those in the list are not needed.
                if found >= self.grep.max_rows() || !goes_on() {
                    break;
                }
                let mut matches = MatchSink::new(path, self.grep.context, &mut part.reservation);
                match self.search(&mut searcher, &mut longest, path, &mut matches) {
                    Ok(()) => {
                        let mut rows = matches.rows();
                        found += rows.len();
                        self.found.fetch_add(rows.len(), Ordering::Relaxed);
                        part.rows.append(&mut rows);
                    }
                    Err(error) => match error.downcast::<SkillError>() {
                        Ok(error) => drop(self.failed.set(error)),
                        Err(error) => {
                            let counted =
                                part.reservation.grow(2 * path.len() as u64 + SKIPPED_OVERHEAD_BYTES);
                            counted.unwrap_or_else(|error| drop(self.failed.set(error)));
                            part.skipped.push(Skipped { path: path.clone(), error });
                        }
                    },
                }
            }
        }
        part
    }

    fn search(
        &self,
        searcher: &mut Searcher,
        longest: &mut LineBufferMemory,
        path: &str,
        matches: &mut MatchSink<'_>,
    ) -> io::Result<()> {
        let file = if self.unsaved.contains(path) {
            self.view.open(FileOperation::read(path)).map_err(of_one_file)?.file
        } else {
            FileContent::Disk(self.view.files.open_file(&name_encoding::decode(path))?)
        };
        let mut reader = CancellableReader { file, cancel: self.cancel, longest };
        searcher.search_reader(&self.grep.matcher, &mut reader, &mut *matches)?;
        if matches.is_empty() {
            return Ok(());
        }
        // An unsaved content was checked when it was opened.
        let FileContent::Disk(file) = &reader.file else { return Ok(()) };
        // A file without a match discloses nothing, and checking every file would be slow.
        let metadata = file.metadata()?;
        self.view.check_opened_file(FileOperation::read(path), path, &metadata).map_err(of_one_file)
    }

    fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(usize::try_from(Limits::MAX_READ_SIZE).ok())
            .before_context(self.grep.context)
            .after_context(self.grep.context)
            .max_matches(u64::try_from(self.grep.max_rows()).ok())
            .build()
    }
}

/// An error that only concerns one file ends the search of that file, any other one the whole search.
fn of_one_file(error: SkillError) -> io::Error {
    match error.kind() {
        ErrorKind::Denied | ErrorKind::OutsideProject => {
            io::Error::new(io::ErrorKind::PermissionDenied, error.message().to_owned())
        }
        ErrorKind::Io => io::Error::other(error.message().to_owned()),
        _ => into_io_error(error),
    }
}

/// A reader that fails when the run is cancelled, or when a line needs more memory than is available.
struct CancellableReader<'a> {
    file: FileContent,
    cancel: &'a CancelToken,
    longest: &'a mut LineBufferMemory,
}

/// The size of the longest line that a thread found: its searcher keeps an enlarged buffer.
struct LineBufferMemory {
    read: usize,
    reservation: HostMemoryReservation,
}

impl Read for CancellableReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.cancel.check().map_err(into_io_error)?;
        let came = self.file.read(buffer)?;
        // A line that fills the buffer triples its size.
        if came == buffer.len() && came > self.longest.read {
            self.longest.read = came;
            self.longest.reservation.add(3 * came as u64).map_err(into_io_error)?;
        }
        Ok(came)
    }
}

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
    fn text_bytes(&self) -> usize {
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
