//! What a scan for protected paths has to look at in a folder.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, open, statat};

use crate::protected::folder_stamp::{FolderStamp, is_local};
use metier_core::host::git;

/// The entries of a folder that a scan has to look at.
pub(super) struct Listing {
    /// Which folder it was, and when it had changed last; `None` if it is not to be remembered.
    pub(super) stamp: Option<FolderStamp>,
    /// The same as it was read.
    read_stamp: FolderStamp,
    pub(super) entries: Vec<ListedEntry>,
    /// The number of all entries.
    pub(super) count: usize,
    /// Whether git takes the folder for a repository.
    pub(super) is_repository: bool,
}

pub(super) struct ListedEntry {
    pub(super) name: OsString,
    pub(super) kind: FileType,
    /// Whether it is protected by its own name.
    pub(super) is_protected: bool,
}

impl Listing {
    /// Reads a folder; `lists` says of each entry, by its name and kind, whether it is listed, and whether it is protected by its
    /// name. An error of `lists` ends the reading.
    pub(super) fn read<E: From<io::Error>>(
        folder: &Path,
        mut lists: impl FnMut(&OsStr, FileType) -> Result<(bool, bool), E>,
    ) -> Result<Self, E> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = File::from(open(folder, flags, Mode::empty()).map_err(io::Error::from)?);
        let before = FolderStamp::of_open(&opened)?;
        let mut listing =
            Self { stamp: None, read_stamp: before, entries: Vec::new(), count: 0, is_repository: false };
        let mut parts = [false; git::REPOSITORY_ENTRIES.len()];
        for entry in Dir::read_from(&opened).map_err(io::Error::from)? {
            let entry = entry.map_err(io::Error::from)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            listing.count += 1;
            let kind = match entry.file_type() {
                FileType::Unknown => match kind_at(&opened, entry.file_name()) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    kind => kind?,
                },
                kind => kind,
            };
            if let Some(part) = git::REPOSITORY_ENTRIES.iter().position(|part| name == *part) {
                parts[part] = true;
            }
            let (is_listed, is_protected) = lists(name, kind)?;
            if is_listed {
                listing.entries.push(ListedEntry { name: name.to_owned(), kind, is_protected });
            }
        }
        listing.is_repository = git::is_repository(|name| {
            git::REPOSITORY_ENTRIES.iter().zip(parts).any(|(part, is_there)| is_there && *part == name)
        });
        let is_lasting = FolderStamp::of_open(&opened).is_ok_and(|found| found == before)
            && before.is_settled()
            && is_local(&opened);
        listing.stamp = is_lasting.then_some(before);
        Ok(listing)
    }
}

impl Listing {
    /// A listing of a folder that had this stamp.
    #[allow(dead_code, reason = "asked for where there is a sandbox")]
    pub(super) fn remembered(
        stamp: FolderStamp,
        entries: Vec<ListedEntry>,
        count: usize,
        is_repository: bool,
    ) -> Self {
        Self { stamp: Some(stamp), read_stamp: stamp, entries, count, is_repository }
    }

    /// Makes this listing of a folder in an overlay one that is to be remembered of the folder below it, if they are the same.
    pub(super) fn take_stamp_of_lower(&mut self, folder: &Path) {
        self.stamp = None;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(opened) = open(folder, flags, Mode::empty()).map(File::from) else { return };
        let is_lasting = |stamp: &FolderStamp| {
            stamp.is_same_in_overlay(&self.read_stamp) && stamp.is_settled() && is_local(&opened)
        };
        self.stamp = FolderStamp::of_open(&opened).ok().filter(is_lasting);
    }
}

fn kind_at(folder: &File, name: &CStr) -> io::Result<FileType> {
    let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(found.st_mode))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn read(folder: &Path) -> Listing {
        let lists =
            |name: &OsStr, _: FileType| Ok::<_, io::Error>((name.as_bytes().starts_with(b"."), false));
        Listing::read(folder, lists).unwrap()
    }

    #[test]
    fn a_listing_has_what_was_asked_for_and_counts_the_rest() {
        let project = tempfile::tempdir().unwrap();
        fs::create_dir_all(project.path().join("a/b")).unwrap();
        for name in ["a/.env", "a/plain", "a/b/.env"] {
            fs::write(project.path().join(name), name).unwrap();
        }
        let listing = read(&project.path().join("a"));
        let names: Vec<_> = listing.entries.iter().map(|entry| entry.name.to_str().unwrap()).collect();
        assert_eq!((names, listing.count, listing.is_repository), (vec![".env"], 3, false));
        fs::create_dir(project.path().join("a/objects")).unwrap();
        fs::create_dir(project.path().join("a/refs")).unwrap();
        fs::write(project.path().join("a/HEAD"), "").unwrap();
        assert!(read(&project.path().join("a")).is_repository);
        symlink("a", project.path().join("link")).unwrap();
        let through_link =
            Listing::read(&project.path().join("link"), |_, _| Ok::<_, io::Error>((true, false)));
        assert_eq!(through_link.err().unwrap().kind(), io::ErrorKind::NotADirectory);
    }
}
