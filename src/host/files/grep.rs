//! Searching in files, with ripgrep's own parts on files opened through the door.

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};

use super::attempt::Attempt;
use super::links::Last;
use super::matches::Matches;
pub use super::matches::Row;
use super::read::irregular;
use super::walk::{EntryKind, Skipped, Tidy, Walk};
use super::{View, names};
use crate::error::{ErrorKind, Result, SkillError};
use crate::policy::{CancelToken, Limits, Thread, Threads};

/// Lines one answer may have.
const MOST_ROWS: usize = 20_000;
/// Bytes a compiled pattern, and what it keeps while it searches, may have.
const LARGEST_PATTERN: usize = 10 << 20;
/// Files a thread takes at a time.
const BATCH: usize = 32;
/// Threads one search may use.
const MOST_THREADS: usize = 4;

/// What to search for.
pub struct Grep {
    matcher: RegexMatcher,
    context: usize,
    max: Option<usize>,
    threads: Threads,
}

/// What a search found, and what it could not look into.
pub struct Grepped {
    /// The lines, sorted by file and number.
    pub rows: Vec<Row>,
    /// What was passed over because it could not be read.
    pub skipped: Vec<Skipped>,
}

impl Grep {
    /// Lines with exactly this text.
    pub fn literal(text: &str, ignore_case: bool) -> Result<Self> {
        Self::built(RegexMatcherBuilder::new().fixed_strings(true), text, ignore_case)
    }

    /// Lines that match this regular expression, in the syntax of the `regex` crate.
    pub fn regex(pattern: &str, ignore_case: bool) -> Result<Self> {
        Self::built(&mut RegexMatcherBuilder::new(), pattern, ignore_case)
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
    pub fn threads(mut self, threads: Threads) -> Self {
        self.threads = threads;
        self
    }

    fn built(builder: &mut RegexMatcherBuilder, pattern: &str, ignore_case: bool) -> Result<Self> {
        builder.case_insensitive(ignore_case).line_terminator(Some(b'\n'));
        let matcher = builder.size_limit(LARGEST_PATTERN).dfa_size_limit(LARGEST_PATTERN).build(pattern);
        let matcher = matcher.map_err(|error| {
            SkillError::new(
                ErrorKind::InvalidArgument,
                format!("pattern {pattern:?} cannot be searched for: {error}"),
            )
        })?;
        Ok(Self { matcher, context: 0, max: None, threads: Threads::default() })
    }

    fn most(&self) -> usize {
        self.max.unwrap_or(MOST_ROWS + 1).min(MOST_ROWS + 1)
    }
}

impl View<'_> {
    /// Searches a file, or all files below a folder: hidden ones only when asked, those that `.gitignore` lists, binary ones
    /// (with a NUL byte) and those that the run may not read never.
    pub fn grep(&self, path: &str, grep: &Grep, tidy: Tidy, cancel: &CancelToken) -> Result<Grepped> {
        let attempt = Attempt::look("search", path);
        let (files, skipped) = match self.target(attempt)? {
            (file, EntryKind::File) => (vec![file], Vec::new()),
            (folder, _) => self.files_below(&folder, tidy, cancel)?,
        };
        let search = Search {
            view: *self,
            grep,
            files: &files,
            cancel,
            next: AtomicUsize::new(0),
            found: AtomicUsize::new(0),
        };
        let mut found = search.run()?;
        found.skipped.extend(skipped);
        found.rows.truncate(grep.max.unwrap_or(usize::MAX));
        let bytes: usize = found.rows.iter().map(Row::size).sum();
        if found.rows.len() > MOST_ROWS || bytes as u64 > Limits::FILE {
            let fault = format!("more than {MOST_ROWS} lines or {} bytes match", Limits::FILE);
            return Err(attempt.refused(fault, "narrow the search, or give {max: N} for the first N lines"));
        }
        Ok(found)
    }

    fn target(&self, attempt: Attempt<'_>) -> Result<(String, EntryKind)> {
        self.reach(attempt, Last::Followed, |path| {
            let (dir, name) = (&self.files.dir, names::os(path));
            match (self.files.door.dir)(dir, &name) {
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                    let file = (self.files.door.file)(dir, &name)?;
                    if file.metadata()?.is_file() {
                        Ok((path.to_owned(), EntryKind::File))
                    } else {
                        Err(irregular())
                    }
                }
                opened => opened.map(|_| (path.to_owned(), EntryKind::Dir)),
            }
        })
    }

    fn files_below(
        &self,
        folder: &str,
        tidy: Tidy,
        cancel: &CancelToken,
    ) -> Result<(Vec<String>, Vec<Skipped>)> {
        let mut files = Vec::new();
        let skipped = self.walk(folder, &Walk { cancel, tidy, depth: None }, |entry| {
            let name = entry.path.rsplit('/').next().unwrap_or(&entry.path);
            if entry.kind == EntryKind::File && self.may_look_into(name, &entry.path) {
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
struct Search<'a> {
    view: View<'a>,
    grep: &'a Grep,
    files: &'a [String],
    cancel: &'a CancelToken,
    next: AtomicUsize,
    found: AtomicUsize,
}

impl Search<'_> {
    fn run(&self) -> Result<Grepped> {
        let most = MOST_THREADS.min(self.files.len() / (2 * BATCH));
        // Asking how many there may be takes longer than a few files.
        let threads = || std::thread::available_parallelism().map_or(1, usize::from);
        let helpers = if most < 2 { 0 } else { threads().min(most).saturating_sub(1) };
        let mut parts = std::thread::scope(|scope| {
            let spawn = |thread: Thread| {
                let work = move || {
                    let _thread = thread;
                    self.work()
                };
                std::thread::Builder::new().spawn_scoped(scope, work).ok()
            };
            // A thread that does not start leaves more to the others.
            let taken = (0..helpers).map_while(|_| self.grep.threads.take());
            let helpers: Vec<_> = taken.filter_map(spawn).collect();
            let mut parts = vec![self.work()];
            parts.extend(helpers.into_iter().filter_map(|helper| helper.join().ok()));
            parts
        });
        self.cancel.check()?;
        let mut all = Grepped { rows: Vec::new(), skipped: Vec::new() };
        for part in &mut parts {
            all.rows.append(&mut part.rows);
            all.skipped.append(&mut part.skipped);
        }
        // Stable, and the rows of one file are in order already.
        all.rows.sort_by(|one, other| one.file.cmp(&other.file));
        Ok(all)
    }

    fn work(&self) -> Grepped {
        let mut part = Grepped { rows: Vec::new(), skipped: Vec::new() };
        let mut searcher = self.searcher();
        while self.found.load(Ordering::Relaxed) < self.grep.most() && self.cancel.check().is_ok() {
            let start = self.next.fetch_add(BATCH, Ordering::Relaxed);
            let Some(batch) =
                self.files.get(start..self.files.len().min(start + BATCH)).filter(|batch| !batch.is_empty())
            else {
                break;
            };
            for path in batch {
                let mut matches = Matches::new(path, self.grep.context);
                match self.search(&mut searcher, path, &mut matches) {
                    Ok(()) => {
                        let mut rows = matches.rows();
                        self.found.fetch_add(rows.len(), Ordering::Relaxed);
                        part.rows.append(&mut rows);
                    }
                    Err(error) => part.skipped.push(Skipped { path: path.clone(), error }),
                }
            }
        }
        part
    }

    fn search(&self, searcher: &mut Searcher, path: &str, matches: &mut Matches<'_>) -> io::Result<()> {
        let file = (self.view.files.door.file)(&self.view.files.dir, &names::os(path))?;
        searcher.search_reader(&self.grep.matcher, Stoppable { file, cancel: self.cancel }, matches)
    }

    fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(usize::try_from(Limits::FILE).ok())
            .before_context(self.grep.context)
            .after_context(self.grep.context)
            .max_matches(u64::try_from(self.grep.most()).ok())
            .build()
    }
}

/// A file whose reading ends when the run does.
struct Stoppable<'a> {
    file: File,
    cancel: &'a CancelToken,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("the run was stopped"));
        }
        self.file.read(buffer)
    }
}
