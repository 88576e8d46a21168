//! The overlay that a run has in the place of its project, which it does not change.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::services::ExternalServices;
use metier_sandbox::{Overlay, OverlayError, OverlayMount, OverlayRequest};

/// In the extensions of a run on a copy of its project, and of those that it calls.
pub struct ProjectOverlay(Mutex<Option<Overlay>>);

impl ProjectOverlay {
    /// Mounts it where only processes of these services can have it.
    pub fn mount(services: &ExternalServices, request: OverlayRequest<'_>) -> Result<Self, OverlayError> {
        Ok(Self(Mutex::new(Some(services.launcher.mount_overlay(request)?))))
    }

    /// A handle of the folder that the run sees.
    pub fn root(&self) -> std::io::Result<OwnedFd> {
        let overlay = self.lock();
        let overlay = overlay.as_ref().ok_or_else(|| std::io::Error::other("the run is over"))?;
        overlay.root().try_clone_to_owned()
    }

    /// From here on no process starts with it.
    pub fn end(&self) {
        *self.lock() = None;
    }

    /// For the sandbox of a process: the overlay in the place of the project; one that cannot be mounted if the run is over.
    pub(crate) fn mount_at(&self, project: &Path) -> OverlayMount {
        match &*self.lock() {
            Some(overlay) => overlay.mount_at(project),
            None => OverlayMount::unavailable(project),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Overlay>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
