//! Opens and lists folders, and opens a `SKILL.md` through the folder's handle. Nothing here blocks.

#[cfg(any(test, not(unix)))]
mod portable;
#[cfg(unix)]
mod unix;

use std::fs::File;
use std::io;

use cap_fs_ext::OpenOptionsSyncExt;
use cap_std::fs::{Dir, OpenOptions};

#[cfg(not(unix))]
pub(super) use portable::SkillDir;
#[cfg(unix)]
pub(super) use unix::SkillDir;

/// The kind of a folder entry, as far as discovery needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirEntryKind {
    Folder,
    Symlink,
    Other,
}

/// The error for FIFOs, sockets, devices and folders.
fn not_a_regular_file() -> io::Error {
    io::Error::other("it is not a regular file")
}

/// Opens a regular file in that folder. A link is followed inside the folder only.
fn open_regular_file(folder: &Dir, name: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true);
    let file = folder.open_with(name, &options)?.into_std();
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_a_regular_file()) }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::ops::ControlFlow;
    use std::os::unix::fs::symlink;

    use super::*;

    macro_rules! names_and_files {
        ($opened:ty) => {{
            let house = tempfile::tempdir().unwrap();
            let path = house.path().join("skill");
            fs::create_dir_all(path.join("docs")).unwrap();
            fs::write(house.path().join("secret"), "secret").unwrap();
            fs::write(path.join("docs/real.md"), "real").unwrap();
            symlink("docs/real.md", path.join("inside")).unwrap();
            symlink("../secret", path.join("outside")).unwrap();
            symlink("/dev/zero", path.join("device")).unwrap();
            let mut opened = <$opened>::open(&path).unwrap();
            let mut names = Vec::new();
            let mut list = |name: &std::ffi::OsStr, kind| {
                names.push((name.to_owned(), kind));
                ControlFlow::Continue(())
            };
            opened.for_each_entry(&mut list).unwrap();
            names.sort_by(|a, b| a.0.cmp(&b.0));
            let kinds: Vec<_> = names.iter().map(|(name, kind)| (name.to_str().unwrap(), *kind)).collect();
            let link = DirEntryKind::Symlink;
            assert_eq!(
                kinds,
                [("device", link), ("docs", DirEntryKind::Folder), ("inside", link), ("outside", link)]
            );
            let mut text = String::new();
            opened.open_file("inside").unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "real");
            for name in ["outside", "device", "docs", "none"] {
                assert!(opened.open_file(name).is_err(), "{name}");
            }
            assert!(<$opened>::open(&path.join("none")).is_err());
            assert_eq!(
                <$opened>::open(&path.join("inside")).err().unwrap().kind(),
                io::ErrorKind::NotADirectory
            );
        }};
    }

    #[test]
    fn every_door_lists_alike_and_keeps_links_inside() {
        names_and_files!(unix::SkillDir);
        names_and_files!(portable::SkillDir);
    }
}
