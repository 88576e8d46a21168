//! A list of files with the stats under which it was read, so that only what changed is read again.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{FileList, ListedFile, MAX_FILES, content_digest};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::Files;
use metier_core::host::file_stat::{FileStat, now};
use metier_core::host::files::{EntryKind, TreeEntry, TreeStat};
use metier_core::host::outward_link::open_linked_skill_file;
use metier_core::policy::{CancelToken, SkillDigest};

/// Maximum bytes of all files of a skill that has a digest.
const MAX_BYTES: u64 = 1 << 30;
/// Maximum entries of its folder, with folders and state.
const MAX_ENTRIES: usize = 100_000;
/// Folders from which interpreters load modules.
const CODE_FOLDERS: [&str; 5] = ["__pycache__", "node_modules", ".venv", "venv", "site-packages"];
/// The extensions of scripts and modules.
const CODE_EXTENSIONS: [&str; 45] = [
    "bash", "bat", "class", "cjs", "cmd", "cts", "dll", "dylib", "egg", "exe", "fish", "jar", "jl", "js",
    "jsx", "ksh", "lua", "luau", "mjs", "mts", "node", "php", "pl", "pm", "ps1", "pth", "py", "pyc", "pyd",
    "pyi", "pyo", "pyw", "pyz", "r", "rb", "rhai", "sh", "so", "swift", "tcl", "ts", "tsx", "wasm", "wat",
    "zsh",
];
/// Bytes that are read at a time.
const BUFFER: usize = 64 << 10;

/// A list of files, and what the system said about each when it was read.
#[derive(Debug)]
pub(crate) struct FileListSnapshot {
    /// The time before anything was read, since 1970.
    began: Duration,
    list: Arc<FileList>,
    /// The stats of the files, in the order of the list.
    stats: Vec<FileStat>,
}

impl FileListSnapshot {
    /// The list of the files in this folder, without those below the paths `excluded`. Files that have the same stat as in `earlier`
    /// and cannot have changed since are not read again.
    ///
    /// Fails for what has no digest: a link that leads out of the folder, a FIFO, a socket, a device, too many files or bytes. A
    /// `SKILL.md` that is a link to another one is listed as a file with the content of that.
    pub(crate) fn read(
        files: &Files,
        excluded: &[String],
        earlier: Option<&Self>,
        cancel: &CancelToken,
    ) -> Result<Self> {
        let began = now();
        let mut found: Vec<(ListedFile, FileStat)> = Vec::new();
        let mut left = MAX_BYTES;
        let mut buffer = Vec::new();
        files.walk_tree(MAX_ENTRIES, cancel, |entry| {
            let is_below = |folder: &String| {
                entry
                    .path
                    .strip_prefix(folder.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            if excluded.iter().any(is_below) {
                return inspect_state(entry);
            }
            let failed =
                |source| SkillError::io(format_args!("failed to read {}", entry.display_path()), source);
            let listed = match entry.kind {
                EntryKind::Dir => return Ok(true),
                EntryKind::Symlink => match link(entry) {
                    Ok(link) => link,
                    Err(error) => {
                        let linked = open_linked_skill_file(files.root(), &entry.path).ok_or(error)?;
                        let stat = FileStat::of_open(&linked).map_err(failed)?;
                        buffer.resize(BUFFER, 0);
                        read_file(entry, (linked, TreeStat { stat, mode: 0 }), &mut buffer, left, cancel)?
                    }
                },
                EntryKind::Other => return Err(undigestible(entry, "is neither a file nor a folder")),
                EntryKind::File => {
                    // Where all files are read, each has its stat from when it is opened.
                    let known =
                        earlier.map(|earlier| Ok::<_, io::Error>((earlier, entry.stat()?))).transpose();
                    let unchanged = known.map_err(failed)?.and_then(|(earlier, stat)| {
                        Some((earlier.unchanged(&entry.path, &stat)?.clone(), stat.stat))
                    });
                    if let Some(unchanged) = unchanged {
                        unchanged
                    } else {
                        buffer.resize(BUFFER, 0);
                        read_file(entry, entry.open().map_err(failed)?, &mut buffer, left, cancel)?
                    }
                }
            };
            left = left.checked_sub(listed.0.size).ok_or_else(|| too_large(files))?;
            found.push(listed);
            if found.len() > MAX_FILES {
                let sentence = format!("{} has more than {MAX_FILES} files", files.root().display());
                return Err(no_digest(&sentence));
            }
            Ok(false)
        })?;
        found.sort_unstable_by(|a, b| a.0.path.cmp(&b.0.path));
        let (entries, stats): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let list = match earlier.filter(|earlier| earlier.list.entries == entries) {
            Some(earlier) => earlier.list.clone(),
            None => Arc::new(FileList::new(entries)),
        };
        Ok(Self { began, list, stats })
    }

    /// The list.
    pub(crate) fn list(&self) -> &Arc<FileList> {
        &self.list
    }

    /// The entry of a file whose stat proves that it is as it was. A link has no stat that is compared: its target is read.
    fn unchanged(&self, path: &str, now: &TreeStat) -> Option<&ListedFile> {
        let index = self.list.entries.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        let (listed, stat) = (self.list.entries.get(index)?, self.stats.get(index)?);
        (!listed.link && *stat == now.stat && stat.is_settled(self.began)).then_some(listed)
    }
}

/// Whether to look below what is state: files that change without notice must not be what an interpreter loads.
fn inspect_state(entry: &TreeEntry<'_>) -> Result<bool> {
    let name = entry.path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let is_code = || {
        CODE_FOLDERS.contains(&name.as_str())
            || name.rsplit_once('.').is_some_and(|(_, extension)| CODE_EXTENSIONS.contains(&extension))
    };
    match entry.kind {
        EntryKind::Dir if !is_code() => Ok(true),
        EntryKind::Symlink if !is_code() => link(entry).map(|_| false),
        EntryKind::File | EntryKind::Other if !is_code() => Ok(false),
        _ => Err(undigestible(entry, "is code, or a folder of code, in a path of `state`")),
    }
}

fn read_file(
    entry: &TreeEntry<'_>,
    (mut file, TreeStat { stat, mode }): (File, TreeStat),
    buffer: &mut [u8],
    max: u64,
    cancel: &CancelToken,
) -> Result<(ListedFile, FileStat)> {
    let failed = |source| SkillError::io(format_args!("failed to read {}", entry.display_path()), source);
    let (mut digest, mut size) = (Sha256::new(), 0);
    loop {
        cancel.check()?;
        let count = match file.read(buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        digest.update(&buffer[..count]);
        size += count as u64;
        if size > max {
            return Err(undigestible(entry, "makes the skill larger than 1 GiB"));
        }
    }
    let listed = ListedFile {
        path: entry.path.clone(),
        link: false,
        executable: mode & 0o111 != 0,
        set_id: mode & 0o6000 != 0,
        size,
        digest: SkillDigest::new(digest.finalize().into()),
    };
    Ok((listed, stat))
}

fn link(entry: &TreeEntry<'_>) -> Result<(ListedFile, FileStat)> {
    let failed = |source| SkillError::io(format_args!("failed to read {}", entry.display_path()), source);
    let stat = entry.stat().map_err(failed)?.stat;
    let target = entry.link_target().map_err(failed)?;
    if !stays_inside(&entry.path, &target) {
        return Err(undigestible(entry, "is a link that leads out of the skill's folder"));
    }
    let bytes = target.as_os_str().as_encoded_bytes();
    let listed = ListedFile {
        path: entry.path.clone(),
        link: true,
        executable: false,
        set_id: false,
        size: bytes.len() as u64,
        digest: content_digest(bytes),
    };
    Ok((listed, stat))
}

/// Whether the target of a link at this path is relative and climbs no higher than the skill's folder. Names before a `..` may be
/// links themselves, so only leading ones count.
fn stays_inside(path: &str, target: &Path) -> bool {
    let mut depth = path.split('/').count() - 1;
    let mut is_climbing = true;
    target.components().all(|part| match part {
        Component::ParentDir if is_climbing && depth > 0 => {
            depth -= 1;
            true
        }
        Component::CurDir => true,
        Component::Normal(_) => {
            is_climbing = false;
            true
        }
        _ => false,
    })
}

fn undigestible(entry: &TreeEntry<'_>, reason: &str) -> SkillError {
    no_digest(&format!("{} {reason}", entry.display_path()))
}

fn too_large(files: &Files) -> SkillError {
    no_digest(&format!("{} is larger than 1 GiB", files.root().display()))
}

fn no_digest(reason: &str) -> SkillError {
    SkillError::new(ErrorKind::InvalidSkill, format!("the skill has no digest: {reason}"))
        .with_help("remove it from the skill, or trust the folder that the skill is in")
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;
    use std::time::SystemTime;

    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            let folder = Self(tempfile::tempdir().unwrap());
            folder.write("SKILL.md", "text");
            folder.write("scripts/main.lua", "return 1");
            folder
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, name: &str, content: &str) {
            fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            fs::write(self.path(name), content).unwrap();
        }

        fn read(&self, state: &[&str], earlier: Option<&FileListSnapshot>) -> Result<FileListSnapshot> {
            let state: Vec<String> = state.iter().map(|path| (*path).to_owned()).collect();
            let files = Files::open(self.0.path()).unwrap();
            FileListSnapshot::read(&files, &state, earlier, &CancelToken::new())
        }

        fn digest(&self) -> SkillDigest {
            self.read(&[], None).unwrap().list().digest()
        }

        fn make_executable(&self, name: &str, mode: u32) {
            fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
    }

    #[test]
    fn every_change_of_a_file_changes_the_digest() {
        let folder = Folder::new();
        let mut seen = vec![folder.digest()];
        let mut differs = |what: &str| {
            let digest = folder.digest();
            assert!(!seen.contains(&digest), "{what}");
            seen.push(digest);
        };
        for name in
            ["assets/a", ".hidden", ".git/hooks/x", "__pycache__/m.pyc", "metier/wasm/x", "node_modules/y"]
        {
            folder.write(name, "1");
            differs(name);
            folder.write(name, "2");
            differs(name);
        }
        let deep = "deep/".repeat(40) + "a";
        folder.write(&deep, "one");
        differs("deep");
        fs::rename(folder.path("assets/a"), folder.path("assets/b")).unwrap();
        differs("renamed");
        folder.make_executable("scripts/main.lua", 0o755);
        differs("executable");
        folder.make_executable("scripts/main.lua", 0o4755);
        differs("set-id");
        symlink("scripts/main.lua", folder.path("link")).unwrap();
        differs("link");
        fs::remove_file(folder.path("link")).unwrap();
        symlink("scripts/../scripts", folder.path("assets/link")).unwrap_or_default();
        assert!(folder.read(&[], None).is_err(), "a name before a `..` may be a link");
        fs::remove_file(folder.path("assets/link")).unwrap();
        symlink("../scripts", folder.path("assets/link")).unwrap();
        differs("a link to a folder");
        fs::write(folder.path("scripts").join(std::ffi::OsStr::new("e\u{301}")), "").unwrap();
        differs("a name in decomposed Unicode");
        fs::rename(folder.path("scripts/e\u{301}"), folder.path("scripts/\u{e9}")).unwrap();
        differs("the same name composed");
        let before = folder.digest();
        folder.make_executable("SKILL.md", 0o600);
        fs::create_dir(folder.path("empty")).unwrap();
        assert_eq!(folder.digest(), before, "who may read a file, and empty folders, do not count");
    }

    #[test]
    fn what_has_no_digest_is_named() {
        for (target, inside) in [
            ("/etc/passwd", false),
            ("../../outside", false),
            ("..", true),
            ("../SKILL.md", true),
            ("../scripts/../../x", false),
            ("missing", true),
        ] {
            let folder = Folder::new();
            symlink(target, folder.path("scripts/link")).unwrap();
            let read = folder.read(&[], None);
            assert_eq!(read.is_ok(), inside, "{target}");
            let shown = read.err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(shown.contains("scripts/link is a link that leads out"), !inside, "{target}: {shown}");
        }
        let folder = Folder::new();
        let made = std::process::Command::new("mkfifo").arg(folder.path("pipe")).status().unwrap();
        assert!(made.success());
        let error = folder.read(&[], None).unwrap_err();
        assert!(error.message().contains("pipe is neither a file nor a folder"), "{error}");
        assert_eq!(error.kind(), ErrorKind::InvalidSkill);
    }

    #[test]
    fn state_does_not_count_and_its_neighbours_do() {
        let folder = Folder::new();
        let digest = |state: &[&str]| folder.read(state, None).unwrap().list().digest();
        let before = digest(&["data"]);
        folder.write("data/deep/a", "1");
        assert_eq!(digest(&["data"]), before);
        symlink("deep", folder.path("data/link")).unwrap();
        assert_eq!(digest(&["data"]), before);
        symlink("/etc", folder.path("data/out")).unwrap();
        assert!(folder.read(&["data"], None).is_err(), "code may be where a link leads");
        fs::remove_file(folder.path("data/out")).unwrap();
        folder.write("data2", "1");
        assert_ne!(digest(&["data"]), before);
    }

    #[test]
    fn an_unchanged_file_is_not_read_again_and_a_changed_one_is() {
        let folder = Folder::new();
        std::thread::sleep(Duration::from_millis(120));
        let first = folder.read(&[], None).unwrap();
        let second = folder.read(&[], Some(&first)).unwrap();
        assert!(Arc::ptr_eq(first.list(), second.list()));
        assert!(first.unchanged("SKILL.md", &stat(&folder, "SKILL.md")).is_some());
        // Of the same size, and with the old time put back.
        let script = folder.path("scripts/main.lua");
        let modified = fs::metadata(&script).unwrap().modified().unwrap();
        folder.write("scripts/main.lua", "return 2");
        fs::File::options().write(true).open(&script).unwrap().set_modified(modified).unwrap();
        assert_eq!(fs::metadata(&script).unwrap().modified().unwrap(), modified);
        assert!(first.unchanged("scripts/main.lua", &stat(&folder, "scripts/main.lua")).is_none());
        let third = folder.read(&[], Some(&second)).unwrap();
        let found = third.list().differences_from(first.list());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "scripts/main.lua");
        // A file with a time in the future is settled by the time that the system sets.
        let future = SystemTime::now() + Duration::from_hours(1);
        fs::File::options().write(true).open(&script).unwrap().set_modified(future).unwrap();
        let fourth = folder.read(&[], Some(&third)).unwrap();
        assert!(
            fourth.unchanged("scripts/main.lua", &stat(&folder, "scripts/main.lua")).is_none(),
            "just changed"
        );
    }

    fn stat(folder: &Folder, name: &str) -> TreeStat {
        let files = Files::open(folder.0.path()).unwrap();
        let mut found = None;
        files
            .walk_tree(100, &CancelToken::new(), |entry| {
                if entry.path == name {
                    found = Some(entry.stat().unwrap());
                }
                Ok(true)
            })
            .unwrap();
        found.unwrap()
    }
}
