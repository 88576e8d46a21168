//! The change set: every path that a run changed, what was there before, and what is there after.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::files::name_encoding;
use metier_core::policy::Timestamp;
use metier_core::unicode::mark_escapes;

/// What a run changed in a copy of a project.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChangeSet {
    /// Its name: 32 hexadecimal digits, by chance.
    pub id: String,
    /// When the run began.
    pub started: Timestamp,
    /// When the run had ended, and its changes were read.
    pub ended: Timestamp,
    /// The canonical folder of the project, as text.
    pub project: String,
    /// The device and number of that folder.
    pub project_identity: FileIdentity,
    /// What ran, for a person to read.
    pub skill: String,
    /// The changes, by their paths.
    pub changes: Vec<Change>,
    /// What the run made and nobody can apply, such as a socket or a change to `.git`.
    pub refused: Vec<Refusal>,
}

/// A path that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Change {
    /// The path in the project. Bytes that are not UTF-8 are written as `\xFF`.
    pub path: String,
    /// What kind of change it is.
    pub kind: ChangeKind,
    /// Where a renamed file was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What the project has there, or had at `from`.
    pub before: Option<FileState>,
    /// What the run left there.
    pub after: Option<FileState>,
    /// Why it cannot be applied: the project was changed while the run took place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<String>,
}

/// What kind of change it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeKind {
    /// Nothing was there before.
    Created,
    /// A file has another content, or something of another type is there.
    Changed,
    /// Nothing is there any more.
    Deleted,
    /// The content of a file that is not at its old path any more.
    Renamed,
    /// Only the permissions differ.
    Mode,
    /// A symbolic link has another target.
    Link,
}

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryType {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Symlink,
}

/// What lies at a path at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileState {
    /// Whether it is a file, a folder or a link.
    #[serde(rename = "type")]
    pub entry_type: EntryType,
    /// The bytes of a file; 0 of all else.
    pub size: u64,
    /// The permissions of user, group and others. Those of a link are always 0.
    pub mode: u32,
    /// The SHA-256 of a file, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Where a link leads, written like a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Which file of the file system it is.
    pub identity: FileIdentity,
}

/// Which file of a file system it is, and when it was changed last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileIdentity {
    /// The number of its device.
    pub dev: u64,
    /// Its number on that device.
    pub ino: u64,
    /// The last change of the content, in nanoseconds since 1970.
    pub mtime: i64,
    /// The last change of the file or of what the system knows about it, in nanoseconds since 1970.
    pub ctime: i64,
}

/// A path of a run that nobody can apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Refusal {
    /// The path in the project.
    pub path: String,
    /// Why, as a part of a sentence.
    pub reason: String,
}

/// A path that was not applied or undone, since the project has something else there than expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Conflict {
    /// The path in the project.
    pub path: String,
    /// Why, as a part of a sentence.
    pub reason: String,
    /// What was expected there.
    pub expected: Option<FileState>,
    /// What is there.
    pub found: Option<FileState>,
}

impl ChangeSet {
    /// Whether the run changed nothing, and nothing was refused.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.refused.is_empty()
    }

    /// The set as JSON, with what `shown` makes of each of its texts: paths, targets of links, reasons and the name of what ran. All else stays,
    /// so that it can be read back whatever `shown` replaces.
    pub fn to_json_with(&self, shown: impl Fn(Value) -> Value) -> Value {
        let replace = |text: &mut String| {
            if let Value::String(replaced) = shown(Value::String(std::mem::take(text))) {
                *text = replaced;
            }
        };
        let mut set = self.clone();
        for change in &mut set.changes {
            let states = [&mut change.before, &mut change.after].into_iter().flatten();
            let targets = states.filter_map(|state| state.target.as_mut());
            let texts = targets.chain(change.from.as_mut()).chain(change.conflict.as_mut());
            texts.chain([&mut change.path]).for_each(&replace);
        }
        set.refused
            .iter_mut()
            .flat_map(|refusal| [&mut refusal.path, &mut refusal.reason])
            .for_each(&replace);
        [&mut set.project, &mut set.skill].into_iter().for_each(replace);
        json!(set)
    }

    /// The SHA-256 of what would be applied, in hexadecimal digits: the project, and each path with its states. Runs that change the same
    /// in the same way have the same.
    pub fn digest(&self) -> String {
        let state = |state: &Option<FileState>| {
            let state = state.as_ref()?;
            Some((
                state.entry_type.noun(),
                state.size,
                state.mode,
                state.digest.clone(),
                state.target.clone(),
            ))
        };
        let change = |change: &Change| {
            let (before, after) = (state(&change.before), state(&change.after));
            json!([change.path, change.kind.name(), change.from, before, after, change.conflict])
        };
        let changes: Vec<Value> = self.changes.iter().map(change).collect();
        // No key of an object stands in it, so its text has one form.
        let digest: [u8; 32] = Sha256::digest(json!([self.project, changes]).to_string()).into();
        hex(&digest)
    }

    /// When the changes were read, in nanoseconds since 1970, not later than it was.
    #[cfg(unix)]
    pub(crate) fn read_at(&self) -> i64 {
        i64::try_from(self.ended.seconds()).unwrap_or(i64::MAX).saturating_mul(1_000_000_000)
    }

    /// The folder of the project.
    pub fn project_path(&self) -> PathBuf {
        name_encoding::decode(&self.project).into_owned()
    }
}

impl FileState {
    /// Any folder with these permissions.
    #[cfg(unix)]
    pub(crate) fn folder(mode: u32) -> Self {
        let identity = FileIdentity::default();
        Self { entry_type: EntryType::Folder, size: 0, mode, digest: None, target: None, identity }
    }

    /// Whether both look the same to whoever reads them: type, permissions, content or target. When they were changed, and which files
    /// of the file system they are, makes no difference.
    pub fn is_same_content(&self, other: &Self) -> bool {
        self.entry_type == other.entry_type
            && self.size == other.size
            && self.mode == other.mode
            && self.digest == other.digest
            && self.target == other.target
    }
}

impl FileIdentity {
    /// Whether it is the same file, perhaps changed.
    pub fn is_same_file(&self, other: &Self) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
    }
}

impl ChangeKind {
    /// Its name in JSON and in texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
            Self::Renamed => "renamed",
            Self::Mode => "mode",
            Self::Link => "link",
        }
    }
}

impl EntryType {
    /// The word for it in a sentence.
    pub fn noun(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Folder => "folder",
            Self::Symlink => "link",
        }
    }
}

impl fmt::Display for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: usize = 12;
        match self.entry_type {
            EntryType::File => {
                let digest = self.digest.as_deref().and_then(|digest| digest.get(..DIGITS));
                let digest = digest.unwrap_or("unknown");
                write!(f, "a file of {} bytes, mode {:03o}, SHA-256 {digest}…", self.size, self.mode)
            }
            EntryType::Folder => write!(f, "a folder, mode {:03o}", self.mode),
            EntryType::Symlink => {
                write!(f, "a link to {}", escape(self.target.as_deref().unwrap_or_default()))
            }
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = |state: &Option<FileState>| match state {
            Some(state) => state.to_string(),
            None => "nothing".to_owned(),
        };
        let (expected, found) = (state(&self.expected), state(&self.found));
        write!(f, "{}: {}; expected {expected}, found {found}", escape(&self.path), self.reason)
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The text of a path or of the target of a link.
pub(crate) fn encode(path: &Path) -> String {
    name_encoding::encode(path.as_os_str()).into_owned()
}

/// The path in a project that a text stands for; `invalid argument` if it could lead out of the project.
pub(crate) fn decode(path: &str) -> Result<PathBuf> {
    let decoded = name_encoding::decode(path).into_owned();
    let is_inside = decoded.components().all(|part| matches!(part, Component::Normal(_)));
    // Only what is spelled the same again: no `a//b`, and no slash at the end.
    let is_plain = decoded.components().collect::<PathBuf>().as_os_str() == decoded.as_os_str();
    if is_inside && is_plain && !path.is_empty() && !path.contains('\0') {
        return Ok(decoded);
    }
    let sentence = format!("{path:?} is not a path in the project");
    Err(SkillError::new(ErrorKind::InvalidArgument, sentence)
        .with_help("name a path as the change set lists it"))
}

/// Whether it lies in a repository of git, or is one.
#[cfg_attr(not(unix), allow(dead_code, reason = "asked before a path is written to"))]
pub(crate) fn is_git(path: &Path) -> bool {
    path.components().any(|part| is_git_name(part.as_os_str()))
}

/// Whether git takes a folder or file of that name for its own. Some file systems make no difference between cases.
pub(crate) fn is_git_name(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// The text on one line, without characters that a terminal interprets or does not show.
pub(crate) fn escape(text: &str) -> String {
    mark_escapes(text).fold(String::with_capacity(text.len()), |mut shown, (c, is_unseen)| {
        if is_unseen {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
        shown
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_could_lead_out_of_the_project_is_no_path() {
        for text in ["", "/", "/etc/passwd", "..", "a/../b", "./a", "a/", "a//b", "a/./b", "a\0b", "a/.."] {
            assert!(decode(text).is_err(), "{text:?}");
        }
        for text in ["a", "a/b", "..a", "a..", "...", "a\nb", "a\\xFFb"] {
            assert_eq!(encode(&decode(text).unwrap()), text);
        }
    }

    #[test]
    fn a_repository_is_recognized_at_any_depth_and_in_any_case() {
        for path in [".git", "a/.git", ".git/hooks/pre-commit", "a/.GIT/config"] {
            assert!(is_git(Path::new(path)), "{path}");
        }
        for path in [".github/a", ".gitignore", "a/git"] {
            assert!(!is_git(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn a_conflict_names_both_states_on_one_line() {
        let state = |size| FileState {
            entry_type: EntryType::File,
            size,
            mode: 0o644,
            digest: Some("0123456789abcdef".to_owned()),
            target: None,
            identity: FileIdentity::default(),
        };
        let conflict = Conflict {
            path: "a\nb\u{1b}[2J".to_owned(),
            reason: "it was changed".to_owned(),
            expected: Some(state(7)),
            found: None,
        };
        assert_eq!(
            conflict.to_string(),
            "a\\u{a}b\\u{1b}[2J: it was changed; expected a file of 7 bytes, mode 644, SHA-256 0123456789ab…, found nothing"
        );
    }
}
