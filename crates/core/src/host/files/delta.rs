//! A delta: a run sees a tree and what it has changed there, which goes to another folder. The tree itself stays as it is.
//!
//! It is for what works through the host functions alone; a process that opens paths itself would see the tree. The upper folder has
//! new files, whole copies of changed ones, and the folders around both. What the run has removed is known here, since nobody else
//! looks into the upper folder while the run lasts. Paths are relative to the root and have no symbolic links: whoever calls resolves
//! them first, and everything is opened without following links, in both folders.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, Metadata};

use super::entry::for_each_entry_portable;
use super::hidden_paths::HiddenPaths;
use super::open::{NameCounter, NamedEntry, OpenBackend};

/// What a run changes of a tree, in a folder of its own.
pub struct Delta {
    /// The tree.
    lower: Dir,
    /// What the run has changed; only this process writes there.
    upper: Dir,
    backend: OpenBackend,
    hidden: Mutex<HiddenPaths>,
    /// Locked while a path changes hands between the two folders.
    change: Mutex<()>,
}

impl Delta {
    pub(super) fn with_backend(lower: Dir, upper: Dir, backend: OpenBackend) -> Self {
        Self { lower, upper, backend, hidden: Mutex::default(), change: Mutex::default() }
    }

    /// The tree itself.
    pub(super) fn tree(&self) -> io::Result<Dir> {
        self.lower.try_clone()
    }

    /// The paths of the tree that the run has removed.
    pub fn hidden_paths(&self) -> HiddenPaths {
        self.hidden().clone()
    }

    fn hidden(&self) -> MutexGuard<'_, HiddenPaths> {
        self.hidden.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hides(&self, path: &Path) -> bool {
        self.hidden().covers(path)
    }

    /// Looks into the upper folder, and then into the tree where the run has neither replaced nor removed the path.
    fn find<T>(&self, path: &Path, look: impl Fn(&Dir) -> io::Result<T>) -> io::Result<T> {
        match look(&self.upper) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.hides(path) => look(&self.lower),
            found => found,
        }
    }

    pub(super) fn open_file(&self, path: &Path) -> io::Result<File> {
        self.find(path, |dir| (self.backend.open_file)(dir, path))
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        let in_lower = || !self.hides(path) && (self.backend.exists)(&self.lower, path);
        (self.backend.exists)(&self.upper, path) || in_lower()
    }

    /// Folders above the path may be links of the tree, as for the target of a link.
    pub(super) fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        let found = self.find(path, |dir| dir.symlink_metadata(path))?;
        if !found.is_dir() || self.hides(path) {
            return Ok(found);
        }
        // The tree says more of a folder that both have, and its identity must stay the same.
        Ok(self.lower.symlink_metadata(path).ok().filter(Metadata::is_dir).unwrap_or(found))
    }

    /// Only the tree has links.
    pub(super) fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.find(path, |dir| dir.read_link_contents(path))
    }

    /// The folder at this path as the run sees it.
    pub(super) fn folder(self: &Arc<Self>, path: &Path) -> io::Result<MergedFolder> {
        let (upper, missing) = match (self.backend.open_dir)(&self.upper, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => (None, Some(error)),
            opened => (Some(opened?), None),
        };
        let lower = match (!self.hides(path)).then(|| (self.backend.open_dir)(&self.lower, path)) {
            // Somebody else has changed the tree since.
            Some(Err(error)) if upper.is_some() && is_no_folder(&error) => None,
            opened => opened.transpose()?,
        };
        if let (Some(missing), None) = (missing, &lower) {
            return Err(missing);
        }
        Ok(MergedFolder { delta: self.clone(), path: path.to_owned(), upper, lower })
    }

    /// The folder at this path, with its counterpart in the upper folder, in which the run may then create something. Missing folders are
    /// created.
    pub(super) fn create_folders(self: &Arc<Self>, path: &Path) -> io::Result<MergedFolder> {
        let root = MergedFolder {
            delta: self.clone(),
            path: PathBuf::new(),
            upper: Some(self.upper.try_clone()?),
            lower: Some(self.lower.try_clone()?),
        };
        path.iter().try_fold(root, MergedFolder::create_child)
    }
}

/// A folder as the run sees it: what it has changed there, over what the tree has.
pub(super) struct MergedFolder {
    delta: Arc<Delta>,
    path: PathBuf,
    /// The counterpart in the upper folder, if there is one.
    upper: Option<Dir>,
    /// The folder of the tree, if the run sees what is in it.
    lower: Option<Dir>,
}

impl MergedFolder {
    /// What is at a name.
    pub(super) fn symlink_metadata(&self, name: &OsStr) -> io::Result<Metadata> {
        let (dir, found) = self.find(name)?;
        let is_merged = found.is_dir() && self.upper.as_ref().is_some_and(|upper| std::ptr::eq(upper, dir));
        match self.visible_lower(name).filter(|_| is_merged) {
            // The tree says more of a folder that both have, and its identity must stay the same.
            Some(lower) => Ok(lower.symlink_metadata(name).ok().filter(Metadata::is_dir).unwrap_or(found)),
            None => Ok(found),
        }
    }

    /// The open folder that has the name; of a folder that both have, the one of the changes.
    pub(super) fn layer(&self, name: &OsStr) -> io::Result<&Dir> {
        Ok(self.find(name)?.0)
    }

    fn find(&self, name: &OsStr) -> io::Result<(&Dir, Metadata)> {
        let looked_up = self.upper.as_ref().map(|upper| (upper, upper.symlink_metadata(name)));
        let missing = match looked_up {
            Some((upper, Ok(found))) => return Ok((upper, found)),
            Some((_, Err(error))) => error,
            // The system has the words for it.
            None => {
                let looked_up = self.delta.upper.symlink_metadata(self.path.join(name));
                looked_up.err().unwrap_or_else(|| io::ErrorKind::NotFound.into())
            }
        };
        match self.visible_lower(name) {
            Some(lower) if missing.kind() == io::ErrorKind::NotFound => {
                Ok((lower, lower.symlink_metadata(name)?))
            }
            _ => Err(missing),
        }
    }

    /// The folder of the tree, unless the run has removed this name from it.
    fn visible_lower(&self, name: &OsStr) -> Option<&Dir> {
        self.lower.as_ref().filter(|_| !self.delta.hidden().contains(&self.path.join(name)))
    }

    /// The names in it and what they are, each once.
    pub(super) fn entries(&self, count: &mut NameCounter<'_>) -> io::Result<Vec<NamedEntry>> {
        let read =
            |dir: &Dir, count: &mut NameCounter<'_>| self.delta.backend.read_dir(dir, Path::new(""), count);
        let mut found: BTreeMap<OsString, _> = match &self.lower {
            Some(lower) => read(lower, count)?.into_iter().collect(),
            None => BTreeMap::new(),
        };
        for name in self.delta.hidden().names_in(&self.path) {
            found.remove(name);
        }
        if let Some(upper) = &self.upper {
            for (name, kind) in read(upper, &mut |_| Ok(()))? {
                if !found.contains_key(&name) {
                    count(name.len())?;
                }
                found.insert(name, kind);
            }
        }
        Ok(found.into_iter().collect())
    }

    /// That of the tree, or that of the changes if there is no other.
    pub(super) fn into_dir(self) -> io::Result<Dir> {
        self.lower.or(self.upper).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create_child(self, name: &OsStr) -> io::Result<Self> {
        let path = self.path.join(name);
        let Some(upper) = &self.upper else { return Err(io::ErrorKind::NotFound.into()) };
        let opened = unless_missing(upper.open_dir_nofollow(name))?;
        let lower = match self.visible_lower(name).map(|lower| lower.open_dir_nofollow(name)) {
            // Somebody else has changed the tree since.
            Some(Err(error)) if opened.is_some() && is_no_folder(&error) => None,
            Some(opened) => unless_missing(opened)?,
            None => None,
        };
        let upper = match (opened, &lower) {
            (Some(opened), _) => opened,
            (None, Some(_)) => create_dir(upper, name)?,
            (None, None) => {
                self.check_writable()?;
                create_dir(upper, name)?
            }
        };
        Ok(Self { delta: self.delta.clone(), path, upper: Some(upper), lower })
    }

    /// The folder for what the run creates here, if it may create something in that of the tree.
    pub(super) fn writable_dir(&self) -> io::Result<&Dir> {
        self.check_writable()?;
        self.upper()
    }

    fn check_writable(&self) -> io::Result<()> {
        self.lower.as_ref().map_or(Ok(()), |lower| check_write_access(lower, OsStr::new("."), true))
    }

    /// The file of the tree that has to be copied before it is changed in place: the run has not replaced it yet. It is returned open.
    pub(super) fn file_to_copy(&self, name: &OsStr) -> io::Result<Option<File>> {
        let (dir, found) = self.find(name)?;
        match &self.lower {
            Some(lower) if std::ptr::eq(lower, dir) && found.is_file() => {
                check_write_access(lower, name, false)?;
                Ok(Some((self.delta.backend.open_file)(lower, name.as_ref())?))
            }
            _ => Ok(None),
        }
    }

    /// The counterpart in the upper folder.
    pub(super) fn upper(&self) -> io::Result<&Dir> {
        self.upper.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// While this lives, no other step of the run copies, replaces or removes anything.
    pub(super) fn lock_change(&self) -> MutexGuard<'_, ()> {
        self.delta.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a file, a link or an empty folder.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        let path = self.path.join(name);
        let _change = self.lock_change();
        let found = self.symlink_metadata(name)?;
        self.check_writable()?;
        if found.is_dir() && !self.delta.folder(&path)?.is_empty()? {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        // Before the one of the changes is gone, so that nobody sees that of the tree meanwhile.
        if self.visible_lower(name).is_some_and(|lower| lower.symlink_metadata(name).is_ok()) {
            // Whoever reads the upper folder finds there that something is gone.
            self.delta.create_folders(&self.path)?;
            self.delta.hidden().add(&path)?;
        }
        let Some(upper) = &self.upper else { return Ok(()) };
        match upper.symlink_metadata(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(found) if found.is_dir() => upper.remove_dir(name),
            Ok(_) => upper.remove_file(name),
        }
    }

    fn is_empty(&self) -> io::Result<bool> {
        let is_any = |dir: &Dir, hidden: &HashSet<OsString>| {
            let mut is_any = false;
            for_each_entry_portable(dir, &mut |name, _| {
                is_any = !hidden.contains(name);
                Ok(if is_any { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            io::Result::Ok(is_any)
        };
        if let Some(upper) = &self.upper
            && is_any(upper, &HashSet::new())?
        {
            return Ok(false);
        }
        let Some(lower) = &self.lower else { return Ok(true) };
        let hidden = self.delta.hidden().names_in(&self.path).cloned().collect();
        Ok(!is_any(lower, &hidden)?)
    }
}

/// Whether a path that should be a folder is none.
fn is_no_folder(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn unless_missing(opened: io::Result<Dir>) -> io::Result<Option<Dir>> {
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Creates a folder, unless another step of the run was first.
fn create_dir(parent: &Dir, name: &OsStr) -> io::Result<Dir> {
    match parent.create_dir(name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => created?,
    }
    parent.open_dir_nofollow(name)
}

/// Fails as a change of the tree itself would: of this file, or in this folder.
#[cfg(unix)]
fn check_write_access(dir: &Dir, name: &OsStr, is_folder: bool) -> io::Result<()> {
    use rustix::fs::{Access, AtFlags, accessat};

    let access = if is_folder { Access::WRITE_OK | Access::EXEC_OK } else { Access::WRITE_OK };
    Ok(accessat(dir, name, access, AtFlags::EACCESS)?)
}

#[cfg(not(unix))]
fn check_write_access(_: &Dir, _: &OsStr, _: bool) -> io::Result<()> {
    Ok(())
}

/// An open folder: one of the disk, or one of which a run sees what it has changed.
pub(super) enum Folder {
    Disk(Dir),
    Merged(MergedFolder),
}

impl Folder {
    /// The open folder that has this name.
    pub(super) fn dir_of(&self, name: &OsStr) -> io::Result<&Dir> {
        match self {
            Self::Disk(dir) => Ok(dir),
            Self::Merged(folder) => folder.layer(name),
        }
    }

    /// What is at a name; a link is not followed.
    pub(super) fn symlink_metadata(&self, name: &OsStr) -> io::Result<Metadata> {
        match self {
            Self::Disk(dir) => dir.symlink_metadata(name),
            Self::Merged(folder) => folder.symlink_metadata(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::host::Files;
    use crate::host::files::FilesView;
    use crate::policy::CancelToken;

    /// A tree with a file at each of these paths, the folder for changes, and what a run sees.
    struct Fixture {
        stage: tempfile::TempDir,
        delta: Arc<Delta>,
        files: Files,
    }

    impl Fixture {
        fn new(paths: &[&str]) -> Self {
            let stage = tempfile::tempdir().unwrap();
            let [tree, upper] = ["tree", "upper"].map(|name| stage.path().join(name));
            fs::create_dir(&tree).unwrap();
            fs::create_dir(&upper).unwrap();
            for path in paths {
                fs::create_dir_all(tree.join(path).parent().unwrap()).unwrap();
                fs::write(tree.join(path), *path).unwrap();
            }
            let open = |path: &Path| File::open(path).unwrap();
            let delta = Arc::new(Delta::new(open(&tree), open(&upper)));
            let files = Files::of_delta(&delta, &tree.canonicalize().unwrap()).unwrap();
            Self { stage, delta, files }
        }

        fn in_tree(&self, path: &str) -> PathBuf {
            self.stage.path().join("tree").join(path)
        }

        fn in_upper(&self, path: &str) -> PathBuf {
            self.stage.path().join("upper").join(path)
        }

        fn list(&self, path: &str) -> String {
            FilesView::unrestricted(&self.files)
                .list(path)
                .map_or_else(|error| error.to_string(), |names| names.join(" "))
        }
    }

    #[test]
    fn a_run_sees_its_changes_and_the_tree_stays() {
        for is_portable in [false, true] {
            let mut fixture = Fixture::new(&["a/one", "a/two", "b/c/d", "e"]);
            if is_portable {
                let open = |path: PathBuf| Dir::from_std_file(File::open(path).unwrap());
                let (tree, upper) = (open(fixture.in_tree("")), open(fixture.in_upper("")));
                fixture.delta = Arc::new(Delta::with_backend(tree, upper, super::super::open::PORTABLE));
                let root = fixture.files.root().to_owned();
                fixture.files = Files::of_delta(&fixture.delta, &root).unwrap();
            }
            let view = FilesView::unrestricted(&fixture.files);
            view.write("a/one", b"changed").unwrap();
            view.append("a/two", b"+").unwrap();
            view.append("a/three", b"new").unwrap();
            view.create_dir("b/new").unwrap();
            view.remove("e").unwrap();
            assert_eq!(view.text("a/one").unwrap(), "changed");
            assert_eq!(view.text("a/two").unwrap(), "a/two+");
            assert_eq!(view.text("b/c/d").unwrap(), "b/c/d");
            assert_eq!((fixture.list(""), fixture.list("a")), ("a b".into(), "one three two".into()));
            assert_eq!(fixture.list("b"), "c new");
            assert_eq!(fixture.list("e"), "failed to list e: No such file or directory");
            let missing = view.stat("e").unwrap_err().to_string();
            assert_eq!(missing, "failed to inspect e: No such file or directory");
            view.remove_all("b", &CancelToken::new()).unwrap();
            view.write("b/c/other", b"x").unwrap();
            assert_eq!((fixture.list("b"), fixture.list("b/c")), ("c".into(), "other".into()));
            assert!(view.text("b/c/d").is_err() && !fixture.files.has("b/c/d"));
            // A file in the place of a folder, and a folder in that of a file.
            view.remove_all("a", &CancelToken::new()).unwrap();
            view.write("a", b"file").unwrap();
            view.create_dir("e/in").unwrap();
            assert_eq!((view.text("a").unwrap(), fixture.list("")), ("file".into(), "a b e".into()));
            let refused = view.write("a/one", b"").unwrap_err().to_string();
            assert_eq!(refused, "failed to write a/one: Not a directory");
            for path in ["a/one", "a/two", "b/c/d", "e"] {
                assert_eq!(fs::read_to_string(fixture.in_tree(path)).unwrap(), path);
            }
            assert!(!fixture.in_tree("b/new").exists() && !fixture.in_tree("a/three").exists());
        }
    }

    #[test]
    fn folders_are_removed_only_when_they_are_empty() {
        let fixture = Fixture::new(&["a/one", "a/two"]);
        let view = FilesView::unrestricted(&fixture.files);
        view.write("a/three", b"").unwrap();
        for name in ["one", "two", "three"] {
            let refused = view.remove("a").unwrap_err().to_string();
            assert_eq!(refused, "failed to remove a: directory not empty");
            view.remove(&format!("a/{name}")).unwrap();
        }
        view.remove("a").unwrap();
        assert_eq!(fixture.list(""), "");
        view.create_dir("a").unwrap();
        assert_eq!(fixture.list("a"), "", "what was there is not back");
        assert!(fixture.in_tree("a/one").exists());
    }

    #[test]
    fn a_part_of_the_tree_has_the_same_changes() {
        let fixture = Fixture::new(&["a/b/c", "a/d"]);
        FilesView::unrestricted(&fixture.files).remove("a/b/c").unwrap();
        let part = fixture.files.open_below(Path::new("a")).unwrap();
        FilesView::unrestricted(&part).write("b/new", b"new").unwrap();
        assert_eq!(FilesView::unrestricted(&part).list("b").unwrap(), ["new"]);
        assert_eq!(fixture.list("a/b"), "new");
        assert_eq!(fs::read(fixture.in_upper("a/b/new")).unwrap(), b"new");
        assert!(fixture.in_tree("a/b/c").exists());
    }

    #[test]
    fn every_entry_of_a_walk_is_the_one_that_the_run_sees() {
        let fixture = Fixture::new(&["a/one", "a/two", "b"]);
        let view = FilesView::unrestricted(&fixture.files);
        view.write("a/one", b"longer than before").unwrap();
        view.remove("b").unwrap();
        let mut found = Vec::new();
        let visit = |entry: &super::super::TreeEntry<'_>| {
            if entry.kind == super::super::EntryKind::File {
                found.push((entry.path.clone(), entry.open().unwrap().0.metadata().unwrap().len()));
            }
            Ok(true)
        };
        fixture.files.walk_tree(100, &CancelToken::new(), visit).unwrap();
        assert_eq!(found, [("a/one".to_owned(), 18), ("a/two".to_owned(), 5)]);
    }

    #[cfg(unix)]
    mod attacks {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

        use super::*;

        #[test]
        fn links_of_the_tree_lead_to_what_the_run_sees_and_never_out() {
            let fixture = Fixture::new(&["d/file", "outside-of-d"]);
            fs::write(fixture.stage.path().join("secret"), "secret").unwrap();
            let root = fixture.files.root().to_owned();
            for (target, link) in
                [("d", "relative"), ("../secret", "out"), ("d/file", "file"), ("..", "d/up")]
            {
                symlink(target, fixture.in_tree(link)).unwrap();
            }
            symlink(root.join("d"), fixture.in_tree("absolute")).unwrap();
            symlink(fixture.stage.path(), fixture.in_tree("stage")).unwrap();
            let view = FilesView::unrestricted(&fixture.files);
            view.write("relative/by-link", b"1").unwrap();
            view.write("absolute/file", b"2").unwrap();
            view.append("file", b"3").unwrap();
            assert_eq!(view.text("d/by-link").unwrap(), "1");
            assert_eq!(view.text("d/up/d/file").unwrap(), "23");
            for path in ["out", "stage/secret", "stage/tree/d/file", "d/up/../secret"] {
                assert!(view.text(path).is_err(), "{path}");
                assert!(view.write(path, b"x").is_err(), "{path}");
            }
            // The link itself is replaced by a folder, which leads nowhere.
            view.remove("stage").unwrap();
            view.write("stage/secret", b"own").unwrap();
            assert_eq!(view.text("stage/secret").unwrap(), "own");
            assert_eq!(fs::read_to_string(fixture.stage.path().join("secret")).unwrap(), "secret");
            assert_eq!(fs::read_to_string(fixture.in_tree("d/file")).unwrap(), "d/file");
            assert!(!fixture.in_tree("d/by-link").exists());
            assert!(fixture.in_tree("stage").is_symlink());
        }

        #[test]
        fn hard_links_are_separated_and_never_written_through() {
            let fixture = Fixture::new(&["one"]);
            let outside = fixture.stage.path().join("outside");
            fs::hard_link(fixture.in_tree("one"), &outside).unwrap();
            let view = FilesView::unrestricted(&fixture.files);
            let refused = view.append("one", b"x").unwrap_err().to_string();
            assert!(refused.contains("it has several hard links"), "{refused}");
            view.write("one", b"x").unwrap();
            view.append("one", b"y").unwrap();
            assert_eq!(view.text("one").unwrap(), "xy");
            assert_eq!(fs::read_to_string(&outside).unwrap(), "one");
        }

        #[test]
        fn what_may_not_be_changed_may_not_be_changed_in_a_delta() {
            let fixture = Fixture::new(&["closed/file", "closed/open/file", "read-only", "private"]);
            let set_mode = |path: &str, mode| {
                fs::set_permissions(fixture.in_tree(path), fs::Permissions::from_mode(mode)).unwrap();
            };
            set_mode("read-only", 0o444);
            set_mode("private", 0o600);
            set_mode("closed", 0o555);
            let view = FilesView::unrestricted(&fixture.files);
            for refused in [view.write("read-only", b"x"), view.append("read-only", b"x")] {
                assert!(refused.unwrap_err().to_string().contains("it is read-only"));
            }
            view.write("private", b"x").unwrap();
            let mode = fs::metadata(fixture.in_upper("private")).unwrap().mode();
            assert_eq!(mode & 0o777, 0o600, "what others may not read stays so");
            view.write("closed/open/file", b"x").unwrap();
            assert!(view.stat("closed").unwrap().readonly, "its mode is that of the tree");
            if !rustix::process::geteuid().is_root() {
                for refused in
                    [view.write("closed/new", b""), view.remove("closed/file"), view.create_dir("closed/d")]
                {
                    assert!(refused.unwrap_err().to_string().contains("Permission denied"));
                }
            }
            set_mode("closed", 0o755);
        }

        #[test]
        fn a_link_that_somebody_puts_into_either_folder_is_not_followed() {
            let fixture = Fixture::new(&["d/file"]);
            let outside = fixture.stage.path().join("outside");
            fs::create_dir(&outside).unwrap();
            fs::write(outside.join("file"), "outside").unwrap();
            let view = FilesView::unrestricted(&fixture.files);
            view.write("new/file", b"1").unwrap();
            fs::remove_dir_all(fixture.in_upper("new")).unwrap();
            symlink(&outside, fixture.in_upper("new")).unwrap();
            fs::rename(fixture.in_tree("d"), fixture.in_tree("moved")).unwrap();
            symlink(&outside, fixture.in_tree("d")).unwrap();
            for path in ["new/file", "d/file"] {
                assert!(view.text(path).is_err(), "{path}");
                assert!(view.write(path, b"x").is_err(), "{path}");
                assert!(view.append(path, b"x").is_err(), "{path}");
                assert!(view.remove(path).is_err(), "{path}");
            }
            assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "outside");
        }

        #[test]
        fn steps_at_the_same_time_lose_no_append_and_no_removal() {
            let fixture = Fixture::new(&["log", "gone/1", "gone/2"]);
            std::thread::scope(|scope| {
                for number in 0..4 {
                    let files = &fixture.files;
                    scope.spawn(move || {
                        for _ in 0..50 {
                            FilesView::unrestricted(files).append("log", b"\n").unwrap();
                            FilesView::unrestricted(files).write(&format!("new/{number}"), b"x").unwrap();
                        }
                        FilesView::unrestricted(files)
                            .remove_all("gone", &CancelToken::new())
                            .unwrap_or_default();
                    });
                }
            });
            let view = FilesView::unrestricted(&fixture.files);
            assert_eq!(view.text("log").unwrap(), format!("log{}", "\n".repeat(200)));
            assert_eq!((fixture.list(""), fixture.list("new")), ("log new".into(), "0 1 2 3".into()));
        }
    }
}
