//! Records the components of a path, and what each one was. Symlinks are followed as the system follows them.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::host::untrusted::MAX_SYMLINKS;

/// A path at a moment.
#[derive(Clone)]
pub(in crate::runtimes::external) struct PathTrace {
    steps: Vec<TraceStep>,
    /// Whether something is at its end, as far as can be told.
    target_exists: bool,
}

/// A name on the way.
#[derive(Clone, PartialEq)]
pub(in crate::runtimes::external) struct TraceStep {
    /// Without links.
    pub(in crate::runtimes::external) folder: PathBuf,
    pub(in crate::runtimes::external) name: OsString,
    entry: TraceEntry,
}

#[derive(Clone, PartialEq)]
enum TraceEntry {
    Missing,
    Link(PathBuf),
    Existing((u64, u64)),
    /// Nobody lets us look.
    Inaccessible,
}

impl PathTrace {
    /// From a folder without links.
    pub(in crate::runtimes::external) fn follow(from: &Path, path: &Path) -> Self {
        let mut trail = Self { steps: Vec::new(), target_exists: false };
        let (mut folder, mut links) = (from.to_owned(), 0);
        let mut left = reversed_components(path);
        while let Some(name) = left.pop() {
            if name == "/" {
                folder = PathBuf::from(name);
                continue;
            }
            if name == ".." {
                folder.pop();
                continue;
            }
            let place = folder.join(&name);
            let found = inspect_entry(&place);
            trail.steps.push(TraceStep { folder: folder.clone(), name, entry: found.clone() });
            match found {
                TraceEntry::Missing => return trail,
                TraceEntry::Inaccessible => break,
                TraceEntry::Existing(_) => folder = place,
                TraceEntry::Link(_) if links == MAX_SYMLINKS => return trail,
                TraceEntry::Link(target) => {
                    links += 1;
                    left.extend(reversed_components(&target));
                }
            }
        }
        trail.target_exists = true;
        trail
    }

    pub(in crate::runtimes::external) fn target_exists(&self) -> bool {
        self.target_exists
    }

    /// The first thing on the way that was not there before, should there be anything at the end by now. A link counts as soon
    /// as it is there, whatever comes to be where it leads.
    pub(in crate::runtimes::external) fn first_new_step<'a>(
        &'a self,
        before: &Self,
    ) -> Option<&'a TraceStep> {
        let mut known = before.steps.iter();
        let step = self.steps.iter().find(|step| known.next() != Some(step))?;
        match step.entry {
            TraceEntry::Missing => None,
            TraceEntry::Link(_) => Some(step),
            TraceEntry::Existing(_) | TraceEntry::Inaccessible => self.target_exists.then_some(step),
        }
    }
}

impl TraceStep {
    /// Whether we were let look.
    pub(in crate::runtimes::external) fn is_accessible(&self) -> bool {
        self.entry != TraceEntry::Inaccessible
    }
}

/// The last one first.
fn reversed_components(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter(|part| *part != Component::CurDir);
    names.map(|part| part.as_os_str().to_owned()).collect()
}

fn inspect_entry(place: &Path) -> TraceEntry {
    let looked = place.symlink_metadata().and_then(|about| {
        let is_link = about.is_symlink();
        if is_link {
            std::fs::read_link(place).map(TraceEntry::Link)
        } else {
            Ok(TraceEntry::Existing((about.dev(), about.ino())))
        }
    });
    looked.unwrap_or_else(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => TraceEntry::Missing,
        _ => TraceEntry::Inaccessible,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// The name of what is new at `.metier/skills` when this has been done after that.
    fn new(before: fn(&Path), after: fn(&Path)) -> Option<OsString> {
        let folder = tempfile::tempdir().unwrap();
        let project = fs::canonicalize(folder.path()).unwrap();
        let trail = || PathTrace::follow(&project, Path::new(".metier/skills"));
        before(&project);
        let known = trail();
        assert!(!known.target_exists());
        after(&project);
        trail().first_new_step(&known).map(|step| step.name.clone())
    }

    fn folder(path: &Path) {
        fs::create_dir_all(path).unwrap();
    }

    #[test]
    fn the_first_new_name_on_the_way_is_what_was_made() {
        let nothing = |_: &Path| {};
        assert_eq!(new(nothing, nothing), None);
        assert_eq!(new(nothing, |at| folder(&at.join(".metier"))), None, "nobody finds a skill in it");
        assert_eq!(new(nothing, |at| folder(&at.join(".metier/skills"))).unwrap(), ".metier");
        let has_folder = |at: &Path| folder(&at.join(".metier"));
        assert_eq!(new(has_folder, |at| folder(&at.join(".metier/skills"))).unwrap(), "skills");
        assert_eq!(new(has_folder, |at| fs::remove_dir(at.join(".metier")).unwrap()), None);
        let replace = |at: &Path| {
            fs::rename(at.join(".metier"), at.join("x")).unwrap();
            folder(&at.join(".metier/skills"));
        };
        assert_eq!(new(has_folder, replace).unwrap(), ".metier");
    }

    #[test]
    fn links_are_followed_and_those_that_are_new_count() {
        let nothing = |_: &Path| {};
        let link = |at: &Path| symlink("a/../b/./c", at.join(".metier")).unwrap();
        assert_eq!(new(nothing, link).unwrap(), ".metier");
        assert_eq!(new(link, |at| folder(&at.join("b/c"))), None);
        assert_eq!(
            new(|at| symlink("b", at.join(".metier")).unwrap(), |at| folder(&at.join("b/skills"))).unwrap(),
            "b"
        );
        let circle = |at: &Path| symlink(".metier", at.join(".metier")).unwrap();
        assert_eq!(new(circle, nothing), None);
        let absolute = |at: &Path| symlink(at.join("b"), at.join(".metier")).unwrap();
        assert_eq!(new(absolute, |at| folder(&at.join("b/skills"))).unwrap(), "b");
    }
}
