//! What the manifest of a plug-in changes for its runs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text_abi;
use metier_core::error::Result;
use metier_core::host::SkillContext;
use metier_core::policy::{Access, Permission, RunPermissions};

/// Settings, limits and requested permissions, which are empty for a plug-in without a manifest, and how it talks to the host.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct PluginSettings {
    /// Settings, where the host has none of that name.
    pub(super) config: BTreeMap<String, String>,
    pub(super) max_memory_bytes: Option<u64>,
    pub(super) max_variable_bytes: Option<u64>,
    pub(super) max_response_bytes: Option<u64>,
    /// Enforced by the host, also where a worker process executes the plug-in.
    #[serde(skip)]
    pub(super) timeout: Option<Duration>,
    /// Whether it passes text to the host and gets text from it, as plug-ins of Synwire do, and not JSON.
    pub(super) passes_text: bool,
    /// Hosts that it asks for; as any requested permission, they need a grant.
    #[serde(skip)]
    pub(super) permissions: Vec<Permission>,
}

impl PluginSettings {
    /// Checks that the plug-in has WASI if it imports that, and returns its input as it expects it.
    pub(super) fn prepare_input<'i>(
        &self,
        input: &'i Value,
        file: &str,
        uses_wasi: bool,
        context: &SkillContext,
    ) -> Result<Cow<'i, Value>> {
        if uses_wasi {
            let attempt = format_args!("failed to start {file} with WASI");
            context.permissions().require(&Access::wasi(), attempt)?;
        }
        let is_text = self.passes_text;
        Ok(if is_text { Cow::Owned(text_abi::input(input, context)) } else { Cow::Borrowed(input) })
    }
}
