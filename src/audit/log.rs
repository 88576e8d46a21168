//! The audit log in a folder of the user: one line for each record, written by several processes one after the other.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;

use super::chain::{AuditHash, SealedLine, close_line};
use super::folder::{CURRENT_FILE, HeldLock, LogFolder, closed_name};
use super::lines::{self, AuditLine, AuditReport};
use super::record::{AuditActor, AuditClient, AuditFace, AuditKind, AuditRecord, AuditWho};
use super::sink::AuditSink;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{FileId, file_id, metier_dirs};

/// The largest record, in bytes of JSON.
const MAX_RECORD: usize = 512 << 10;
/// How much of a torn line the record about it repeats, in bytes.
const MAX_FRAGMENT: usize = 2_000;
/// How much is read at a time in search of the last line.
const TAIL_BYTES: u64 = 64 << 10;

/// The audit log in a folder that only its user can read. Cheap to clone.
///
/// Several processes may write to it at a time. Each line has the hash of the line before, so a line that was changed, removed or
/// added in its midst is found. Whoever can write to the folder can write the whole log anew: keep its
/// [head](AuditLog::head) elsewhere. Lines are not flushed to the disk one by one, so a power failure may lose the last ones.
///
/// ```no_run
/// use metier::audit::AuditLog;
/// use metier::engine::Engine;
///
/// # fn main() -> metier::error::Result<()> {
/// let engine = Engine::builder(".").audit(AuditLog::user()?).require_audit(true).build()?;
/// # let _ = engine;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AuditLog(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    opened: Mutex<Option<OpenLog>>,
}

/// The open files of the log, and how far this process knows it.
struct OpenLog {
    folder: LogFolder,
    lock: Arc<File>,
    file: File,
    id: FileId,
    /// How long the file is; `None` before it was looked at.
    size: Option<u64>,
    /// Where its last whole line ends, and the hash of that line.
    end: u64,
    head: AuditHash,
}

impl AuditLog {
    /// The log of this user: in the folder that the environment variable `METIER_DATA_DIR` names, or in that of metier in the user's
    /// data folder. `unavailable` if the user has none.
    pub fn user() -> Result<Self> {
        let missing = || {
            let sentence = "there is no folder for the audit log: the home folder of the user is not known";
            SkillError::new(ErrorKind::Unavailable, sentence)
                .with_help("set METIER_DATA_DIR to the path of a folder")
        };
        metier_dirs::audit_dir().map(Self::new).ok_or_else(missing)
    }

    /// The log in this folder, which need not exist. It must not lie in a project, where scripts could write to it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        // A slash at the end would follow a link.
        let folder = folder.into().components().collect();
        Self(Arc::new(Inner { folder, opened: Mutex::default() }))
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// The hash of the last line; `None` if there is none. Whoever keeps it elsewhere can find out later whether the log was written anew.
    pub fn head(&self) -> Result<Option<AuditHash>> {
        self.verify(None).map(|report| report.head)
    }

    /// Compares every line with the hash of the line before it; and with `head`, whether a line has this hash.
    pub fn verify(&self, head: Option<AuditHash>) -> Result<AuditReport> {
        let mut report = AuditReport::default();
        if let Some(folder) = LogFolder::open(&self.0.folder)? {
            lines::verify(&folder, head, &mut report)?;
        }
        Ok(report)
    }

    /// Calls this with every line, the oldest first, until it returns an error. A line that is no JSON is left out; [`AuditLog::verify`]
    /// finds it.
    pub fn for_each(&self, visit: impl FnMut(AuditLine) -> Result<()>) -> Result<()> {
        match LogFolder::open(&self.0.folder)? {
            Some(folder) => lines::for_each(&folder, visit),
            None => Ok(()),
        }
    }

    /// Closes the file of the log, and begins a new one with the hash of its last line. Returns the name of the closed file; `None` if
    /// there was nothing to close.
    pub fn rotate(&self) -> Result<Option<String>> {
        let mut opened = self.0.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if LogFolder::open(&self.0.folder)?.is_none_or(|folder| !folder.has(CURRENT_FILE)) {
            return Ok(None);
        }
        let (lock, log) = self.lock(&mut opened)?;
        if log.end == 0 {
            return Ok(None);
        }
        let failed = |source| SkillError::io("failed to rotate the audit log", source);
        let last = log.folder.closed_files().map_err(failed)?.last().map_or(0, |(number, _)| *number);
        let name = closed_name(last + 1);
        log.file.sync_all().map_err(failed)?;
        log.folder.close_as(&name).map_err(failed)?;
        let mut record = AuditRecord::new(AuditKind::Rotated, own_voice());
        record.target = Some(name.clone());
        let head = log.head;
        let mut new = OpenLog::open(&self.0.folder)?;
        (new.size, new.head) = (Some(0), head);
        new.append(to_object(&record)?)?;
        drop(lock);
        *opened = Some(new);
        Ok(Some(name))
    }

    /// The open log, locked against other writers, with what they have written.
    fn lock<'a>(&self, opened: &'a mut Option<OpenLog>) -> Result<(HeldLock, &'a mut OpenLog)> {
        /// Another process may rotate the file while this one opens it.
        const MAX_TRIES: usize = 10;
        let path = self.0.folder.join(CURRENT_FILE);
        let is_current =
            |log: &&mut OpenLog| path.symlink_metadata().is_ok_and(|found| file_id(&found) == log.id);
        let mut lock = None;
        for _ in 0..MAX_TRIES {
            let log = match opened.as_mut().filter(is_current) {
                Some(log) => log,
                None => opened.insert(OpenLog::open(&self.0.folder)?),
            };
            lock = Some(HeldLock::acquire(&log.lock)?);
            if is_current(&log) {
                break;
            }
            lock = None;
        }
        let (Some(lock), Some(log)) = (lock, opened.as_mut()) else {
            let sentence = "the file of the audit log is replaced all the time";
            return Err(SkillError::new(ErrorKind::Unavailable, sentence));
        };
        log.catch_up()?;
        Ok((lock, log))
    }
}

impl AuditSink for AuditLog {
    fn write(&self, record: &AuditRecord) -> Result<()> {
        let object = to_object(record)?;
        if object.len() > MAX_RECORD {
            let sentence =
                format!("a record of the audit log has {} bytes, more than {MAX_RECORD}", object.len());
            return Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help("record less at a time"));
        }
        let mut opened = self.0.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let (_lock, log) = self.lock(&mut opened)?;
        log.append(object)
    }
}

impl OpenLog {
    fn open(path: &Path) -> Result<Self> {
        let folder = LogFolder::create(path)?;
        let lock = Arc::new(folder.lock_file()?);
        let file = folder.open_for_writing(CURRENT_FILE)?;
        let about = file
            .metadata()
            .map_err(|source| SkillError::io("failed to read the file of the audit log", source))?;
        Ok(Self { folder, lock, file, id: file_id(&about), size: None, end: 0, head: AuditHash::NONE })
    }

    /// Learns what other processes have written, and marks what a crash has torn. The caller holds the lock.
    fn catch_up(&mut self) -> Result<()> {
        let failed = |source| SkillError::io("failed to read the audit log", source);
        let size = self.file.metadata().map_err(failed)?.len();
        if self.size == Some(size) {
            return Ok(());
        }
        let (end, last) = last_line(&self.file, size).map_err(failed)?;
        self.head = match last {
            Some(line) => match SealedLine::parse(&line) {
                Ok(sealed) => sealed.hash,
                Err(_) => AuditHash::of_foreign_line(&line),
            },
            None => self.head_of_closed_file()?,
        };
        (self.end, self.size) = (end, Some(size));
        if end == size {
            return Ok(());
        }
        let mut torn = vec![0; usize::try_from(size - end).unwrap_or(MAX_FRAGMENT).min(MAX_FRAGMENT)];
        read_at(&self.file, &mut torn, end).map_err(failed)?;
        let record = AuditRecord::new(AuditKind::Torn, own_voice());
        let mut object = serde_json::to_value(&record).map_err(|error| failed(error.into()))?;
        object["torn"] = json!({"bytes": size - end, "text": String::from_utf8_lossy(&torn)});
        // It is written over the torn line, whose rest would be marked again if this were torn, too.
        self.append(serde_json::to_vec(&object).map_err(|error| failed(error.into()))?)?;
        if self.end < size {
            self.size = None;
            self.file.set_len(self.end).map_err(failed)?;
            self.size = Some(self.end);
        }
        Ok(())
    }

    /// What the first line of a file continues.
    fn head_of_closed_file(&self) -> Result<AuditHash> {
        let failed = |source| SkillError::io("failed to read the audit log", source);
        let Some((_, name)) = self.folder.closed_files().map_err(failed)?.pop() else {
            return Ok(AuditHash::NONE);
        };
        let file = self.folder.open_for_reading(&name)?;
        let size = file.metadata().map_err(failed)?.len();
        let (_, last) = last_line(&file, size).map_err(failed)?;
        Ok(match last.as_deref().map(SealedLine::parse) {
            Some(Ok(sealed)) => sealed.hash,
            _ => last.map_or(AuditHash::NONE, |line| AuditHash::of_foreign_line(&line)),
        })
    }

    /// Writes a line by one call. The caller holds the lock and has caught up.
    fn append(&mut self, mut object: Vec<u8>) -> Result<()> {
        let failed = |source| SkillError::io("failed to write the audit log", source);
        let hash = close_line(&mut object, self.head);
        let (size, end) = (self.size.take().unwrap_or(self.end), self.end + object.len() as u64);
        match write_at(&self.file, &object, self.end) {
            Ok(written) if written == object.len() => {
                (self.size, self.end, self.head) = (Some(size.max(end)), end, hash);
                Ok(())
            }
            result => {
                // Where the disk is full, nothing half remains.
                self.file.set_len(size).ok();
                Err(failed(result.err().unwrap_or_else(|| io::ErrorKind::StorageFull.into())))
            }
        }
    }
}

fn to_object(record: &AuditRecord) -> Result<Vec<u8>> {
    serde_json::to_vec(record).map_err(|error| SkillError::io("failed to write the audit log", error.into()))
}

/// Who writes what the log says about itself.
fn own_voice() -> AuditWho {
    AuditWho::new(AuditActor::Log, AuditClient::new(AuditFace::Library))
}

/// Where the last whole line ends, and that line without its line end.
fn last_line(file: &File, size: u64) -> io::Result<(u64, Option<Vec<u8>>)> {
    let Some(end) = last_line_end(file, size)? else { return Ok((0, None)) };
    let start = last_line_end(file, end - 1)?.unwrap_or(0);
    let mut line = vec![0; usize::try_from(end - 1 - start).map_err(io::Error::other)?];
    read_at(file, &mut line, start)?;
    Ok((end, Some(line)))
}

/// The end of the last line that ends at or before this place.
fn last_line_end(file: &File, mut before: u64) -> io::Result<Option<u64>> {
    while before > 0 {
        let start = before.saturating_sub(TAIL_BYTES);
        let mut part = vec![0; usize::try_from(before - start).map_err(io::Error::other)?];
        read_at(file, &mut part, start)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(Some(start + at as u64 + 1));
        }
        before = start;
    }
    Ok(None)
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, at)
}

#[cfg(unix)]
fn write_at(file: &File, text: &[u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, text, at)
}

#[cfg(not(unix))]
fn read_at(mut file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    use io::{Read, Seek};
    file.seek(io::SeekFrom::Start(at))?;
    file.read_exact(buffer)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, text: &[u8], at: u64) -> io::Result<usize> {
    use io::{Seek, Write};
    file.seek(io::SeekFrom::Start(at))?;
    file.write(text)
}
