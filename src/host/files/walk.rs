//! Walking a tree: without following links, without recursion, within limits, and asked to stop at any time.

use std::io;

use super::attempt::Attempt;
use super::door::Named;
use super::ignore_rules::{self, IgnoreRules};
use super::links::Last;
use super::{View, names};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::memory::{Held, is_own, through_io};
use crate::policy::{CancelToken, Need};

/// Results one answer may have.
pub(super) const MOST_RESULTS: usize = 100_000;
/// Entries one walk may look at.
const MOST_ENTRIES: usize = 1_000_000;
/// Folders one walk may go down.
const DEEPEST: usize = 256;
/// Entries between two looks at the cancel token.
const PATIENCE: usize = 256;

/// What kind of thing has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A link, wherever it leads.
    Link,
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
    pub(crate) fn weight(&self) -> u64 {
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
pub struct Walk<'a> {
    /// What stops the walk.
    pub cancel: &'a CancelToken,
    /// What is passed over.
    pub tidy: Tidy,
    /// How many folders deep to go; 1 is what lies in the start itself. More than 256 are an error.
    pub depth: Option<usize>,
}

/// Which entries a walk passes over. Folders that the run may not read are named and not entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tidy {
    /// Hidden names and ignored ones.
    HiddenAndIgnored,
    /// Ignored ones.
    Ignored,
    /// Nothing, and folders are entered whether the run may read them or not.
    Nothing,
}

impl View<'_> {
    /// Where a folder really is: its path with links resolved, if the run may look there.
    pub fn real_folder(&self, path: &str) -> Result<String> {
        self.reach(Attempt::look("search", path), Last::Followed, |path| {
            (self.files.door.dir)(&self.files.dir, &names::os(path)).map(|_| path.to_owned())
        })
    }

    /// Calls `found` with everything below the folder `start` (as [`View::real_folder`] gives it), each folder before what
    /// it holds. Answers with what could not be looked into.
    pub fn walk(
        &self,
        start: &str,
        walk: &Walk<'_>,
        mut found: impl FnMut(Entry) -> Result<()>,
    ) -> Result<Vec<Skipped>> {
        let attempt = Attempt::look("search", start);
        self.open_to_scripts(attempt, start)?;
        let mut walker = Walker {
            view: self,
            walk,
            attempt,
            ahead: Vec::new(),
            skipped: Vec::new(),
            held: self.hold(),
            seen: 0,
        };
        walker.start()?;
        while let Some(mut folder) = walker.ahead.pop() {
            walk.cancel.check()?;
            let mut weight = folder.weight();
            let entries = walker.entries(&folder, &mut weight)?;
            if !walker.may_look_among(&folder, &entries)? {
                walker.held.shrink(weight);
                continue;
            }
            walker.add_rules(&mut folder, &entries)?;
            for named in entries {
                if let Some(entry) = walker.pass(&folder, named)? {
                    found(entry).map_err(|error| walker.named(error))?;
                }
            }
            walker.held.shrink(weight);
        }
        Ok(walker.skipped)
    }

    /// Whether the run may read what has this path, given that it may read the folder it lies in.
    pub(super) fn may_look_into(&self, path: &str) -> bool {
        self.permissions.is_none_or(|permissions| {
            !permissions.protection().guards_last(path) || permissions.allows(&Need::read(path))
        })
    }
}

/// A walk under way.
struct Walker<'a> {
    view: &'a View<'a>,
    walk: &'a Walk<'a>,
    attempt: Attempt<'a>,
    ahead: Vec<Folder>,
    skipped: Vec<Skipped>,
    /// The memory of what lies ahead, and of what was passed over.
    held: Held,
    seen: usize,
}

/// A folder yet to be looked into, with the rules of the folders above it.
struct Folder {
    path: String,
    depth: usize,
    rules: IgnoreRules,
}

impl Folder {
    /// About the bytes that it takes.
    fn weight(&self) -> u64 {
        (self.path.len() + size_of::<Self>()) as u64 + 32
    }
}

impl Walker<'_> {
    fn start(&mut self) -> Result<()> {
        let path = self.attempt.path;
        let rules = match self.walk.tidy {
            Tidy::Nothing => IgnoreRules::default(),
            _ => IgnoreRules::above(self.view, path).map_err(|error| self.attempt.own(error))?,
        };
        self.go_into(Folder { path: path.to_owned(), depth: 0, rules })
    }

    fn go_into(&mut self, folder: Folder) -> Result<()> {
        self.held.grow(folder.weight()).map_err(|error| self.attempt.own(error))?;
        self.ahead.push(folder);
        Ok(())
    }

    /// What a folder holds. One that cannot be read is passed over, unless it is the start.
    fn entries(&mut self, folder: &Folder, weight: &mut u64) -> Result<Vec<Named>> {
        let (files, held, cancel) = (self.view.files, &mut self.held, self.walk.cancel);
        let mut seen = self.seen;
        let mut count = |length: usize| {
            seen += 1;
            if seen.is_multiple_of(PATIENCE) {
                cancel.check().map_err(through_io)?;
            }
            if seen > MOST_ENTRIES {
                return Err(io::Error::other("it holds too much"));
            }
            let bytes = (length + size_of::<Named>()) as u64 + 32;
            *weight += bytes;
            held.grow(bytes).map_err(through_io)
        };
        match (files.door.entries)(&files.dir, &names::os(&folder.path), &mut count) {
            Err(error) if folder.depth == 0 || is_own(&error) => Err(self.attempt.io(error)),
            Err(error) => {
                self.pass_over(folder.path.clone(), error)?;
                Ok(Vec::new())
            }
            Ok(entries) => Ok(entries),
        }
    }

    fn pass_over(&mut self, path: String, error: io::Error) -> Result<()> {
        self.held.grow(path.len() as u64 + 256).map_err(|error| self.attempt.own(error))?;
        self.skipped.push(Skipped { path, error });
        Ok(())
    }

    /// Whether the names in a folder may be passed by: it may be protected for what it is. The start was permitted.
    fn may_look_among(&self, folder: &Folder, entries: &[Named]) -> Result<bool> {
        let has = |name: &str| entries.iter().any(|(found, _)| found == name);
        if self.walk.tidy == Tidy::Nothing || folder.depth == 0 {
            Ok(true)
        } else {
            self.view.may_look_among(&folder.path, has)
        }
    }

    /// Adds the folder's own rules to those from above.
    fn add_rules(&mut self, folder: &mut Folder, entries: &[Named]) -> Result<()> {
        let is_rules = |(name, kind): &Named| *kind == EntryKind::File && name == ignore_rules::FILE_NAME;
        if self.walk.tidy == Tidy::Nothing || !entries.iter().any(is_rules) {
            return Ok(());
        }
        match folder.rules.clone().with(self.view, &folder.path) {
            Ok(rules) => folder.rules = rules,
            Err(error) if is_own(&error) => return Err(self.attempt.io(error)),
            Err(error) => self.pass_over(below(&folder.path, ignore_rules::FILE_NAME), error)?,
        }
        Ok(())
    }

    /// Passes by one name: over it, or with it as an entry, and with a folder to look into later.
    fn pass(&mut self, folder: &Folder, (name, kind): Named) -> Result<Option<Entry>> {
        self.count()?;
        let name = names::text(&name);
        if self.walk.tidy == Tidy::HiddenAndIgnored && name.starts_with('.') {
            return Ok(None);
        }
        let (path, is_dir) = (below(&folder.path, &name), kind == EntryKind::Dir);
        if folder.rules.ignores(&path, is_dir) {
            return Ok(None);
        }
        let depth = folder.depth + 1;
        if is_dir && self.walk.depth.is_none_or(|most| depth < most) && self.enters(&path) {
            if depth >= DEEPEST {
                let fault = format!("folders lie more than {DEEPEST} deep");
                return Err(self.attempt.refused(fault, "search a folder below it"));
            }
            self.go_into(Folder { path: path.clone(), depth, rules: folder.rules.clone() })?;
        }
        Ok(Some(Entry { path, kind }))
    }

    /// The memory that ran out says what it was for; whatever else `found` says is its own.
    fn named(&self, error: SkillError) -> SkillError {
        if error.kind() == ErrorKind::Memory { self.attempt.own(error) } else { error }
    }

    fn enters(&self, path: &str) -> bool {
        let is_open = !self.view.files.is_closed(path);
        is_open && (self.walk.tidy == Tidy::Nothing || self.view.may_look_into(path))
    }

    fn count(&mut self) -> Result<()> {
        self.seen += 1;
        if self.seen > MOST_ENTRIES {
            let fault = format!("there are more than {MOST_ENTRIES} files and folders");
            return Err(self.attempt.refused(fault, "search a folder below it"));
        }
        if self.seen.is_multiple_of(PATIENCE) { self.walk.cancel.check() } else { Ok(()) }
    }
}

/// The path of a name in a folder.
pub(super) fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        return name.to_owned();
    }
    let mut path = String::with_capacity(folder.len() + 1 + name.len());
    path.push_str(folder);
    path.push('/');
    path.push_str(name);
    path
}
