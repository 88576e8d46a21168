//! What the executors of one engine share.

use std::path::PathBuf;
use std::sync::Arc;

use metier_core::host::{HostLookup, SecretHostOptions};
use metier_core::policy::{SandboxLevel, Watchdog};
use metier_external::ExternalServices;
use metier_plan::Callees;
#[cfg(unix)]
use metier_sandbox::{ForkServerSource, Launcher};

/// What the executors of one engine share.
#[derive(Clone)]
pub(crate) struct RuntimeServices {
    /// The idle worker processes.
    #[cfg(unix)]
    embedded_workers: Arc<metier_external::EmbeddedWorkerPool>,
    external: ExternalServices,
    /// Starts processes in sandboxes.
    #[cfg(unix)]
    launcher: Arc<Launcher>,
    /// The skills and tools that plans may call, if an engine provides them.
    callees: Option<Arc<dyn Callees>>,
    /// The timer of steps that have a timeout of their own.
    watchdog: Arc<Watchdog>,
    /// Whether untrusted code may be compiled in this process if no other process can compile it.
    compile_in_process: bool,
    /// Whether loading needs a timeout of its own, because no run with a deadline is waiting for it.
    needs_load_timeout: bool,
}

impl Default for RuntimeServices {
    fn default() -> Self {
        Self::new(None, false, SandboxLevel::default())
    }
}

impl RuntimeServices {
    /// `helper` is the program that starts processes, if the embedder named one; without one, a copy of this process does if it
    /// `forks_host`. `level` is the highest sandbox level to set up.
    #[cfg_attr(not(unix), allow(unused_variables))]
    pub(crate) fn new(helper: Option<PathBuf>, forks_host: bool, level: SandboxLevel) -> Self {
        #[cfg(unix)]
        let launcher = {
            let own = if forks_host { ForkServerSource::Copy } else { ForkServerSource::CurrentProgram };
            Arc::new(
                Launcher::new(helper.map_or(own, ForkServerSource::Program), level)
                    .remove_folders_by(metier_external::remove_of_killed_host),
            )
        };
        Self {
            #[cfg(unix)]
            embedded_workers: Arc::default(),
            #[cfg(unix)]
            external: ExternalServices::new(launcher.clone()),
            #[cfg(not(unix))]
            external: ExternalServices::default(),
            #[cfg(unix)]
            launcher,
            callees: None,
            watchdog: Arc::default(),
            compile_in_process: false,
            needs_load_timeout: false,
        }
    }

    /// The idle worker processes.
    #[cfg(unix)]
    pub(super) fn embedded_workers(&self) -> &Arc<metier_external::EmbeddedWorkerPool> {
        &self.embedded_workers
    }

    /// What external scripts share.
    pub(crate) fn external(&self) -> &ExternalServices {
        &self.external
    }

    /// Starts processes in sandboxes.
    #[cfg(unix)]
    pub(super) fn launcher(&self) -> &Arc<Launcher> {
        &self.launcher
    }

    /// Whether external scripts run or are being cleaned up.
    pub(crate) fn runs_processes(&self) -> bool {
        self.external.runs_processes()
    }

    /// Sets whether untrusted code may be compiled in this process if no other process can compile it.
    pub(crate) fn with_compile_in_process(self, in_process: bool) -> Self {
        Self { compile_in_process: in_process, ..self }
    }

    /// For loading without a waiting run: a slow load gets the default deadline of a run.
    pub(crate) fn with_load_timeout(self) -> Self {
        Self { needs_load_timeout: true, ..self }
    }

    /// Whether loading needs a timeout of its own.
    #[cfg_attr(not(feature = "wasm-runtime"), allow(dead_code))]
    pub(super) fn needs_load_timeout(&self) -> bool {
        self.needs_load_timeout
    }

    /// Whether untrusted code may be compiled in this process if no other process can compile it.
    pub(crate) fn compiles_in_process(&self) -> bool {
        self.compile_in_process
    }

    /// The skills and tools that plans may call.
    pub(crate) fn callees(&self) -> Option<Arc<dyn Callees>> {
        self.callees.clone()
    }

    /// The timer of steps that have a timeout of their own.
    pub(super) fn watchdog(&self) -> &Arc<Watchdog> {
        &self.watchdog
    }

    /// Sets programs that run scripts in place of those on `PATH`, by the names of their commands.
    pub(crate) fn with_interpreters(self, interpreters: Vec<(String, PathBuf)>) -> Self {
        Self { external: self.external.with_interpreters(interpreters), ..self }
    }

    /// Sets how hosts are looked up that scripts connect to.
    pub(crate) fn with_host_lookup(self, lookup: HostLookup) -> Self {
        Self { external: self.external.with_host_lookup(lookup), ..self }
    }

    /// Sets how scripts reach hosts of secrets.
    pub(crate) fn with_secret_hosts(self, options: SecretHostOptions) -> Self {
        Self { external: self.external.with_secret_hosts(options), ..self }
    }

    /// Sets the folders that scripts of the engine may change, which no run trusts.
    pub(crate) fn with_folders(self, folders: Vec<PathBuf>) -> Self {
        Self { external: self.external.with_folders(folders), ..self }
    }

    /// Sets the skills and tools that plans may call.
    pub(crate) fn with_callees(self, callees: Arc<dyn Callees>) -> Self {
        Self { callees: Some(callees), ..self }
    }
}
