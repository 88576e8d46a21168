//! A digest that detects changes in a skill's folder.

use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::host::Files;
use crate::registry::skill_folder::SkillFolder;

/// Bytes of files that are read; for files beyond that, size and modification time are used.
const MAX_READ_BYTES: u64 = 64 << 20;

/// The cache that Python writes beside the modules it ran.
const PYTHON_CACHE_DIR: &str = "__pycache__";

impl SkillFolder {
    /// A digest of all its files at any depth, except hidden files and links. It changes when a file changes, appears or
    /// disappears.
    pub(crate) fn digest(&self) -> Result<[u8; 32]> {
        let mut digest = Sha256::new();
        let mut left = MAX_READ_BYTES;
        for path in self.all_files()? {
            if path.split('/').any(|part| part == PYTHON_CACHE_DIR) {
                continue;
            }
            digest.update(format!("{} {path}\n", path.len()));
            match self.read(&path, left) {
                Ok(bytes) => {
                    left -= bytes.len() as u64;
                    digest.update(format!("{}\n", bytes.len()));
                    digest.update(bytes);
                }
                Err(_) => digest.update(self.size_and_time(&path)),
            }
        }
        Ok(digest.finalize().into())
    }

    /// Size and modification time of a file that is not read; empty where even these are unknown.
    fn size_and_time(&self, path: &str) -> String {
        let files = self.disk_path().and_then(|folder| Files::open(folder).ok());
        let stat = files.and_then(|files| files.unrestricted().stat(path).ok());
        stat.map_or_else(String::new, |stat| format!("{} {:?}\n", stat.size, stat.modified))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_changes_with_every_file_and_with_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let folder = SkillFolder::Disk(place.path().to_owned());
        let mut seen = vec![folder.digest().unwrap()];
        let mut differs = |folder: &SkillFolder| {
            let digest = folder.digest().unwrap();
            let is_new = !seen.contains(&digest);
            seen.push(digest);
            is_new
        };
        std::fs::create_dir_all(path("assets/__pycache__")).unwrap();
        std::fs::write(path("assets/a"), "one").unwrap();
        assert!(differs(&folder));
        std::fs::write(path("assets/a"), "two").unwrap();
        assert!(differs(&folder));
        let deep = path(&"deep/".repeat(40));
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("a"), "one").unwrap();
        assert!(differs(&folder), "however deep it lies");
        std::fs::write(deep.join("a"), "two").unwrap();
        assert!(differs(&folder));
        std::fs::rename(path("assets/a"), path("assets/b")).unwrap();
        assert!(differs(&folder));
        let large = std::fs::File::create(path("large")).unwrap();
        large.set_len(MAX_READ_BYTES + 1).unwrap();
        assert!(differs(&folder), "what is too large to be read");
        large.set_len(MAX_READ_BYTES + 2).unwrap();
        assert!(differs(&folder));
        std::fs::write(path("assets/__pycache__/m.pyc"), "left behind").unwrap();
        std::fs::write(path(".hidden"), "").unwrap();
        assert!(!differs(&folder));
    }
}
