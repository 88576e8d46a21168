//! Moves the host program itself to where an overlay is in the place of a folder.

use rustix::fs::readlink;
use rustix::process::{DumpableBehavior, chdir, set_dumpable_behavior};
use rustix::thread::CapabilitySet;

use super::client::{PendingOverlay, explain};
use super::server::mount;
use crate::linux::ipc::OverlayFds;
use crate::linux::layers::capabilities;
use crate::{OverlayError, OverlayRequest};

/// Mounts an overlay over its lower folder, for this process and all that it starts from here on: at the path of the folder they find what the
/// overlay shows, whatever they open it by. Nobody else sees it, and it ends with the last of them. What was opened before leads to the folder
/// itself.
///
/// For a program with one thread, soon after its start; in others, and where a namespace cannot be had, it fails. A user who is not root is
/// the same user afterwards, in a user namespace in which files of all others belong to nobody. After an error the process may be in
/// namespaces of its own, without the overlay and without rights there.
pub fn enter_overlay(request: OverlayRequest<'_>) -> Result<(), OverlayError> {
    let user_namespace = || readlink("/proc/self/ns/user", Vec::new()).ok();
    let (before, folder) = (user_namespace(), std::env::current_dir()?);
    let (OverlayFds { lower, upper, work, .. }, upper_path) = PendingOverlay::open(request)?.into_folders();
    let entered = mount(&lower, &upper, &work, CapabilitySet::all());
    // The way into a user namespace leaves it off, and the working directory below the overlay.
    set_dumpable_behavior(DumpableBehavior::Dumpable).ok();
    let returned = chdir(folder);
    // The right to mount was that of the namespace.
    let is_moved = user_namespace() != before;
    let dropped = if is_moved { capabilities::drop_all_except(CapabilitySet::empty()) } else { Ok(()) };
    entered.map_err(|failure| explain(failure, upper_path))?;
    returned.and(dropped).map_err(std::io::Error::from)?;
    Ok(())
}
