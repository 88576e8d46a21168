//! Which namespaces this machine supports, as the fork server has assumed or detected.

use std::io;
use std::time::{Duration, Instant};

use crate::NetworkAccess;
use crate::linux::ipc::SandboxProfile;
use crate::linux::layers::namespaces::{HostNetns, NamespaceConfig, NetworkIsolation};
use crate::linux::layers::seccomp::SeccompFilter;
use crate::linux::sys;
use crate::linux::sys::ForkResult;

/// What was assumed of this machine, or detected on it. A failure may be a transient lack of memory or process ids.
#[derive(Default)]
pub(super) struct NamespaceSupport {
    config: Option<NamespaceConfig>,
    /// Whether nothing has shown yet that the machine supports it.
    is_assumed: bool,
    checked_at: Option<Instant>,
    /// Whether this process has tried to leave the host's network namespace, and the way back if it has left it.
    tried_shared_netns: bool,
    host_netns: Option<HostNetns>,
}

/// How long a negative result is kept.
const RECHECK_AFTER: Duration = Duration::from_mins(1);

impl NamespaceSupport {
    /// Whether all is there that a script can have.
    fn is_complete(&self) -> bool {
        self.config.is_some_and(|config| config.network != NetworkIsolation::FilterOnly)
    }

    /// When it is detected again what this machine supports; `None` if there is no need.
    pub(super) fn next_detection(&self) -> Option<Instant> {
        self.checked_at.filter(|_| !self.is_complete()).map(|checked_at| checked_at + RECHECK_AFTER)
    }

    /// Whether a script may get namespaces now. True while detection fails transiently; the launch itself then fails if there are
    /// none.
    pub(super) fn may_be_available(&mut self) -> bool {
        if !self.is_complete()
            && self.checked_at.is_none_or(|checked_at| checked_at.elapsed() > RECHECK_AFTER)
        {
            self.enter_shared_netns();
            let Ok(config) = NamespaceConfig::detect(self.host_netns.is_some()) else { return true };
            (self.config, self.checked_at) = (config, Some(Instant::now()));
            if config.is_none_or(|config| config.network != NetworkIsolation::SharedNetns) {
                self.host_netns.take().map(|host_netns| host_netns.enter());
            }
        }
        self.config.is_some()
    }

    /// Assumes what most machines support, until a start shows otherwise: to try it first would take as long as the start.
    pub(super) fn assume(&mut self) {
        if self.config.is_none() && self.checked_at.is_none() {
            self.enter_shared_netns();
            self.config = NamespaceConfig::likely(self.host_netns.is_some());
            self.is_assumed = self.config.is_some();
        }
    }

    /// A script starts with what was assumed.
    pub(super) fn confirm(&mut self) {
        self.is_assumed = false;
    }

    /// A start has failed: whether that was with what was only assumed, which is detected now.
    pub(super) fn refute(&mut self) -> bool {
        if self.is_assumed {
            (self.config, self.is_assumed) = (None, false);
            self.may_be_available();
            return true;
        }
        false
    }

    /// Moves this process into an empty network namespace that scripts can share if they need no user namespace: a process in a user
    /// namespace may enter only network namespaces that it owns.
    fn enter_shared_netns(&mut self) {
        if !std::mem::replace(&mut self.tried_shared_netns, true) && SeccompFilter::is_supported() {
            self.host_netns = HostNetns::leave();
        }
    }

    /// Forks a process for requests of this profile, the first in its namespaces if it gets any.
    pub(super) fn fork(
        &self,
        namespaces: Option<NamespaceConfig>,
        profile: SandboxProfile,
    ) -> io::Result<ForkResult> {
        // Compiled here, the filter exists in every forked process.
        SeccompFilter::cached(profile.seccomp).ok();
        let side = namespaces.map_or_else(sys::fork, |config| {
            sys::clone_with_namespaces(config.clone_flags(profile.seccomp.network))
        })?;
        let host_netns = self.host_netns.as_ref().filter(|_| profile.seccomp.network == NetworkAccess::Open);
        if let (ForkResult::Child, Some(host_netns)) = (&side, host_netns) {
            // It has started nothing, and another process takes the request.
            host_netns.enter().unwrap_or_else(|_| sys::exit(1));
        }
        Ok(side)
    }

    /// The result of the last detection.
    pub(super) fn config(&self) -> Option<NamespaceConfig> {
        self.config
    }
}
