//! The files that one run may access, with its permissions and limits.

use super::Files;
use super::editor::FileEditor;
use crate::error::{ErrorKind, Hint, LimitKind, Result, SkillError};
use crate::host::memory::{HostMemoryReservation, OperationLimits};
use crate::policy::Permissions;

/// The files that one run may access. Paths are relative to the root, as `relative_path` returns them. The caller has checked the
/// permission for the path itself; targets of symbolic links and paths below a folder are checked against the permissions here.
#[derive(Clone, Copy)]
pub struct FilesView<'a> {
    pub(super) files: &'a Files,
    pub(super) permissions: Option<&'a Permissions>,
    pub(super) label: &'static str,
    pub(super) limits: Option<OperationLimits<'a>>,
    /// The editor that has a say in them, if there is one.
    pub(super) editor: Option<&'a dyn FileEditor>,
}

impl<'a> FilesView<'a> {
    /// The files without permission checks, for code that works for the user and not for a script.
    pub fn unrestricted(files: &'a Files) -> Self {
        Self { files, permissions: None, label: "the project", limits: None, editor: None }
    }

    /// The files that a run with these permissions may access.
    pub fn with_permissions(files: &'a Files, permissions: &'a Permissions) -> Self {
        Self { permissions: Some(permissions), ..Self::unrestricted(files) }
    }

    /// The same files for a run: operations respect its memory limit and stop when it is cancelled.
    pub(crate) fn with_limits(self, limits: OperationLimits<'a>) -> Self {
        Self { limits: Some(limits), ..self }
    }

    /// The same files as an editor shows them.
    pub(crate) fn with_editor(self, editor: Option<&'a dyn FileEditor>) -> Self {
        Self { editor, ..self }
    }

    /// An empty memory reservation for one operation.
    pub(super) fn empty_reservation(&self) -> HostMemoryReservation {
        self.limits.map_or_else(HostMemoryReservation::uncounted, |limits| limits.memory.empty_reservation())
    }

    /// Fails if the run was stopped.
    pub(super) fn check_cancelled(&self) -> Result<()> {
        self.limits.map_or(Ok(()), |limits| limits.cancel.check())
    }

    /// Checks that a file may have this many bytes; `output` if not.
    pub(super) fn check_file_size(&self, bytes: u64) -> Result<()> {
        match self.limits {
            Some(OperationLimits { file_size, .. }) if bytes > file_size => {
                let sentence =
                    format!("it would have {bytes} bytes, more than the {file_size} that a file may have");
                Err(SkillError::new(ErrorKind::Output, sentence)
                    .with_help("write less, or raise the limit of a file's size")
                    .with_hint(Hint::Limit(LimitKind::FileSize)))
            }
            _ => Ok(()),
        }
    }

    /// The same files, with this label in errors instead of `the project`.
    pub fn with_label(self, label: &'static str) -> Self {
        Self { label, ..self }
    }
}
