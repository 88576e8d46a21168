//! Drops all capabilities of a script; root keeps `DAC_OVERRIDE` only.

use rustix::io::Result;
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// Makes sure that no program started from here on regains a capability. This process keeps its own.
pub(crate) fn drop_bounding_set() -> Result<()> {
    for capability in CapabilitySet::all().difference(retained_capabilities()?).iter() {
        // Only a privileged process may do this; with `no_new_privs` no program regains what is dropped either.
        if remove_capability_from_bounding_set(capability).is_err() {
            break;
        }
    }
    Ok(())
}

/// Drops every capability, for good.
pub(crate) fn drop_own() -> Result<()> {
    drop_all_except(retained_capabilities()?)
}

/// Drops every capability but those of these that it has.
pub(crate) fn drop_all_except(retained: CapabilitySet) -> Result<()> {
    let left = capabilities(None)?.permitted.intersection(retained);
    clear_ambient_capability_set()?;
    set_capabilities(
        None,
        CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() },
    )
}

/// Whether this process has the capability to mount.
pub(crate) fn can_mount() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Root in a container keeps `DAC_OVERRIDE`, if it has it: a project may belong to another user, and Landlock restricts what it
/// opens. A host that is not root may have ambient capabilities, which outlive the program.
fn retained_capabilities() -> Result<CapabilitySet> {
    let power = if geteuid().is_root() { CapabilitySet::DAC_OVERRIDE } else { CapabilitySet::empty() };
    Ok(capabilities(None)?.permitted.intersection(power))
}
