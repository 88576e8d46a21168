//! The files of an entry: what the system says about each, and their digest. Nothing in it is a link.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Files and folders of an entry.
const MAX_ENTRIES: u64 = 400_000;
/// Bytes of its files.
const MAX_BYTES: u64 = 8 << 30;
/// Folders inside one another.
const MAX_DEPTH: usize = 64;
/// Bytes that are read at a time.
const BUFFER: usize = 256 << 10;

/// The files of an entry, in the order of their paths, and how large they are.
pub(super) struct Tree {
    folder: PathBuf,
    nodes: Vec<(Vec<u8>, Metadata)>,
    pub(super) bytes: u64,
    pub(super) files: u64,
}

impl Tree {
    /// Lists a folder; fails for a link and for everything that is neither a file nor a folder.
    pub(super) fn list(folder: &Path) -> io::Result<Self> {
        if !folder.symlink_metadata()?.is_dir() {
            return Err(io::Error::other("it is not a folder"));
        }
        let mut tree = Self { folder: folder.to_owned(), nodes: Vec::new(), bytes: 0, files: 0 };
        tree.add(folder, &[], 0)?;
        tree.nodes.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(tree)
    }

    fn add(&mut self, folder: &Path, above: &[u8], depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(io::Error::other(format!("it has more than {MAX_DEPTH} folders inside one another")));
        }
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let about = entry.path().symlink_metadata()?;
            let mut path = above.to_vec();
            path.extend(entry.file_name().as_bytes());
            let shown = || String::from_utf8_lossy(&path).escape_debug().to_string();
            if about.is_dir() {
                let mut inner = path.clone();
                inner.push(b'/');
                self.add(&entry.path(), &inner, depth + 1)?;
            } else if about.is_file() {
                self.files += 1;
                self.bytes += about.len();
            } else if about.is_symlink() {
                return Err(io::Error::other(format!("{} is a link", shown())));
            } else {
                return Err(io::Error::other(format!("{} is neither a file nor a folder", shown())));
            }
            self.nodes.push((path, about));
            if self.nodes.len() as u64 > MAX_ENTRIES || self.bytes > MAX_BYTES {
                return Err(io::Error::other("it is too large"));
            }
        }
        Ok(())
    }

    /// What changes whenever a file changes: numbers, modes, sizes and times, without a look at any content.
    pub(super) fn stamps(&self) -> String {
        let mut digest = Sha256::new();
        for (path, about) in &self.nodes {
            digest.update((path.len() as u64).to_le_bytes());
            digest.update(path);
            let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()];
            let numbers = [about.dev(), about.ino(), u64::from(about.mode()), about.size()];
            for time in times {
                digest.update(time.to_le_bytes());
            }
            for number in numbers {
                digest.update(number.to_le_bytes());
            }
        }
        hex(&digest.finalize())
    }

    /// The digest of all paths and contents, and of who may execute a file.
    pub(super) fn content(&self) -> io::Result<String> {
        let mut digest = Sha256::new();
        let mut buffer = vec![0; BUFFER];
        digest.update(b"metier packages 1\n");
        for (path, about) in &self.nodes {
            digest.update((path.len() as u64).to_le_bytes());
            digest.update(path);
            digest.update([u8::from(about.is_dir()), u8::from(about.mode() & 0o111 != 0)]);
            if about.is_dir() {
                continue;
            }
            digest.update(about.size().to_le_bytes());
            let mut file = File::open(self.folder.join(std::ffi::OsStr::from_bytes(path)))?;
            loop {
                match file.read(&mut buffer)? {
                    0 => break,
                    count => digest.update(&buffer[..count]),
                }
            }
        }
        Ok(hex(&digest.finalize()))
    }
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn every_change_changes_the_digest_and_links_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/c.py"), "1").unwrap();
        fs::write(at("d.py"), "2").unwrap();
        let read = || {
            let tree = Tree::list(folder.path()).unwrap();
            (tree.stamps(), tree.content().unwrap())
        };
        let first = read();
        assert_eq!(first, read());
        fs::write(at("d.py"), "3").unwrap();
        let second = read();
        assert!(second.0 != first.0 && second.1 != first.1);
        fs::write(at("d.py"), "2").unwrap();
        assert_eq!(read().1, first.1, "the same content again");
        fs::set_permissions(at("d.py"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_ne!(read().1, first.1, "it may be executed");
        fs::set_permissions(at("d.py"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::create_dir(at("e")).unwrap();
        assert_ne!(read().1, first.1, "a folder is new");
        symlink("d.py", at("e/link")).unwrap();
        assert!(Tree::list(folder.path()).is_err_and(|error| error.to_string().contains("e/link is a link")));
        assert!(Tree::list(&at("e/link")).is_err());
    }
}
