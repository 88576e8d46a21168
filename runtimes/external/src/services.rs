//! What the external scripts of one engine share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(unix)]
use crate::cleanup_threads::CleanupThreads;
#[cfg(unix)]
use crate::host_api::ApiClients;
#[cfg(unix)]
use crate::interpreter::cache::InterpreterCache;
#[cfg(unix)]
use crate::version_cache::VersionCache;
use metier_core::host::{HostLookup, SecretHostOptions};
#[cfg(unix)]
use metier_sandbox::Launcher;

/// What the external scripts of one engine share.
#[derive(Clone, Default)]
pub struct ExternalServices {
    /// Removes the temp dirs of runs. Dropped before the launcher, whose fork server removes what is left by then.
    #[cfg(unix)]
    pub(super) cleanup: Arc<CleanupThreads>,
    #[cfg(unix)]
    pub(super) launcher: Arc<Launcher>,
    #[cfg(unix)]
    pub(super) api_clients: Arc<ApiClients>,
    #[cfg(unix)]
    pub(super) interpreter_cache: Arc<InterpreterCache>,
    #[cfg(unix)]
    pub(super) version_cache: Arc<VersionCache>,
    /// Looks up the hosts that scripts connect to.
    #[cfg_attr(not(unix), allow(dead_code, reason = "only processes connect by themselves"))]
    host_lookup: HostLookup,
    /// How scripts reach hosts of secrets.
    #[cfg_attr(not(unix), allow(dead_code, reason = "only processes connect by themselves"))]
    secret_hosts: SecretHostOptions,
    /// Programs that run scripts in place of those on `PATH`.
    interpreters: Arc<[(String, PathBuf)]>,
    /// The folders that scripts of the engine may change, canonical.
    folders: Arc<[PathBuf]>,
    /// The number of scripts that run or are being cleaned up.
    process_count: Arc<AtomicUsize>,
}

impl ExternalServices {
    /// Services that start sandboxed processes with this launcher.
    #[cfg(unix)]
    pub fn new(launcher: Arc<Launcher>) -> Self {
        Self { launcher, ..Self::default() }
    }

    /// Programs that run scripts in place of those on `PATH`.
    pub fn interpreters(&self) -> &[(String, PathBuf)] {
        &self.interpreters
    }

    /// The folders that scripts of the engine may change: no run trusts what lies in them, also not in those of other runs.
    #[cfg(unix)]
    pub(super) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Looks up the hosts that scripts connect to.
    #[cfg(unix)]
    pub(super) fn host_lookup(&self) -> &HostLookup {
        &self.host_lookup
    }

    /// Sets how hosts are looked up that scripts connect to.
    pub fn with_host_lookup(self, host_lookup: HostLookup) -> Self {
        Self { host_lookup, ..self }
    }

    /// How scripts reach hosts of secrets.
    #[cfg(unix)]
    pub(super) fn secret_hosts(&self) -> &SecretHostOptions {
        &self.secret_hosts
    }

    /// Sets how scripts reach hosts of secrets.
    pub fn with_secret_hosts(self, options: SecretHostOptions) -> Self {
        Self { secret_hosts: options, ..self }
    }

    /// Sets the folders that scripts may change, which no run trusts.
    pub fn with_folders(self, folders: Vec<PathBuf>) -> Self {
        Self { folders: folders.into(), ..self }
    }

    /// Sets programs that run scripts in place of those on `PATH`, by the names of their commands.
    pub fn with_interpreters(self, interpreters: Vec<(String, PathBuf)>) -> Self {
        Self { interpreters: interpreters.into(), ..self }
    }

    /// Whether external scripts run or are being cleaned up.
    pub fn runs_processes(&self) -> bool {
        self.process_count.load(Ordering::Acquire) > 0
    }

    /// Counts an external script until the guard is dropped.
    #[cfg(unix)]
    pub(super) fn count_process(&self) -> impl Drop + use<> {
        self.process_count.fetch_add(1, Ordering::AcqRel);
        ProcessCountGuard(self.process_count.clone())
    }
}

#[cfg(unix)]
struct ProcessCountGuard(Arc<AtomicUsize>);

#[cfg(unix)]
impl Drop for ProcessCountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
