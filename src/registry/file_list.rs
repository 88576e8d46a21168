//! The list of all files of a skill, with a digest of each: what was trusted or locked, byte for byte.

mod snapshot;

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub(crate) use self::snapshot::FileListSnapshot;
use crate::registry::embedded::EmbeddedSkill;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::policy::SkillDigest;

/// Maximum number of files of a skill that has a digest.
const MAX_FILES: usize = 20_000;

/// All files of a skill's folder, hidden ones and links too, sorted by their paths. In JSON a list of `{path, link, executable,
/// set_id, size, digest}`.
///
/// Folders are no entries. What the contract names under `state` is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct FileList {
    entries: Vec<ListedFile>,
    #[serde(skip)]
    digest: SkillDigest,
}

/// A file or a link in a [`FileList`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListedFile {
    /// Its path in the skill's folder, `/`-separated; bytes that are not UTF-8 are escaped as `\xFF`.
    pub path: String,
    /// Whether it is a symbolic link. The digest is that of its target, as it is written.
    #[serde(default, skip_serializing_if = "is_false")]
    pub link: bool,
    /// Whether anybody may execute it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub executable: bool,
    /// Whether it runs as another user or group.
    #[serde(default, skip_serializing_if = "is_false")]
    pub set_id: bool,
    /// Its size in bytes.
    pub size: u64,
    /// The SHA-256 of its content.
    pub digest: SkillDigest,
}

impl ListedFile {
    /// Whether it is a file with this content.
    pub fn has_content(&self, content: &[u8]) -> bool {
        !self.link && self.digest == content_digest(content)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// What differs between two lists of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileDifference {
    /// The path of the file in the skill's folder.
    pub path: String,
    /// What happened to it.
    pub change: FileListChange,
}

/// What happened to a file since it was listed. In JSON its name in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FileListChange {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It has other content.
    Changed,
    /// It has the same content, and may be executed now, or not any more.
    ModeChanged,
}

impl fmt::Display for FileListChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
            Self::ModeChanged => "mode changed",
        })
    }
}

impl FileList {
    fn new(mut entries: Vec<ListedFile>) -> Self {
        entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let digest = digest_of_entries(&entries);
        Self { entries, digest }
    }

    /// The list of a skill inside the program.
    pub(crate) fn of_embedded(skill: &EmbeddedSkill) -> Self {
        Self::of_contents(skill.files().iter().copied())
    }

    /// The list of files with these paths and contents.
    pub(crate) fn of_contents<'a>(files: impl Iterator<Item = (&'a str, &'a [u8])>) -> Self {
        let entry = |(path, content): (&str, &[u8])| ListedFile {
            path: path.to_owned(),
            link: false,
            executable: false,
            set_id: false,
            size: content.len() as u64,
            digest: content_digest(content),
        };
        Self::new(files.map(entry).collect())
    }

    /// Reads a list from JSON; `invalid-argument` if it is none.
    pub(crate) fn from_json(text: &[u8]) -> Result<Self> {
        let entries: Vec<ListedFile> = serde_json::from_slice(text).map_err(|error| {
            SkillError::new(ErrorKind::InvalidArgument, format!("the list of files is not valid: {error}"))
        })?;
        if entries.len() > MAX_FILES {
            return Err(SkillError::new(ErrorKind::InvalidArgument, "the list of files is too long"));
        }
        Ok(Self::new(entries))
    }

    /// The files, sorted by their paths.
    pub fn files(&self) -> &[ListedFile] {
        &self.entries
    }

    /// The digest of these files alone, without the skills that the skill calls.
    pub fn digest(&self) -> SkillDigest {
        self.digest
    }

    /// What differs from an earlier list, sorted by path.
    pub fn differences_from(&self, earlier: &Self) -> Vec<FileDifference> {
        let (mut old, mut new) = (earlier.entries.iter().peekable(), self.entries.iter().peekable());
        let mut found = Vec::new();
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return found,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => old.path.cmp(&new.path),
            };
            let gone = old.next_if(|_| order.is_le());
            let there = new.next_if(|_| order.is_ge());
            let change = match (gone, there) {
                (Some(gone), Some(there)) if gone == there => continue,
                (Some(gone), Some(there)) if gone.has_same_content(there) => FileListChange::ModeChanged,
                (Some(_), Some(_)) => FileListChange::Changed,
                (Some(_), None) => FileListChange::Removed,
                (None, _) => FileListChange::Added,
            };
            let path = there.or(gone).map(|file| file.path.clone()).unwrap_or_default();
            found.push(FileDifference { path, change });
        }
    }

    /// Whether a file of the list has this path and content. A path through a link, which the list has as a link, counts if the
    /// content is that of any file.
    pub(crate) fn lists(&self, path: &str, content: &[u8]) -> bool {
        let digest = content_digest(content);
        let found = self.entries.binary_search_by(|file| file.path.as_str().cmp(path)).ok();
        match found.map(|index| &self.entries[index]).filter(|file| !file.link) {
            Some(file) => file.digest == digest,
            None if self.passes_link(path) => {
                self.entries.iter().any(|file| !file.link && file.digest == digest)
            }
            None => false,
        }
    }

    fn passes_link(&self, path: &str) -> bool {
        let is_on_path = |link: &ListedFile| {
            path.strip_prefix(link.path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.entries.iter().any(|file| file.link && is_on_path(file))
    }
}

impl ListedFile {
    fn has_same_content(&self, other: &Self) -> bool {
        (self.link, self.size, self.digest) == (other.link, other.size, other.digest)
    }
}

fn content_digest(content: &[u8]) -> SkillDigest {
    SkillDigest::new(Sha256::digest(content).into())
}

/// Every field has a fixed size or its length before it, so no two lists are written alike.
fn digest_of_entries(entries: &[ListedFile]) -> SkillDigest {
    let mut digest = Sha256::new();
    digest.update(b"metier files 1\n");
    for file in entries {
        digest.update((file.path.len() as u64).to_le_bytes());
        digest.update(&file.path);
        digest.update([u8::from(file.link), u8::from(file.executable), u8::from(file.set_id)]);
        digest.update(file.size.to_le_bytes());
        digest.update(file.digest.as_bytes());
    }
    SkillDigest::new(digest.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, content: &str) -> ListedFile {
        let size = content.len() as u64;
        let digest = content_digest(content.as_bytes());
        ListedFile { path: path.into(), link: false, executable: false, set_id: false, size, digest }
    }

    #[test]
    fn what_differs_is_named_once() {
        let before = FileList::new(vec![file("a", "1"), file("b", "1"), file("c", "1"), file("e", "1")]);
        let executable = ListedFile { executable: true, ..file("c", "1") };
        let after = FileList::new(vec![executable, file("b", "2"), file("d", "1"), file("e", "1")]);
        let found = after.differences_from(&before);
        let shown: Vec<String> =
            found.iter().map(|found| format!("{} {}", found.path, found.change)).collect();
        assert_eq!(shown, ["a removed", "b changed", "c mode changed", "d added"]);
        assert!(after.differences_from(&after).is_empty());
    }

    #[test]
    fn every_field_changes_the_digest_and_the_order_does_not() {
        let plain = file("a", "1");
        let all = [
            FileList::new(vec![plain.clone()]),
            FileList::new(vec![file("b", "1")]),
            FileList::new(vec![file("a", "2")]),
            FileList::new(vec![ListedFile { executable: true, ..plain.clone() }]),
            FileList::new(vec![ListedFile { set_id: true, ..plain.clone() }]),
            FileList::new(vec![ListedFile { link: true, ..plain.clone() }]),
            FileList::new(vec![plain.clone(), file("b", "1")]),
            FileList::new(vec![]),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().map(FileList::digest).collect();
        assert_eq!(distinct.len(), all.len());
        let turned = FileList::new(vec![file("b", "1"), plain]);
        assert_eq!(turned.digest(), all[6].digest());
        let json = serde_json::to_vec(&turned).unwrap();
        assert_eq!(FileList::from_json(&json).unwrap(), turned);
    }

    #[test]
    fn a_script_is_listed_by_its_path_and_its_bytes() {
        let link = ListedFile { link: true, ..file("scripts", "lib") };
        let list = FileList::new(vec![file("main.lua", "return 1"), file("lib/a.lua", "return 2"), link]);
        assert!(list.lists("main.lua", b"return 1"));
        assert!(!list.lists("main.lua", b"return 2"), "the content of another file");
        assert!(!list.lists("other.lua", b"return 1"));
        assert!(list.lists("scripts/a.lua", b"return 2"), "through a link");
        assert!(!list.lists("scripts/a.lua", b"return 3"));
    }
}
