//! Detects a secret under another name: a hard link to a file that is protected by its name.

use std::collections::HashMap;

use cap_fs_ext::MetadataExt;

use super::entry::EntryKind;
use super::name_encoding;
use super::operation::FileOperation;
use super::protected_cache::{HardLinkedSecrets, ProtectedAlias};
use super::view::FilesView;
use super::walk::{WalkFilter, WalkOptions};
use crate::error::{ErrorKind, Result};
use crate::host::file_stat::file_id;
use crate::policy::{CancelToken, PathProtection, RunPermissions};

impl FilesView<'_> {
    /// Refuses a file that is a secret under another name. Checked after opening: only then is its number of hard links known.
    pub(super) fn check_opened_file(
        &self,
        operation: FileOperation<'_>,
        path: &str,
        metadata: &impl MetadataExt,
    ) -> Result<()> {
        let Some(permissions) = self.permissions.filter(|_| metadata.nlink() > 1) else { return Ok(()) };
        if permissions.protection().protects_read(path) {
            // The permission for this name was checked already.
            return Ok(());
        }
        let identity = file_id(metadata);
        let known = &self.files.protected_cache.hard_linked_secrets;
        if known.get().is_none() {
            // An error that stopped the search is not cached for the next operation.
            let links = self.secret_links(operation)?;
            let found = self.find_hard_linked_secrets(permissions.protection(), links);
            let found = found.map_err(|error| operation.with_context(error))?;
            known.set(found).ok();
        }
        let protected_path = match known.get().and_then(Option::as_ref) {
            Some(linked) => match linked.secrets.get(&identity) {
                Some(secret) => secret.clone(),
                None => return Ok(()),
            },
            // The search could not cover everything.
            None => path.to_owned(),
        };
        let alias =
            ProtectedAlias { path: path.to_owned(), file_id: None, protected_path, protects_read: true };
        alias.require(permissions, operation, path)
    }

    /// The secrets of the project that have other names, including the targets of symbolic links; `None` if the search could not
    /// cover everything.
    fn find_hard_linked_secrets(
        &self,
        protection: &PathProtection,
        links: &[ProtectedAlias],
    ) -> Result<Option<HardLinkedSecrets>> {
        let never = CancelToken::new();
        let cancel = self.limits.map_or(&never, |limits| limits.cancel);
        let walk = WalkOptions { cancel, filter: WalkFilter::SkipNothing, depth: None };
        let files = FilesView { permissions: None, editor: None, ..*self };
        let (mut secrets, mut reservation) = (HashMap::new(), self.empty_reservation());
        let walked = files.walk("", &walk, |entry| {
            let is_led_to = |link: &&ProtectedAlias| crate::policy::is_within(&entry.path, &link.path);
            let protected_path = if protection.protects_read(&entry.path) {
                Some(&entry.path)
            } else {
                links.iter().find(is_led_to).map(|link| &link.protected_path)
            };
            if entry.kind == EntryKind::File
                && let Some(protected_path) = protected_path
                && let Ok(metadata) = self.files.metadata_nofollow(&name_encoding::decode(&entry.path))
                && metadata.nlink() > 1
            {
                reservation.grow(entry.memory_size())?;
                secrets.insert(file_id(&metadata), protected_path.clone());
            }
            Ok(())
        });
        match walked {
            Ok(_) => Ok(Some(HardLinkedSecrets { secrets, _reservation: reservation })),
            Err(error) if ends_run(error.kind()) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

/// Whether an error concerns the run and not the files.
fn ends_run(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Memory | ErrorKind::Cancelled | ErrorKind::Timeout)
}
