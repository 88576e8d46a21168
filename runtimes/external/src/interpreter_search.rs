//! Which interpreter would run a script: found as a run finds it, before anything of the script runs.

use std::path::{Path, PathBuf};

use crate::interpreter::detect::Interpreter;
#[cfg(unix)]
pub use crate::interpreter::lookup_cache::LookupCache;
use crate::interpreter::path::search_path;
use crate::services::ExternalServices;
#[cfg(unix)]
use crate::{packages::interpreter_query, program_version::interpreter_version};
use metier_core::error::Result;
use metier_core::host::untrusted::UntrustedDirs;
use metier_packages::RequiredPython;

/// The answers of one look at many scripts: none, where no script is started.
#[cfg(not(unix))]
#[derive(Default)]
pub struct LookupCache;

/// A script whose interpreter is looked for.
pub struct InterpreterSearch<'a> {
    /// Its path in the folder of its skill.
    pub path: &'a str,
    /// Its content.
    pub source: &'a [u8],
    /// Whether it is a module that exports a handler.
    pub is_handler: bool,
    /// The versions of Python that its skill names.
    pub python: Option<RequiredPython>,
    /// The folder of its skill, if it is on disk.
    pub skill: Option<&'a Path>,
    /// The project of the run.
    pub project: &'a Path,
    /// The projects whose interpreters are not used.
    #[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
    pub refused: &'a [PathBuf],
    /// The folders that scripts may change.
    pub untrusted: &'a UntrustedDirs,
    /// What is shared with the searches for other scripts in the same moment.
    #[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
    pub lookups: Option<&'a LookupCache>,
}

impl InterpreterSearch<'_> {
    /// The program that runs the script in a sandbox; `invalid-skill` if nothing tells which one does, `unavailable` if there is none, or
    /// none of a version that fits. With prepared packages no virtual environment is looked into.
    pub fn find(&self, has_packages: bool, services: &ExternalServices) -> Result<PathBuf> {
        let interpreter = self.interpreter(services)?;
        #[cfg(unix)]
        {
            let skill = self.skill.filter(|_| !has_packages);
            let projects = (self.project, self.refused);
            let own = LookupCache::default();
            let lookups = self.lookups.unwrap_or(&own);
            let untrusted = self.untrusted.clone();
            let query = interpreter_query(&interpreter, skill, projects, untrusted, &lookups.shims);
            let versions = |program: &Path| interpreter_version(services, self.untrusted, program);
            lookups.program(query, |query| Ok(query.locate(self.path, &versions)?.program))
        }
        #[cfg(not(unix))]
        {
            let _ = has_packages;
            Ok(interpreter.locate(self.path, &search_path(), &|_| None)?.program)
        }
    }

    /// The program on `PATH` that runs the script without a sandbox, and for which its packages are prepared: one that untrusted folders do
    /// not control.
    pub fn find_trusted(&self, reason: &str, services: &ExternalServices) -> Result<PathBuf> {
        let is_refused = |program: &Path| self.untrusted.may_control(program);
        #[cfg(unix)]
        let versions = |program: &Path| interpreter_version(services, self.untrusted, program);
        #[cfg(not(unix))]
        let versions = |_: &Path| None;
        let interpreter = self.interpreter(services)?;
        let found = interpreter.locate_allowed(self.path, &search_path(), is_refused, reason, &versions)?;
        Ok(found.program)
    }

    fn interpreter(&self, services: &ExternalServices) -> Result<Interpreter> {
        let overrides = services.interpreters();
        let interpreter = if self.is_handler {
            Interpreter::of_handler(self.path, overrides)?
        } else {
            Interpreter::detect_with(self.path, self.source, overrides)?
        };
        Ok(interpreter.requiring_python(self.python.clone()))
    }
}
