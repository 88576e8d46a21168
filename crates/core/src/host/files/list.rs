//! Lists the names in a folder and the metadata of a file.

use std::cell::RefCell;
use std::io;
use std::time::UNIX_EPOCH;

use serde::Serialize;

use super::walk::MAX_RESULTS;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::files::name_encoding;
use crate::host::files::operation::FileOperation;
use crate::host::files::symlinks::FinalSymlink;
use crate::host::files::view::FilesView;
use crate::host::io_error::into_io_error;

/// Approximate bytes of a name in a list, and of the value it becomes, besides its text.
const NAME_OVERHEAD_BYTES: u64 = 160;

/// The metadata of a file or folder; symbolic links are followed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools)] // the shape scripts know
pub struct Stat {
    /// Its size in bytes.
    pub size: u64,
    /// Whether it is a folder.
    pub is_dir: bool,
    /// Whether it is a regular file.
    pub is_file: bool,
    /// Whether the path itself is a symbolic link; the other fields describe its target.
    pub is_symlink: bool,
    /// Whether no user may write to it.
    pub readonly: bool,
    /// When its content was last changed, in milliseconds since 1970-01-01 UTC, if the file system reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<u64>,
}

impl FilesView<'_> {
    /// The names in a folder, sorted; names that are not UTF-8 in their escaped form, which is also accepted as a path.
    pub fn list(&self, path: &str) -> Result<Vec<String>> {
        let operation = FileOperation::inspect("list", path);
        let unsaved = self.unsaved_paths(operation)?;
        let mut reservation = self.empty_reservation();
        let reservation = RefCell::new(&mut reservation);
        let entries = self.with_resolved_path(operation, FinalSymlink::Follow, |path| {
            let mut seen = 0;
            let mut count = |length: usize| {
                seen += 1;
                if seen > MAX_RESULTS {
                    let fault =
                        format!("it has more than {MAX_RESULTS} entries; select some of them with glob");
                    let error =
                        SkillError::new(ErrorKind::Io, fault).with_help("select some of them with glob");
                    return Err(into_io_error(error));
                }
                // The name itself and its escaped form: at most four characters for each byte.
                let bytes = 5 * length as u64 + NAME_OVERHEAD_BYTES;
                self.check_cancelled()
                    .and_then(|()| reservation.borrow_mut().grow(bytes))
                    .map_err(into_io_error)
            };
            let read = self.files.read_dir(&name_encoding::decode(path), &mut count);
            unsaved.add_to(path, read)
        })?;
        let mut listed: Vec<String> =
            entries.iter().map(|(name, _)| name_encoding::encode(name).into_owned()).collect();
        listed.sort_unstable();
        Ok(listed)
    }

    /// The metadata of a path. A file that has an unsaved content has the size of that content.
    pub fn stat(&self, path: &str) -> Result<Stat> {
        let operation = FileOperation::inspect("inspect", path);
        match self.unsaved_entry(operation)? {
            Some((_, None)) => Ok(Stat { is_dir: true, ..Stat::default() }),
            Some((false, Some(size))) => Ok(Stat { size, is_file: true, ..Stat::default() }),
            Some((true, Some(size))) => self.saved_stat(operation).map(|stat| Stat { size, ..stat }),
            None => self.saved_stat(operation),
        }
    }

    fn saved_stat(&self, operation: FileOperation<'_>) -> Result<Stat> {
        let is_symlink = self.metadata(operation, FinalSymlink::NoFollow)?.is_symlink();
        let facts = self.metadata(operation, FinalSymlink::Follow)?;
        if !facts.is_dir() {
            self.check_opened_file(operation, operation.path, &facts)?;
        }
        let modified = facts.modified().ok().and_then(|time| time.into_std().duration_since(UNIX_EPOCH).ok());
        Ok(Stat {
            size: facts.len(),
            is_dir: facts.is_dir(),
            is_file: facts.is_file(),
            is_symlink,
            readonly: facts.permissions().readonly(),
            modified: modified.and_then(|age| u64::try_from(age.as_millis()).ok()),
        })
    }

    pub(super) fn metadata(
        &self,
        operation: FileOperation<'_>,
        last: FinalSymlink,
    ) -> Result<cap_std::fs::Metadata> {
        self.with_resolved_path(operation, last, |path| {
            if path.is_empty() {
                return self.files.dir.dir_metadata();
            }
            let found = self.files.parent_dir(path)?.symlink_metadata()?;
            if found.is_symlink() && last == FinalSymlink::Follow {
                return Err(io::Error::other("it is a symbolic link"));
            }
            Ok(found)
        })
    }
}
