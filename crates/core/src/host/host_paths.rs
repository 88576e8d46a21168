//! Where the host finds what a run sees at its paths: there, or in an overlay that a run has in the place of its project.
//!
//! All paths are those that the run sees. Only the calls of the system go elsewhere.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
#[cfg(unix)]
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
#[cfg(unix)]
use std::sync::Arc;

/// Maximum symbolic links in one path; Linux's own limit.
#[cfg(unix)]
const MAX_SYMLINKS: usize = 40;

/// The paths of a run. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct HostPaths {
    #[cfg(unix)]
    overlay: Option<Overlay>,
}

/// A folder that the run has in the place of another one.
#[cfg(unix)]
#[derive(Clone, Debug)]
struct Overlay {
    /// Canonical.
    path: PathBuf,
    root: Arc<OwnedFd>,
}

impl HostPaths {
    /// Those of a run that sees this folder at a canonical path. Fails where no path leads into an open folder: `/proc` is not mounted.
    #[cfg(unix)]
    pub fn with_overlay(path: &Path, root: OwnedFd) -> io::Result<Self> {
        let about = rustix::fs::fstat(&root)?;
        let paths = Self { overlay: Some(Overlay { path: path.to_owned(), root: Arc::new(root) }) };
        let found = rustix::fs::lstat(&*paths.at(path))?;
        if (found.st_dev, found.st_ino) == (about.st_dev, about.st_ino) {
            return Ok(paths);
        }
        Err(io::Error::other("/proc does not lead into the folders that this process has open"))
    }

    /// Whether the run has an overlay.
    pub fn has_overlay(&self) -> bool {
        #[cfg(unix)]
        return self.overlay.is_some();
        #[cfg(not(unix))]
        false
    }

    /// Whether what both runs see is the same.
    pub fn is_same(&self, other: &Self) -> bool {
        #[cfg(unix)]
        return match (&self.overlay, &other.overlay) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(&own.root, &other.root),
            _ => false,
        };
        #[cfg(not(unix))]
        true
    }

    /// The path by which the host reaches what the run sees at a path without symbolic links above its last component. It is only for
    /// calls of the system.
    pub fn at<'a>(&self, path: &'a Path) -> Cow<'a, Path> {
        #[cfg(unix)]
        if let Some(overlay) = &self.overlay
            && let Ok(inside) = path.strip_prefix(&overlay.path)
        {
            // With a dot at its end no call takes it for the link that it begins with.
            let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
            let root = PathBuf::from(format!("/proc/self/fd/{}", overlay.root.as_raw_fd()));
            return Cow::Owned(root.join(inside));
        }
        Cow::Borrowed(path)
    }

    /// The path that the run sees without symbolic links; an error if nothing is there.
    pub fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        if self.has_overlay() { self.follow_links(path) } else { fs::canonicalize(path) }
    }

    /// What is at a path without symbolic links above its last component.
    pub fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.at(path).symlink_metadata()
    }

    /// The target of the link at such a path.
    pub fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        fs::read_link(self.at(path))
    }

    /// Whether a path leads to a folder.
    pub fn is_dir(&self, path: &Path) -> bool {
        self.metadata(path).is_ok_and(|about| about.is_dir())
    }

    /// Whether a path leads to a regular file.
    pub fn is_file(&self, path: &Path) -> bool {
        self.metadata(path).is_ok_and(|about| about.is_file())
    }

    /// What a path leads to.
    pub fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        if self.has_overlay() { self.symlink_metadata(&self.canonicalize(path)?) } else { path.metadata() }
    }

    #[cfg(unix)]
    fn follow_links(&self, path: &Path) -> io::Result<PathBuf> {
        let path = std::path::absolute(path)?;
        let mut real = PathBuf::from("/");
        let (mut ahead, mut links) = (reversed_components(&path), 0);
        while let Some(part) = ahead.pop() {
            if part == "/" {
                real = PathBuf::from(part);
                continue;
            }
            if part == ".." {
                real.pop();
                continue;
            }
            real.push(part);
            // No link leads to the folder that the overlay is in the place of.
            if self.overlay.as_ref().is_some_and(|overlay| overlay.path.starts_with(&real)) {
                continue;
            }
            let about = self.symlink_metadata(&real)?;
            if about.is_symlink() {
                links += 1;
                if links > MAX_SYMLINKS {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                ahead.extend(reversed_components(&self.read_link(&real)?));
                real.pop();
            } else if !about.is_dir() && !ahead.is_empty() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
        }
        Ok(real)
    }

    #[cfg(not(unix))]
    fn follow_links(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }
}

/// The last component first, so that `pop` returns the next one.
#[cfg_attr(not(unix), allow(dead_code, reason = "there is no overlay"))]
fn reversed_components(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter(|part| *part != Component::CurDir);
    names.map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A project at a path, another folder that a run sees there, and the folder that holds both.
    struct Fixture {
        _stage: tempfile::TempDir,
        top: PathBuf,
        paths: HostPaths,
    }

    fn fixture() -> Fixture {
        let stage = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(stage.path()).unwrap();
        fs::create_dir_all(top.join("project/only-outside")).unwrap();
        fs::create_dir_all(top.join("overlay/a/b")).unwrap();
        fs::write(top.join("overlay/a/file"), "seen").unwrap();
        let root = fs::File::open(top.join("overlay")).unwrap();
        let paths = HostPaths::with_overlay(&top.join("project"), root.into()).unwrap();
        Fixture { _stage: stage, top, paths }
    }

    #[test]
    fn paths_lead_into_the_overlay_and_keep_their_names() {
        let Fixture { top, paths, .. } = &fixture();
        let project = top.join("project");
        assert_eq!(fs::read(paths.at(&project.join("a/file"))).unwrap(), b"seen");
        assert!(paths.is_dir(&project) && paths.is_file(&project.join("a/file")));
        assert!(!paths.is_dir(&project.join("only-outside")));
        assert_eq!(paths.canonicalize(&project.join("a/./b/../file")).unwrap(), project.join("a/file"));
        assert_eq!(paths.canonicalize(&project).unwrap(), project);
        assert_eq!(*paths.at(&top.join("project-2")), *top.join("project-2"));
        assert!(paths.symlink_metadata(&project).unwrap().is_dir());
    }

    #[test]
    fn links_are_followed_as_the_run_follows_them() {
        let Fixture { top, paths, .. } = &fixture();
        let (project, overlay) = (top.join("project"), top.join("overlay"));
        symlink(project.join("a"), overlay.join("absolute")).unwrap();
        symlink("a/b", overlay.join("relative")).unwrap();
        symlink("../..", overlay.join("a/out")).unwrap();
        symlink(&project, top.join("beside")).unwrap();
        symlink("circle", overlay.join("circle")).unwrap();
        for (path, expected) in [
            ("absolute/file", project.join("a/file")),
            ("relative", project.join("a/b")),
            ("a/out/overlay/a", overlay.join("a")),
            ("a/out/beside/relative", project.join("a/b")),
            ("a/../../project/a", project.join("a")),
        ] {
            assert_eq!(paths.canonicalize(&project.join(path)).unwrap(), expected, "{path}");
        }
        for path in ["only-outside", "a/file/x", "circle", "a/out/project/only-outside"] {
            assert!(paths.canonicalize(&project.join(path)).is_err(), "{path}");
        }
    }
}
