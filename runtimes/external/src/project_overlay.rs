//! The overlay that a run has in the place of its project, which it does not change.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::services::ExternalServices;
use metier_sandbox::{Overlay, OverlayError, OverlayMount, OverlayRequest};

/// In the extensions of a run on a copy of its project, and of those that it calls.
pub struct ProjectOverlay(Mutex<State>);

enum State {
    Mounted(Overlay),
    /// Nothing starts with it any more.
    Ended,
    /// The run has gone on to the project itself.
    Left,
}

impl ProjectOverlay {
    /// Mounts it where only processes of these services can have it.
    pub fn mount(services: &ExternalServices, request: OverlayRequest<'_>) -> Result<Self, OverlayError> {
        Ok(Self(Mutex::new(State::Mounted(services.launcher.mount_overlay(request)?))))
    }

    /// Mounts another one in its place.
    pub fn mount_anew(
        &self,
        services: &ExternalServices,
        request: OverlayRequest<'_>,
    ) -> Result<(), OverlayError> {
        *self.lock() = State::Mounted(services.launcher.mount_overlay(request)?);
        Ok(())
    }

    /// A handle of the folder that the run sees; `None` if that is the project itself.
    pub fn root(&self) -> std::io::Result<Option<OwnedFd>> {
        match &*self.lock() {
            State::Mounted(overlay) => overlay.root().try_clone_to_owned().map(Some),
            State::Ended => Err(std::io::Error::other("the run is over")),
            State::Left => Ok(None),
        }
    }

    /// From here on no process starts with it.
    pub fn end(&self) {
        *self.lock() = State::Ended;
    }

    /// From here on the run has the project itself.
    pub fn leave(&self) {
        *self.lock() = State::Left;
    }

    /// For the sandbox of a process: the overlay in the place of the project; one that cannot be mounted if the run is over.
    pub(crate) fn mount_at(&self, project: &Path) -> Option<OverlayMount> {
        match &*self.lock() {
            State::Mounted(overlay) => Some(overlay.mount_at(project)),
            State::Ended => Some(OverlayMount::unavailable(project)),
            State::Left => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
