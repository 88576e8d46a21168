//! A script keeps none of its host's powers, but for one of root's.

use rustix::io::Result;
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// Sees to it that no program started from here on gets a capability back. What this process has it keeps.
pub(in crate::runtimes::sandbox::linux) fn drop_bounding_set() -> Result<()> {
    for capability in CapabilitySet::all().difference(retained_capabilities()?).iter() {
        // Only some may do this; without new privileges no program gets back what is dropped either.
        if remove_capability_from_bounding_set(capability).is_err() {
            break;
        }
    }
    Ok(())
}

/// Drops every capability, for good.
pub(in crate::runtimes::sandbox::linux) fn drop_own() -> Result<()> {
    let left = retained_capabilities()?;
    clear_ambient_capability_set()?;
    set_capabilities(
        None,
        CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() },
    )
}

/// Root in a container keeps `DAC_OVERRIDE`, where it has it: a project may belong to somebody else, and Landlock holds what it
/// opens. A host that is not root may have been given some that outlive the program.
fn retained_capabilities() -> Result<CapabilitySet> {
    let power = if geteuid().is_root() { CapabilitySet::DAC_OVERRIDE } else { CapabilitySet::empty() };
    Ok(capabilities(None)?.permitted.intersection(power))
}
