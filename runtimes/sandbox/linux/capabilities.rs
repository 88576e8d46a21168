//! A script of root's keeps none of root's powers but one.

use rustix::io::Result;
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// Drops every capability, for good. Root in a container keeps `DAC_OVERRIDE`: a project may belong to somebody else, and
/// Landlock holds what it opens.
pub(super) fn drop_all() -> Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let kept = CapabilitySet::DAC_OVERRIDE;
    for capability in CapabilitySet::all().difference(kept).iter() {
        if capability_is_in_bounding_set(capability).unwrap_or(false) {
            remove_capability_from_bounding_set(capability)?;
        }
    }
    clear_ambient_capability_set()?;
    set_capabilities(
        None,
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() },
    )
}
