//! Walking a tree: without following links, without recursion, within limits, and asked to stop at any time.

use std::io;

use super::attempt::Attempt;
use super::door::Named;
use super::ignore_rules::{self, IgnoreRules};
use super::links::Last;
use super::{View, names};
use crate::error::Result;
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
        let mut walker =
            Walker { view: self, walk, attempt, ahead: Vec::new(), skipped: Vec::new(), seen: 0 };
        walker.ahead.push(walker.start());
        while let Some(mut folder) = walker.ahead.pop() {
            walk.cancel.check()?;
            let entries = walker.entries(&folder)?;
            walker.add_rules(&mut folder, &entries);
            for named in entries {
                if let Some(entry) = walker.pass(&folder, named)? {
                    found(entry)?;
                }
            }
        }
        Ok(walker.skipped)
    }

    /// Whether the run may read what has this name, given that it may read the folder it lies in.
    pub(super) fn may_look_into(&self, name: &str, path: &str) -> bool {
        self.permissions.is_none_or(|permissions| {
            !permissions.protection().guards_read(name) || permissions.allows(&Need::read(path))
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
    seen: usize,
}

/// A folder yet to be looked into, with the rules of the folders above it.
struct Folder {
    path: String,
    depth: usize,
    rules: IgnoreRules,
}

impl Walker<'_> {
    fn start(&self) -> Folder {
        let path = self.attempt.path;
        let rules = match self.walk.tidy {
            Tidy::Nothing => IgnoreRules::default(),
            _ => IgnoreRules::above(self.view.files, path),
        };
        Folder { path: path.to_owned(), depth: 0, rules }
    }

    /// What a folder holds. One that cannot be read is passed over, unless it is the start.
    fn entries(&mut self, folder: &Folder) -> Result<Vec<Named>> {
        let files = self.view.files;
        match (files.door.entries)(&files.dir, &names::os(&folder.path)) {
            Err(error) if folder.depth == 0 => Err(self.attempt.io(error)),
            Err(error) => {
                self.skipped.push(Skipped { path: folder.path.clone(), error });
                Ok(Vec::new())
            }
            Ok(entries) => Ok(entries),
        }
    }

    /// Adds the folder's own rules to those from above.
    fn add_rules(&mut self, folder: &mut Folder, entries: &[Named]) {
        let is_rules = |(name, kind): &Named| *kind == EntryKind::File && name == ignore_rules::FILE_NAME;
        if self.walk.tidy == Tidy::Nothing || !entries.iter().any(is_rules) {
            return;
        }
        match folder.rules.clone().with(self.view.files, &folder.path) {
            Ok(rules) => folder.rules = rules,
            Err(error) => {
                self.skipped.push(Skipped { path: below(&folder.path, ignore_rules::FILE_NAME), error });
            }
        }
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
        if is_dir && self.walk.depth.is_none_or(|most| depth < most) && self.enters(&name, &path) {
            if depth >= DEEPEST {
                let fault = format!("folders lie more than {DEEPEST} deep");
                return Err(self.attempt.refused(fault, "search a folder below it"));
            }
            self.ahead.push(Folder { path: path.clone(), depth, rules: folder.rules.clone() });
        }
        Ok(Some(Entry { path, kind }))
    }

    fn enters(&self, name: &str, path: &str) -> bool {
        let is_open = !self.view.files.is_closed(path);
        is_open && (self.walk.tidy == Tidy::Nothing || self.view.may_look_into(name, path))
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
