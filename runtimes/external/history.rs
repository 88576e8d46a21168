//! Where git keeps a history that does not lie in its `.git`.

use std::ffi::OsStr;
use std::fs::{File, canonicalize};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};

/// Bytes of a path.
const LONGEST: u64 = 4096;

/// The folders to which a `.git` refers, without links: a file says `gitdir: PATH`, and the folder of a worktree names the one
/// that it shares.
pub(super) fn elsewhere(git: &Path) -> Vec<PathBuf> {
    let own = named_in(git, b"gitdir: ");
    let shared = named_in(&own.as_deref().unwrap_or(git).join("commondir"), b"");
    own.into_iter().chain(shared).collect()
}

/// The folder that a file names after these words. A path that is not absolute begins where the file lies.
fn named_in(file: &Path, words: &[u8]) -> Option<PathBuf> {
    let text = text(file)?;
    let path = text.strip_prefix(words)?;
    let end = path.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'))?;
    let folder = canonicalize(file.parent()?.join(OsStr::from_bytes(&path[..=end]))).ok()?;
    folder.is_dir().then_some(folder)
}

/// What is in a file. A pipe is none that anybody waits at.
fn text(file: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, file, flags, Mode::empty()).ok()?);
    let mut text = Vec::new();
    let is_file = file.metadata().ok()?.is_file();
    is_file.then(|| file.take(LONGEST).read_to_end(&mut text).ok()).flatten()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_and_a_worktree_lead_to_where_the_history_is() {
        let folder = tempfile::tempdir().unwrap();
        let top = canonicalize(folder.path()).unwrap();
        for made in ["meta", "trees/one", "shared", "plain/.git", "wide/.git"] {
            fs::create_dir_all(top.join(made)).unwrap();
        }
        let says = |file: &str, text: &str| fs::write(top.join(file), text).unwrap();
        let of = |git: &str| elsewhere(&top.join(git));
        says("one", "gitdir: meta\n");
        assert_eq!(of("one"), [top.join("meta")]);
        says("trees/one/commondir", "../../shared\n");
        says("two", &format!("gitdir: {}\r\n", top.join("trees/one").display()));
        assert_eq!(of("two"), [top.join("trees/one"), top.join("shared")]);
        says("wide/.git/commondir", "../../shared");
        assert_eq!(of("wide/.git"), [top.join("shared")]);
        for text in ["", "gitdir: ", "gitdir: gone\n", "meta\n", "gitdir: one\n", "gitdir: me\0ta"] {
            says("three", text);
            assert!(of("three").is_empty(), "{text:?}");
        }
        assert!(of("plain/.git").is_empty() && of("gone").is_empty());
        rustix::fs::mknodat(CWD, top.join("plain/.git/commondir"), rustix::fs::FileType::Fifo, Mode::RWXU, 0)
            .unwrap();
        assert!(of("plain/.git").is_empty(), "nobody waits at a pipe");
    }
}
