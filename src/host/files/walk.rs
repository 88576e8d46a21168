//! Walking a tree: without following links, without recursion, within limits, and asked to stop at any time.

use std::io;

use super::ignore_rules::{self, IgnoreRules};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::files::open::NamedEntry;
use crate::host::files::operation::FileOperation;
use crate::host::files::symlinks::FinalSymlink;
use crate::host::files::{FilesView, name_encoding};
use crate::host::memory::{HostMemoryReservation, into_io_error, is_skill_error};
use crate::policy::{Access, CancelToken};

/// Results one answer may have.
pub(super) const MAX_RESULTS: usize = 100_000;
/// Entries one walk may look at.
const MAX_ENTRIES: usize = 1_000_000;
/// Folders one walk may go down.
const MAX_DEPTH: usize = 256;
/// Entries between two looks at the cancel token.
const CANCEL_CHECK_ENTRIES: usize = 256;

/// What kind of thing has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A link, wherever it leads.
    Symlink,
    /// A FIFO, a socket, a device.
    Other,
}

/// Something a walk came by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path, relative to the root.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
}

impl Entry {
    /// About the bytes that it takes in a list.
    pub(crate) fn memory_size(&self) -> u64 {
        const BESIDE: u64 = 96;
        self.path.len() as u64 + BESIDE
    }
}

/// A folder or file the walk could not look into, and why.
#[derive(Debug)]
pub struct Skipped {
    /// Its path, relative to the root.
    pub path: String,
    /// Why.
    pub error: io::Error,
}

/// How to walk.
pub struct WalkOptions<'a> {
    /// What stops the walk.
    pub cancel: &'a CancelToken,
    /// What is passed over.
    pub filter: WalkFilter,
    /// How many folders deep to go; 1 is what lies in the start itself. More than 256 are an error.
    pub depth: Option<usize>,
}

/// Which entries a walk passes over. Folders that the run may not read are named and not entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkFilter {
    /// Hidden names and ignored ones.
    SkipHiddenAndIgnored,
    /// Ignored ones.
    SkipIgnored,
    /// Nothing, and folders are entered whether the run may read them or not.
    SkipNothing,
}

impl FilesView<'_> {
    /// Where a folder really is: its path with links resolved, if the run may look there.
    pub fn resolve_folder(&self, path: &str) -> Result<String> {
        self.with_resolved_path(FileOperation::inspect("search", path), FinalSymlink::Follow, |path| {
            (self.files.backend.open_dir)(&self.files.dir, &name_encoding::decode(path))
                .map(|_| path.to_owned())
        })
    }

    /// Calls `found` with everything below the folder `start` (as [`FilesView::resolve_folder`] gives it), each folder before what
    /// it holds. Answers with what could not be looked into.
    pub fn walk(
        &self,
        start: &str,
        walk: &WalkOptions<'_>,
        mut found: impl FnMut(Entry) -> Result<()>,
    ) -> Result<Vec<Skipped>> {
        let attempt = FileOperation::inspect("search", start);
        self.check_not_reserved(attempt, start)?;
        let mut walker = Walker {
            view: self,
            options: walk,
            operation: attempt,
            pending: Vec::new(),
            skipped: Vec::new(),
            held: self.empty_reservation(),
            entry_count: 0,
        };
        walker.start()?;
        while let Some(mut folder) = walker.pending.pop() {
            walk.cancel.check()?;
            let mut weight = folder.memory_size();
            let entries = walker.entries(&folder, &mut weight)?;
            if !walker.may_enter(&folder, &entries)? {
                walker.held.shrink(weight);
                continue;
            }
            walker.add_rules(&mut folder, &entries)?;
            for named in entries {
                if let Some(entry) = walker.visit(&folder, named)? {
                    found(entry).map_err(|error| walker.with_context(error))?;
                }
            }
            walker.held.shrink(weight);
        }
        Ok(walker.skipped)
    }

    /// Whether the run may read what has this path, given that it may read the folder it lies in.
    pub(super) fn may_read_entry(&self, path: &str) -> bool {
        self.permissions.is_none_or(|permissions| {
            !permissions.protection().protects_read_of_last(path) || permissions.allows(&Access::read(path))
        })
    }
}

/// A walk under way.
struct Walker<'a> {
    view: &'a FilesView<'a>,
    options: &'a WalkOptions<'a>,
    operation: FileOperation<'a>,
    pending: Vec<PendingFolder>,
    skipped: Vec<Skipped>,
    /// The memory of what lies ahead, and of what was passed over.
    held: HostMemoryReservation,
    entry_count: usize,
}

/// A folder yet to be looked into, with the rules of the folders above it.
struct PendingFolder {
    path: String,
    depth: usize,
    rules: IgnoreRules,
}

impl PendingFolder {
    /// About the bytes that it takes.
    fn memory_size(&self) -> u64 {
        (self.path.len() + size_of::<Self>()) as u64 + 32
    }
}

impl Walker<'_> {
    fn start(&mut self) -> Result<()> {
        let path = self.operation.path;
        let rules = match self.options.filter {
            WalkFilter::SkipNothing => IgnoreRules::default(),
            _ => {
                IgnoreRules::inherited(self.view, path).map_err(|error| self.operation.with_context(error))?
            }
        };
        self.push_folder(PendingFolder { path: path.to_owned(), depth: 0, rules })
    }

    fn push_folder(&mut self, folder: PendingFolder) -> Result<()> {
        self.held.grow(folder.memory_size()).map_err(|error| self.operation.with_context(error))?;
        self.pending.push(folder);
        Ok(())
    }

    /// What a folder holds. One that cannot be read is passed over, unless it is the start.
    fn entries(&mut self, folder: &PendingFolder, weight: &mut u64) -> Result<Vec<NamedEntry>> {
        let (files, held, cancel) = (self.view.files, &mut self.held, self.options.cancel);
        let mut seen = self.entry_count;
        let mut count = |length: usize| {
            seen += 1;
            if seen.is_multiple_of(CANCEL_CHECK_ENTRIES) {
                cancel.check().map_err(into_io_error)?;
            }
            if seen > MAX_ENTRIES {
                return Err(io::Error::other("it holds too much"));
            }
            let bytes = (length + size_of::<NamedEntry>()) as u64 + 32;
            *weight += bytes;
            held.grow(bytes).map_err(into_io_error)
        };
        match (files.backend.read_dir)(&files.dir, &name_encoding::decode(&folder.path), &mut count) {
            Err(error) if folder.depth == 0 || is_skill_error(&error) => Err(self.operation.io_error(error)),
            Err(error) => {
                self.skip(folder.path.clone(), error)?;
                Ok(Vec::new())
            }
            Ok(entries) => Ok(entries),
        }
    }

    fn skip(&mut self, path: String, error: io::Error) -> Result<()> {
        self.held.grow(path.len() as u64 + 256).map_err(|error| self.operation.with_context(error))?;
        self.skipped.push(Skipped { path, error });
        Ok(())
    }

    /// Whether the names in a folder may be passed by: it may be protected for what it is. The start was permitted.
    fn may_enter(&self, folder: &PendingFolder, entries: &[NamedEntry]) -> Result<bool> {
        let has = |name: &str| entries.iter().any(|(found, _)| found == name);
        if self.options.filter == WalkFilter::SkipNothing || folder.depth == 0 {
            Ok(true)
        } else {
            self.view.may_enter(&folder.path, has)
        }
    }

    /// Adds the folder's own rules to those from above.
    fn add_rules(&mut self, folder: &mut PendingFolder, entries: &[NamedEntry]) -> Result<()> {
        let is_rules =
            |(name, kind): &NamedEntry| *kind == EntryKind::File && name == ignore_rules::FILE_NAME;
        if self.options.filter == WalkFilter::SkipNothing || !entries.iter().any(is_rules) {
            return Ok(());
        }
        match folder.rules.clone().with_folder(self.view, &folder.path) {
            Ok(rules) => folder.rules = rules,
            Err(error) if is_skill_error(&error) => return Err(self.operation.io_error(error)),
            Err(error) => self.skip(join_path(&folder.path, ignore_rules::FILE_NAME), error)?,
        }
        Ok(())
    }

    /// Passes by one name: over it, or with it as an entry, and with a folder to look into later.
    fn visit(&mut self, folder: &PendingFolder, (name, kind): NamedEntry) -> Result<Option<Entry>> {
        self.count_entry()?;
        let name = name_encoding::encode(&name);
        if self.options.filter == WalkFilter::SkipHiddenAndIgnored && name.starts_with('.') {
            return Ok(None);
        }
        let (path, is_dir) = (join_path(&folder.path, &name), kind == EntryKind::Dir);
        if folder.rules.ignores(&path, is_dir) {
            return Ok(None);
        }
        let depth = folder.depth + 1;
        if is_dir && self.options.depth.is_none_or(|most| depth < most) && self.may_descend(&path) {
            if depth >= MAX_DEPTH {
                let fault = format!("folders lie more than {MAX_DEPTH} deep");
                return Err(self.operation.refusal(fault, "search a folder below it"));
            }
            self.push_folder(PendingFolder { path: path.clone(), depth, rules: folder.rules.clone() })?;
        }
        Ok(Some(Entry { path, kind }))
    }

    /// The memory that ran out says what it was for; whatever else `found` says is its own.
    fn with_context(&self, error: SkillError) -> SkillError {
        if error.kind() == ErrorKind::Memory { self.operation.with_context(error) } else { error }
    }

    fn may_descend(&self, path: &str) -> bool {
        let is_open = !self.view.files.is_reserved(path);
        is_open && (self.options.filter == WalkFilter::SkipNothing || self.view.may_read_entry(path))
    }

    fn count_entry(&mut self) -> Result<()> {
        self.entry_count += 1;
        if self.entry_count > MAX_ENTRIES {
            let fault = format!("there are more than {MAX_ENTRIES} files and folders");
            return Err(self.operation.refusal(fault, "search a folder below it"));
        }
        if self.entry_count.is_multiple_of(CANCEL_CHECK_ENTRIES) {
            self.options.cancel.check()
        } else {
            Ok(())
        }
    }
}

/// The path of a name in a folder.
pub(super) fn join_path(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        return name.to_owned();
    }
    let mut path = String::with_capacity(folder.len() + 1 + name.len());
    path.push_str(folder);
    path.push('/');
    path.push_str(name);
    path
}
