//! The file of a journal: locked by one run at a time, appended line by line, and repaired after a crash.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use cap_std::fs::Metadata;

use super::line;
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::host::file_id;

/// The start of the first line of every journal, after its checksum.
const HEADER_PREFIX: &str = "{\"metier-journal\":";

/// The maximum size of a journal in bytes that is read.
const MAX_BYTES: u64 = 1 << 30;

/// How often a lock is tried that somebody else holds, and how long to wait in between.
const MAX_LOCK_TRIES: usize = 5;
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// The open and locked file.
pub(super) struct JournalFile {
    file: File,
    len: u64,
    is_broken: bool,
}

/// The text of a line and its value.
pub(super) type LineContent = (String, Option<String>);

impl Drop for JournalFile {
    /// Unlocks the file explicitly: a process that was forked meanwhile shares the file and its lock.
    fn drop(&mut self) {
        self.file.unlock().ok();
    }
}

impl JournalFile {
    /// Opens the file, creating it if it does not exist, and reads its complete lines. A partial line that a crash left after
    /// them is cut off.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<LineContent>)> {
        let failed =
            |error| SkillError::io(format_args!("failed to open the journal {}", path.display()), error);
        let folder = path.parent().unwrap_or(Path::new("."));
        create_folder_synced(folder, &mut sync_folder).map_err(failed)?;
        let mut file = open_locked(path)?;
        let mut bytes = Vec::new();
        (&mut file).take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(damaged_journal_error(path));
        }
        let (found, len) = read_complete_lines(&bytes, path)?;
        let lines = Self { file, len, is_broken: false };
        if len < bytes.len() as u64 {
            lines.file.set_len(len).and_then(|()| lines.file.sync_all()).map_err(failed)?;
        }
        if found.is_empty() {
            sync_folder(folder).map_err(failed)?;
        }
        Ok((lines, found))
    }

    /// Appends a line. If only a part of it could be written, that part is removed.
    pub(super) fn append(&mut self, line: &str) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::other("an earlier line could not be written"));
        }
        let written = self.file.write_all(line.as_bytes());
        if written.is_ok() {
            self.len += line.len() as u64;
        } else {
            self.is_broken = true;
            // If it cannot be removed, it is cut off when the file is opened again.
            let _ = self.file.set_len(self.len);
        }
        written
    }

    /// Syncs all lines to the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        let kept = self.file.sync_data();
        self.is_broken |= kept.is_err();
        kept
    }
}

/// Opens and locks the file, creating it if it does not exist.
fn open_locked(path: &Path) -> Result<File> {
    let failed = |error| SkillError::io(format_args!("failed to open the journal {}", path.display()), error);
    for at in 0..MAX_LOCK_TRIES {
        if at > 0 {
            // Whoever looks whether it is locked holds the lock for a moment, and so does whoever removes it.
            std::thread::sleep(LOCK_INTERVAL);
        }
        if std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(not_a_journal_error(path));
        }
        let file = open_options().open(path).map_err(failed)?;
        if !is_own(&file).map_err(failed)? {
            let sentence = format!("the journal {} belongs to another user", path.display());
            return Err(SkillError::new(ErrorKind::Usage, sentence)
                .with_help("name another folder")
                .with_hint(Hint::Journal));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let found = std::fs::symlink_metadata(path).map(Metadata::from_just_metadata);
        // It may have been removed before it was locked: then nobody would find what is written to it.
        if found.is_ok_and(|found| is_same_file(&file, &found)) {
            return Ok(file);
        }
        file.unlock().ok();
    }
    Err(journal_in_use_error(path))
}

/// Whether the file belongs to the user of this process: what another user recorded is of no use to this one.
#[cfg(unix)]
fn is_own(file: &File) -> io::Result<bool> {
    Ok(std::os::unix::fs::MetadataExt::uid(&file.metadata()?) == rustix::process::geteuid().as_raw())
}

#[cfg(not(unix))]
fn is_own(_: &File) -> io::Result<bool> {
    Ok(true)
}

/// Whether an open file is the one that was found at its path. Where a file cannot be removed while it is open, it is.
pub(super) fn is_same_file(file: &File, found: &Metadata) -> bool {
    let id = || Metadata::from_file(file).map(|metadata| file_id(&metadata));
    cfg!(windows) || id().is_ok_and(|id| id == file_id(found))
}

/// The lines up to the first incomplete one, and their size in bytes.
fn read_complete_lines(bytes: &[u8], path: &Path) -> Result<(Vec<LineContent>, u64)> {
    let (found, len, damage) = decode_lines(bytes, path);
    damage.map_or(Ok((found, len)), Err)
}

/// The same, and what is wrong with the file: complete lines after an incomplete one cannot be the result of a crash.
pub(super) fn decode_lines(bytes: &[u8], path: &Path) -> (Vec<LineContent>, u64, Option<SkillError>) {
    let mut found = Vec::new();
    let mut len = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(content) = line.strip_suffix(b"\n").and_then(line::decode) else { break };
        found.push(content);
        len += line.len();
    }
    let rest = &bytes[len..];
    let is_whole = |line: &[u8]| line.strip_suffix(b"\n").is_some_and(|line| line::decode(line).is_some());
    let is_header = match found.first() {
        Some((text, _)) => text.starts_with(HEADER_PREFIX),
        None => is_torn_header(rest),
    };
    let damage = if rest.split_inclusive(|byte| *byte == b'\n').any(is_whole) {
        Some(damaged_journal_error(path))
    } else if is_header {
        None
    } else {
        found.clear();
        Some(not_a_journal_error(path))
    };
    (found, len as u64, damage)
}

/// The bytes that tell whether a file is a journal.
pub(super) const MAX_HEADER_START: u64 = 64;

/// Whether a file that starts with these bytes is a journal, or the beginning of one that a crash left.
pub(super) fn is_header_start(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_whole_line = line.len() < bytes.len();
    is_torn_header(line) && line.first() != Some(&0) && !(is_whole_line && line.len() < HEADER_PREFIX.len())
}

/// Whether this may be a first line that a crash left incomplete, and not a file of somebody else.
fn is_torn_header(bytes: &[u8]) -> bool {
    const SUM: usize = 16;
    let looks_alike = |at: usize, byte: u8| match at {
        0..SUM => byte.is_ascii_hexdigit(),
        SUM => byte == b' ',
        _ => HEADER_PREFIX.as_bytes().get(at - SUM - 1).is_none_or(|expected| *expected == byte),
    };
    let is_alike = bytes.iter().enumerate().all(|(at, byte)| *byte == 0 || looks_alike(at, *byte));
    is_alike && !bytes.contains(&b'\n')
}

fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates the folder and its missing parents, and syncs each to the folder that contains it.
pub(super) fn create_folder_synced(
    folder: &Path,
    keep: &mut impl FnMut(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.is_dir();
    let missing: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    for folder in missing.into_iter().rev() {
        // Another run may create it at the same time.
        std::fs::create_dir(folder).or_else(|error| if folder.is_dir() { Ok(()) } else { Err(error) })?;
        let around = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        keep(around.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

/// Syncs the entries of a folder. This is possible on Unix only.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Makes one plain file name of a name: other characters are escaped byte by byte, as in `%2F`.
pub(super) fn escape_file_name(name: &str) -> String {
    const LONGEST: usize = 120;
    let mut plain = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || "-_".contains(c) {
            plain.push(c);
        } else {
            plain.extend(c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("%{byte:02X}")));
        }
    }
    if plain.len() <= LONGEST {
        return plain;
    }
    plain.truncate(LONGEST / 2);
    format!("{plain}-{}", &crate::journal::line::bytes_digest(name.as_bytes())[..LONGEST / 4])
}

pub(super) fn not_a_journal_error(path: &Path) -> SkillError {
    let sentence = format!("{} is not a journal of metier, and is left as it is", path.display());
    SkillError::new(ErrorKind::Usage, sentence).with_help("name another folder").with_hint(Hint::Journal)
}

pub(super) fn damaged_journal_error(path: &Path) -> SkillError {
    let sentence = format!("the journal {} is damaged before its last line", path.display());
    SkillError::new(ErrorKind::Io, sentence)
        .with_help("remove it to start over; finished steps are repeated then")
}

pub(super) fn journal_in_use_error(path: &Path) -> SkillError {
    let sentence = format!("another run is writing the journal {}", path.display());
    SkillError::new(ErrorKind::Usage, sentence)
        .with_help("wait for it, or name another folder")
        .with_hint(Hint::Journal)
}
