//! A script keeps none of its host's powers, but for one of root's.

use rustix::io::Result;
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// Drops every capability, for good. Root in a container keeps `DAC_OVERRIDE`, where it has it: a project may belong to
/// somebody else, and Landlock holds what it opens. A host that is not root may have been given some that outlive the program.
pub(super) fn drop_all() -> Result<()> {
    let power = if geteuid().is_root() { CapabilitySet::DAC_OVERRIDE } else { CapabilitySet::empty() };
    let kept = capabilities(None)?.permitted.intersection(power);
    for capability in CapabilitySet::all().difference(kept).iter() {
        // Only some may do this; without new privileges no program gets back what is dropped below either.
        if remove_capability_from_bounding_set(capability).is_err() {
            break;
        }
    }
    clear_ambient_capability_set()?;
    set_capabilities(
        None,
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() },
    )
}
