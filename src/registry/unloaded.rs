//! A folder whose skill does not load now: broken, or gone. It is looked at again when somebody asks for the skill.

use std::path::Path;
use std::sync::Arc;

use unicode_normalization::UnicodeNormalization;

use super::origin::SkillAddress;
use crate::registry::edit_check::is_current;
use crate::registry::fingerprint::Fingerprint;

#[derive(Clone, Debug)]
pub(super) struct UnloadedSkill {
    /// The name it had when it loaded, or else the name of its folder.
    pub(super) name: String,
    pub(super) address: SkillAddress,
    fingerprint: Arc<Fingerprint>,
}

impl UnloadedSkill {
    /// A skill that never loaded.
    pub(super) fn in_folder(address: &SkillAddress, fingerprint: Fingerprint) -> Self {
        let name = address.folder_name().nfkc().collect();
        Self { name, address: address.clone(), fingerprint: Arc::new(fingerprint) }
    }

    /// A skill that had this name until its files changed.
    pub(super) fn renamed(name: String, address: &SkillAddress) -> Self {
        let fingerprint = Arc::new(Fingerprint::without_definition(address));
        Self { name, address: address.clone(), fingerprint }
    }

    /// Its folder, if its files changed since they were looked at.
    pub(super) fn changed_folder(&self) -> Option<&Path> {
        let is_changed = || !is_current(&self.fingerprint, &self.address, None);
        self.address.folder.disk_path().filter(|_| is_changed())
    }
}
