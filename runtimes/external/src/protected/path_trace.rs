//! Records the components of a path, and what each one was. Symlinks are followed as the system follows them.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use metier_core::host::untrusted::MAX_SYMLINKS;
use metier_core::host::{FileId, HostPaths, file_id};

/// A path at a moment.
#[derive(Clone, PartialEq)]
pub(crate) struct PathTrace {
    steps: Vec<TraceStep>,
    /// Whether something exists at its end, or may exist in a folder that cannot be read.
    target_exists: bool,
}

/// A component of a path.
#[derive(Clone, PartialEq)]
pub(crate) struct TraceStep {
    /// Without symlinks.
    pub(crate) folder: PathBuf,
    pub(crate) name: OsString,
    entry: TraceEntry,
}

#[derive(Clone, PartialEq)]
enum TraceEntry {
    Missing,
    Link(PathBuf),
    Existing(FileId),
    /// The folder above cannot be searched.
    Inaccessible,
}

impl PathTrace {
    /// Follows a path from a folder whose own path has no symlinks.
    pub(crate) fn follow(from: &Path, path: &Path, host_paths: &HostPaths) -> Self {
        let mut trace = Self { steps: Vec::new(), target_exists: false };
        let (mut folder, mut links) = (from.to_owned(), 0);
        let mut remaining = reversed_components(path);
        while let Some(name) = remaining.pop() {
            if name == "/" {
                folder = PathBuf::from(name);
                continue;
            }
            if name == ".." {
                folder.pop();
                continue;
            }
            let place = folder.join(&name);
            let found = inspect_entry(&place, host_paths);
            trace.steps.push(TraceStep { folder: folder.clone(), name, entry: found.clone() });
            match found {
                TraceEntry::Missing => return trace,
                TraceEntry::Inaccessible => break,
                TraceEntry::Existing(_) => folder = place,
                TraceEntry::Link(_) if links == MAX_SYMLINKS => return trace,
                TraceEntry::Link(target) => {
                    links += 1;
                    remaining.extend(reversed_components(&target));
                }
            }
        }
        trace.target_exists = true;
        trace
    }

    /// The trace of a name in a folder in which nothing has it.
    pub(crate) fn missing(folder: &Path, name: &str) -> Self {
        let step = TraceStep { folder: folder.to_owned(), name: name.into(), entry: TraceEntry::Missing };
        Self { steps: vec![step], target_exists: false }
    }

    pub(crate) fn target_exists(&self) -> bool {
        self.target_exists
    }

    /// The first component that was different before, if something exists at the end now. A symlink counts even if nothing
    /// exists where it leads.
    pub(crate) fn first_new_step<'a>(&'a self, before: &Self) -> Option<&'a TraceStep> {
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
    /// Whether the folder above could be searched.
    pub(crate) fn is_accessible(&self) -> bool {
        self.entry != TraceEntry::Inaccessible
    }
}

/// The last component first, so that `pop` returns the next one.
fn reversed_components(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter(|part| *part != Component::CurDir);
    names.map(|part| part.as_os_str().to_owned()).collect()
}

fn inspect_entry(place: &Path, paths: &HostPaths) -> TraceEntry {
    let looked = paths.symlink_metadata(place).and_then(|about| {
        let is_link = about.is_symlink();
        if is_link {
            paths.read_link(place).map(TraceEntry::Link)
        } else {
            Ok(TraceEntry::Existing(file_id(&about)))
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
        let trace = || PathTrace::follow(&project, Path::new(".metier/skills"), &HostPaths::default());
        before(&project);
        let known = trace();
        assert!(!known.target_exists());
        after(&project);
        trace().first_new_step(&known).map(|step| step.name.clone())
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
