//! Searching in files, with ripgrep's own parts on files opened through the door.

use std::fs::File;
use std::io::{self, Read};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};

use super::read::not_regular_file;
use super::walk::{EntryKind, Skipped, WalkFilter, WalkOptions};
use crate::error::{ErrorKind, Result, SkillError};
pub use crate::host::files::grep_sink::GrepMatch;
use crate::host::files::grep_sink::MatchSink;
use crate::host::files::operation::FileOperation;
use crate::host::files::symlinks::FinalSymlink;
use crate::host::files::{FilesView, name_encoding};
use crate::host::memory::{HostMemoryReservation, into_io_error};
use crate::policy::{CancelToken, Limits, ThreadBudget, ThreadPermit};

/// Lines one answer may have.
const MAX_ROWS: usize = 20_000;
/// Bytes a compiled pattern, and what it keeps while it searches, may have.
const MAX_COMPILED_PATTERN_BYTES: usize = 10 << 20;
/// Bytes a regular expression may have. What is read of it may take a thousand times as many.
const MAX_REGEX_BYTES: usize = 8 << 10;
/// Classes a regular expression may have: all of Unicode is gone through for each, and nothing stops that halfway.
const MAX_CLASSES: usize = 100;
/// Bytes a text may have that is searched for.
const MAX_LITERAL_BYTES: usize = 64 << 10;
/// About the bytes that is known of a file that was passed over, beside its name.
const SKIPPED_OVERHEAD_BYTES: u64 = 256;
/// Letters of a pattern that an error repeats.
const MAX_SHOWN_CHARS: usize = 200;
/// Files a thread takes at a time.
const BATCH_FILES: usize = 32;
/// Threads one search may use.
const MAX_THREADS: usize = 4;

/// What to search for.
pub struct Grep {
    matcher: RegexMatcher,
    context: usize,
    max: Option<usize>,
    thread_budget: ThreadBudget,
}

/// What a search found, and what it could not look into.
pub struct GrepResults {
    /// The lines, sorted by file and number.
    pub rows: Vec<GrepMatch>,
    /// What was passed over because it could not be read.
    pub skipped: Vec<Skipped>,
    /// The memory that both take.
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
                "the pattern has {classes} classes such as [a-z] or \\w, and at most {MAX_CLASSES} can be searched for"
            );
            return Err(SkillError::new(ErrorKind::InvalidArgument, sentence)
                .with_help("search for a part of it that is rare"));
        }
        Self::build(&mut RegexMatcherBuilder::new(), pattern, ignore_case, MAX_REGEX_BYTES)
    }

    /// Each row with this many lines before and after it.
    pub fn context(mut self, lines: usize) -> Self {
        self.context = lines;
        self
    }

    /// The first so many rows. Without it, more than 20,000 are an error.
    pub fn max(mut self, rows: usize) -> Self {
        self.max = Some(rows);
        self
    }

    /// Those that may help, which are as many as a run has when never said.
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
            let sentence = format!(
                "the pattern has {} bytes, and at most {longest} can be searched for at a time",
                pattern.len()
            );
            return Err(SkillError::new(ErrorKind::InvalidArgument, sentence)
                .with_help("search for a part of it that is rare"));
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
                    "pattern {:?} cannot be searched for: {:.MAX_SHOWN_CHARS$}",
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

/// How many classes of letters a regular expression has, some counted that are none.
fn count_classes(pattern: &str) -> usize {
    let is_class = |pair: &[u8]| pair[0] == b'\\' && b"wWdDsSpPbB".contains(&pair[1]);
    pattern.matches('[').count() + pattern.as_bytes().windows(2).filter(|pair| is_class(pair)).count()
}

/// A pattern as far as an error repeats it.
fn shown_prefix(pattern: &str) -> String {
    pattern.chars().take(MAX_SHOWN_CHARS).collect()
}

impl FilesView<'_> {
    /// Searches a file, or all files below a folder: hidden ones only when asked, those that `.gitignore` lists, binary ones
    /// (with a NUL byte) and those that the run may not read never.
    pub fn grep(
        &self,
        path: &str,
        grep: &Grep,
        tidy: WalkFilter,
        cancel: &CancelToken,
    ) -> Result<GrepResults> {
        let attempt = FileOperation::inspect("search", path);
        let mut held = self.empty_reservation();
        let (files, skipped) = match self.target(attempt)? {
            (file, EntryKind::File) => (vec![file], Vec::new()),
            (folder, _) => self.files_below(&folder, tidy, cancel, &mut held)?,
        };
        let search = GrepRun {
            failed: OnceLock::new(),
            view: *self,
            grep,
            files: &files,
            cancel,
            next: AtomicUsize::new(0),
            found: AtomicUsize::new(0),
        };
        let mut found = search.run(attempt)?;
        found.skipped.extend(skipped);
        found.rows.truncate(grep.max.unwrap_or(usize::MAX));
        let bytes: usize = found.rows.iter().map(GrepMatch::text_bytes).sum();
        if found.rows.len() > MAX_ROWS || bytes as u64 > Limits::MAX_READ_SIZE {
            let fault = format!("more than {MAX_ROWS} lines or {} bytes match", Limits::MAX_READ_SIZE);
            return Err(attempt.refusal(fault, "narrow the search, or give {max: N} for the first N lines"));
        }
        Ok(found)
    }

    fn target(&self, attempt: FileOperation<'_>) -> Result<(String, EntryKind)> {
        self.with_resolved_path(attempt, FinalSymlink::Follow, |path| {
            let (dir, name) = (&self.files.dir, name_encoding::decode(path));
            match (self.files.backend.open_dir)(dir, &name) {
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                    let file = (self.files.backend.open_file)(dir, &name)?;
                    if file.metadata()?.is_file() {
                        Ok((path.to_owned(), EntryKind::File))
                    } else {
                        Err(not_regular_file())
                    }
                }
                opened => opened.map(|_| (path.to_owned(), EntryKind::Dir)),
            }
        })
    }

    fn files_below(
        &self,
        folder: &str,
        tidy: WalkFilter,
        cancel: &CancelToken,
        held: &mut HostMemoryReservation,
    ) -> Result<(Vec<String>, Vec<Skipped>)> {
        let mut files = Vec::new();
        let skipped = self.walk(folder, &WalkOptions { cancel, filter: tidy, depth: None }, |entry| {
            if entry.kind == EntryKind::File
                && self.may_read_entry(&entry.path)
                && self.may_search_file(&entry.path)?
            {
                held.grow(entry.memory_size())?;
                files.push(entry.path);
            }
            Ok(())
        })?;
        files.sort_unstable();
        Ok((files, skipped))
    }
}

/// One search over a list of files, shared by its threads. Batches are handed out in the order of the list, so once enough
/// rows are found, all that come before them in the list are found or under way.
struct GrepRun<'a> {
    view: FilesView<'a>,
    grep: &'a Grep,
    files: &'a [String],
    cancel: &'a CancelToken,
    next: AtomicUsize,
    found: AtomicUsize,
    /// Why the search cannot go on.
    failed: OnceLock<SkillError>,
}

impl GrepRun<'_> {
    fn run(&self, attempt: FileOperation<'_>) -> Result<GrepResults> {
        let most = MAX_THREADS.min(self.files.len() / (2 * BATCH_FILES));
        // Asking how many there may be takes longer than a few files.
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
            // A thread that does not start leaves more to the others.
            let taken = (0..helpers).map_while(|_| self.grep.thread_budget.try_acquire());
            let helpers: Vec<_> = taken.filter_map(spawn).collect();
            let mut parts = vec![self.work()];
            parts.extend(helpers.into_iter().filter_map(|helper| helper.join().ok()));
            parts
        });
        self.cancel.check()?;
        if let Some(error) = self.failed.get() {
            return Err(attempt.with_context(error.clone()));
        }
        let mut all =
            GrepResults { rows: Vec::new(), skipped: Vec::new(), reservation: self.view.empty_reservation() };
        for part in parts {
            all.rows.extend(part.rows);
            all.skipped.extend(part.skipped);
            all.reservation.join(part.reservation);
        }
        // Stable, and the rows of one file are in order already.
        all.rows.sort_by(|one, other| one.file.cmp(&other.file));
        Ok(all)
    }

    fn work(&self) -> GrepResults {
        let mut part =
            GrepResults { rows: Vec::new(), skipped: Vec::new(), reservation: self.view.empty_reservation() };
        let (mut searcher, mut longest) =
            (self.searcher(), LineBufferMemory { read: 0, held: self.view.empty_reservation() });
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
                // What comes after those in the list is not asked for.
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
                            let noted = part.reservation.grow(2 * path.len() as u64 + SKIPPED_OVERHEAD_BYTES);
                            noted.unwrap_or_else(|error| drop(self.failed.set(error)));
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
        let file = (self.view.files.backend.open_file)(&self.view.files.dir, &name_encoding::decode(path))?;
        let mut reader = CancellableReader { file, cancel: self.cancel, longest };
        searcher.search_reader(&self.grep.matcher, &mut reader, &mut *matches)?;
        if matches.is_empty() {
            return Ok(());
        }
        // Who finds nothing learns nothing, and to ask of every file would cost.
        let about = reader.file.metadata()?;
        let permitted = self.view.check_opened_file(FileOperation::read(path), path, &about);
        permitted.map_err(|refused| match refused.kind() {
            // Of one file; the search goes on.
            ErrorKind::Denied => {
                io::Error::new(io::ErrorKind::PermissionDenied, refused.message().to_owned())
            }
            _ => into_io_error(refused),
        })
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

/// A file whose reading ends when the run does, or when a line of it needs more memory than there is.
struct CancellableReader<'a> {
    file: File,
    cancel: &'a CancelToken,
    longest: &'a mut LineBufferMemory,
}

/// What the longest line takes that a thread came by: its searcher keeps a buffer that was made larger.
struct LineBufferMemory {
    read: usize,
    held: HostMemoryReservation,
}

impl Read for CancellableReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.cancel.check().map_err(into_io_error)?;
        let came = self.file.read(buffer)?;
        // A line that fills the buffer makes it three times as large.
        if came == buffer.len() && came > self.longest.read {
            self.longest.read = came;
            self.longest.held.add(3 * came as u64).map_err(into_io_error)?;
        }
        Ok(came)
    }
}
