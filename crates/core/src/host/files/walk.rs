//! Walks a directory tree iteratively, within limits, without following symbolic links; the walk can be cancelled at any time.

use std::io;

use super::editor::UnsavedPaths;
use super::entry::{Entry, EntryKind};
use super::ignore_rules::{self, IgnoreRules};
use super::path::join_path;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::files::name_encoding;
use crate::host::files::open::NamedEntry;
use crate::host::files::operation::FileOperation;
use crate::host::files::symlinks::FinalSymlink;
use crate::host::files::view::FilesView;
use crate::host::io_error::{into_io_error, is_skill_error};
use crate::host::memory::HostMemoryReservation;
use crate::policy::{Access, CancelToken, RunPermissions};

/// Maximum results in one answer.
pub(super) const MAX_RESULTS: usize = 100_000;
/// Maximum entries of one walk.
const MAX_ENTRIES: usize = 1_000_000;
/// Maximum depth of one walk, in folders.
const MAX_DEPTH: usize = 256;
/// Entries between two checks of the cancel token.
const CANCEL_CHECK_ENTRIES: usize = 256;

/// A folder or file that the walk could not read, and the error.
#[derive(Debug)]
pub struct Skipped {
    /// Its path, relative to the root.
    pub path: String,
    /// The error.
    pub error: io::Error,
}

/// The options of a walk.
pub struct WalkOptions<'a> {
    /// The token that cancels the walk.
    pub cancel: &'a CancelToken,
    /// The entries to skip.
    pub filter: WalkFilter,
    /// Maximum depth; 1 means only the content of the start folder. More than 256 levels are an error.
    pub depth: Option<usize>,
}

/// The entries that a walk skips. Folders that the run may not read are listed and not entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkFilter {
    /// Skips hidden and ignored entries.
    SkipHiddenAndIgnored,
    /// Skips ignored entries.
    SkipIgnored,
    /// Skips nothing, and enters folders whether the run may read them or not.
    SkipNothing,
}

impl FilesView<'_> {
    /// The path of a folder with symbolic links resolved, if the run may search there.
    pub fn resolve_folder(&self, path: &str) -> Result<String> {
        let operation = FileOperation::inspect("search", path);
        self.with_resolved_path(operation, FinalSymlink::Follow, |path| {
            match self.files.open_dir(&name_encoding::decode(path)) {
                Err(error) if self.is_unsaved_folder(operation, path, &error)? => Ok(path.to_owned()),
                opened => opened.map(|_| path.to_owned()),
            }
        })
    }

    /// Calls `found` with everything below the folder `start` (a path from [`FilesView::resolve_folder`]), each folder before its
    /// content. Returns what could not be read.
    pub fn walk(
        &self,
        start: &str,
        walk: &WalkOptions<'_>,
        found: impl FnMut(Entry) -> Result<()>,
    ) -> Result<Vec<Skipped>> {
        let unsaved = match walk.filter {
            WalkFilter::SkipNothing => UnsavedPaths::default(),
            _ => self.unsaved_paths(FileOperation::inspect("search", start))?,
        };
        self.walk_with_unsaved(start, walk, &unsaved, found)
    }

    /// The same, with these files that an editor has not saved besides those of the disk.
    pub(super) fn walk_with_unsaved(
        &self,
        start: &str,
        walk: &WalkOptions<'_>,
        unsaved: &UnsavedPaths,
        mut found: impl FnMut(Entry) -> Result<()>,
    ) -> Result<Vec<Skipped>> {
        let operation = FileOperation::inspect("search", start);
        self.check_not_reserved(operation, start)?;
        let mut walker = Walker {
            view: self,
            options: walk,
            unsaved,
            operation,
            pending: Vec::new(),
            skipped: Vec::new(),
            reservation: self.empty_reservation(),
            entry_count: 0,
        };
        walker.start()?;
        while let Some(mut folder) = walker.pending.pop() {
            walk.cancel.check()?;
            let mut weight = folder.memory_size();
            let entries = walker.entries(&folder, &mut weight)?;
            if !walker.may_enter(&folder, &entries)? {
                walker.reservation.shrink(weight);
                continue;
            }
            walker.add_rules(&mut folder, &entries)?;
            for named in entries {
                if let Some(entry) = walker.visit(&folder, named)? {
                    found(entry).map_err(|error| walker.with_context(error))?;
                }
            }
            walker.reservation.shrink(weight);
        }
        Ok(walker.skipped)
    }

    /// Whether the run may read this path, given that it may read the folder that contains it.
    pub(super) fn may_read_entry(&self, path: &str) -> bool {
        self.permissions.is_none_or(|permissions| {
            !permissions.protection().protects_read_of_last(path) || permissions.allows(&Access::read(path))
        })
    }
}

/// The state of a walk.
struct Walker<'a> {
    view: &'a FilesView<'a>,
    options: &'a WalkOptions<'a>,
    unsaved: &'a UnsavedPaths,
    operation: FileOperation<'a>,
    pending: Vec<PendingFolder>,
    skipped: Vec<Skipped>,
    /// The memory of pending folders and skipped entries.
    reservation: HostMemoryReservation,
    entry_count: usize,
}

/// A folder still to be read, with the rules of the folders above it.
struct PendingFolder {
    path: String,
    depth: usize,
    rules: IgnoreRules,
}

impl PendingFolder {
    /// Approximate bytes that it takes.
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
        self.reservation.grow(folder.memory_size()).map_err(|error| self.operation.with_context(error))?;
        self.pending.push(folder);
        Ok(())
    }

    /// The entries of a folder. A folder that cannot be read is skipped, unless it is the start.
    fn entries(&mut self, folder: &PendingFolder, weight: &mut u64) -> Result<Vec<NamedEntry>> {
        let (files, reservation, cancel) = (self.view.files, &mut self.reservation, self.options.cancel);
        let mut seen = self.entry_count;
        let mut count = |length: usize| {
            seen += 1;
            if seen.is_multiple_of(CANCEL_CHECK_ENTRIES) {
                cancel.check().map_err(into_io_error)?;
            }
            if seen > MAX_ENTRIES {
                return Err(io::Error::other(format!("it has more than {MAX_ENTRIES} entries")));
            }
            let bytes = (length + size_of::<NamedEntry>()) as u64 + 32;
            *weight += bytes;
            reservation.grow(bytes).map_err(into_io_error)
        };
        let read = files.read_dir(&name_encoding::decode(&folder.path), &mut count);
        match self.unsaved.add_to(&folder.path, read) {
            Err(error) if folder.depth == 0 || is_skill_error(&error) => Err(self.operation.io_error(error)),
            Err(error) => {
                self.skip(folder.path.clone(), error)?;
                Ok(Vec::new())
            }
            Ok(entries) => Ok(entries),
        }
    }

    fn skip(&mut self, path: String, error: io::Error) -> Result<()> {
        self.reservation.grow(path.len() as u64 + 256).map_err(|error| self.operation.with_context(error))?;
        self.skipped.push(Skipped { path, error });
        Ok(())
    }

    /// Whether the entries of a folder may be visited: it may be protected for what it is. The start was permitted already.
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

    /// Visits one name: skips it, or returns it as an entry; a folder is also queued.
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
                let fault = format!("folders are nested more than {MAX_DEPTH} deep");
                return Err(self.operation.refusal(fault, "search one of its folders"));
            }
            self.push_folder(PendingFolder { path: path.clone(), depth, rules: folder.rules.clone() })?;
        }
        Ok(Some(Entry { path, kind }))
    }

    /// Adds the operation to a memory error; other errors of `found` are unchanged.
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
            return Err(self.operation.refusal(fault, "search one of its folders"));
        }
        if self.entry_count.is_multiple_of(CANCEL_CHECK_ENTRIES) {
            self.options.cancel.check()
        } else {
            Ok(())
        }
    }
}
