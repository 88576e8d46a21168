//! Folders with thousands of entries.

use std::fs;
use std::path::PathBuf;

/// How many names a file may have on every file system in use.
const MAX_NAMES: usize = 1000;

/// Creates an empty file at each path, many of them names of one file: to create so many files of their own takes some file systems
/// long, and so does every other file in the minute after they were removed.
pub fn create_names(paths: impl IntoIterator<Item = PathBuf>) {
    let mut file = PathBuf::new();
    for (number, path) in paths.into_iter().enumerate() {
        if number % MAX_NAMES == 0 {
            fs::write(&path, "").unwrap();
            file = path;
        } else {
            fs::hard_link(&file, path).unwrap();
        }
    }
}
