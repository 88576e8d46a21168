//! What the manifest of a plug-in changes for its runs.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::policy::Permission;

/// Settings, limits and requested permissions, which are empty for a plug-in without a manifest, and how it talks to the host.
#[derive(Clone, Default)]
pub(super) struct PluginSettings {
    /// Settings, where the host has none of that name.
    pub(super) config: BTreeMap<String, String>,
    pub(super) max_memory_bytes: Option<u64>,
    pub(super) max_variable_bytes: Option<u64>,
    pub(super) max_response_bytes: Option<u64>,
    pub(super) timeout: Option<Duration>,
    /// Whether it passes text to the host and gets text from it, as plug-ins of Synwire do, and not JSON.
    pub(super) passes_text: bool,
    /// Hosts that it asks for; as any requested permission, they need a grant.
    pub(super) permissions: Vec<Permission>,
}
