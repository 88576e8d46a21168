//! What a folder holds, to see that nothing in it was changed.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Path, mode, size, and the time of the last change of each file below a folder.
pub fn file_states(folder: &Path) -> Vec<(String, u32, u64, i64)> {
    fn list(folder: &Path, into: &mut Vec<(String, u32, u64, i64)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let about = path.symlink_metadata().unwrap();
            let changed = about.ctime() * 1_000_000_000 + about.ctime_nsec();
            into.push((path.display().to_string(), about.mode(), about.size(), changed));
            if about.is_dir() {
                list(&path, into);
            }
        }
    }
    let mut found = Vec::new();
    list(folder, &mut found);
    found.sort();
    found
}
