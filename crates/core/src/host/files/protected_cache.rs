//! What a run has found out about the protected paths of a project. Looked up once, since every operation asks.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock};

use crate::error::Result;
use crate::host::FileId;
use crate::host::files::operation::FileOperation;
use crate::host::memory::HostMemoryReservation;
use crate::policy::{Permissions, RunPermissions};

/// The cache of protected paths in a project. Lives as long as a run.
#[derive(Default)]
pub(super) struct ProtectedCache {
    pub(super) folders: Mutex<HashMap<String, Arc<FolderInfo>>>,
    /// Folders in which only names decide what is protected.
    pub(super) unprotected_folders: Mutex<BTreeSet<String>>,
    pub(super) hard_linked_secrets: OnceLock<Option<HardLinkedSecrets>>,
    pub(super) secret_links: OnceLock<Arc<[ProtectedAlias]>>,
    pub(super) shared_secret_links: SecretLinks,
}

/// The symbolic links at the top of a project that have the name of a secret. Cached between runs as long as no entry is added or
/// removed there, which no script can hide.
#[derive(Clone, Default)]
pub struct SecretLinks(pub(super) Arc<Mutex<Option<SecretLinkSnapshot>>>);

/// The time of the last change at the top of a project, and the links found there.
pub(super) struct SecretLinkSnapshot {
    pub(super) root_stamp: DirStamp,
    pub(super) links: Arc<[ProtectedAlias]>,
}

/// A folder and the time of its last change (ctime), which no program can set.
pub(super) type DirStamp = (FileId, i64, i64);

/// The properties of a folder, and the targets of its `.git`.
#[derive(Default)]
pub(super) struct FolderInfo {
    pub(super) is_repository: bool,
    pub(super) has_git: bool,
    pub(super) git_targets: Vec<ProtectedAlias>,
    /// The paths that the git configuration names, if they were needed.
    pub(super) config_targets: OnceLock<Vec<ProtectedAlias>>,
}

/// Secrets with several names, by file identity.
pub(super) struct HardLinkedSecrets {
    pub(super) secrets: HashMap<FileId, String>,
    /// The memory that they hold.
    pub(super) _reservation: HostMemoryReservation,
}

/// Another path to something that is protected by its name.
#[derive(Clone)]
pub(super) struct ProtectedAlias {
    /// Relative to the root, without symbolic links.
    pub(super) path: String,
    pub(super) file_id: Option<FileId>,
    /// The protected path that leads there; a permission for it covers this path as well.
    pub(super) protected_path: String,
    pub(super) protects_read: bool,
}

impl ProtectedAlias {
    pub(super) fn repository(path: String) -> Self {
        Self { protected_path: path.clone(), path, file_id: None, protects_read: true }
    }

    /// Requires a permission that names the path, or the protected path that leads to it.
    pub(super) fn require(
        &self,
        permissions: &Permissions,
        operation: FileOperation<'_>,
        path: &str,
    ) -> Result<()> {
        if self.protected_path != self.path
            && permissions.allows(&operation.required_access(&self.protected_path))
        {
            return Ok(());
        }
        permissions
            .with_protected_path(&self.path, self.protects_read)
            .require(&operation.required_access(path), operation)
    }
}
