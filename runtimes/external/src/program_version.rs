//! The versions of programs that skills need: a program is asked in a sandbox, and once as long as its file stays the same.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use semver::Version;

use crate::interpreter::path::{find_on_path, search_path};
use crate::interpreter::version::{DEFAULT_ARGUMENTS, VersionOutput, query_output};
use crate::interpreter::version_text::{dotted_version_in, first_version};
use crate::policy;
use crate::services::ExternalServices;
use crate::version::ProgramVersion;
use crate::version_cache::Query;
use metier_core::host::untrusted::UntrustedDirs;

/// The most time for one program.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Whether programs that only the user can change are started without a sandbox, in builds that have none.
const HAS_SANDBOX: bool = metier_sandbox::HAS_LAUNCHER;

/// The version of the first program of that name on `PATH`. With arguments it is asked with these; otherwise as most programs are.
pub fn program_version(
    services: &ExternalServices,
    project: &Path,
    name: &str,
    arguments: &[String],
) -> ProgramVersion {
    let program =
        Some(name).filter(|name| !name.contains('/')).and_then(|name| find_on_path(name, &search_path()));
    let Some(query) = program.and_then(|program| Query::new(program, arguments)) else {
        return ProgramVersion::Absent;
    };
    let untrusted = UntrustedDirs::new(services.folders().iter().map(PathBuf::as_path).chain([project]));
    services.version_cache.version(query, |query| ask(query, services, &untrusted))
}

/// The version of an interpreter, asked in the same way and cached with the others.
pub(crate) fn interpreter_version(
    services: &ExternalServices,
    untrusted: &UntrustedDirs,
    program: &Path,
) -> Option<Version> {
    let query = Query::new(program.to_owned(), &[])?;
    match services.version_cache.version(query, |query| ask(query, services, untrusted)) {
        ProgramVersion::Is(version) => Some(version),
        ProgramVersion::Absent | ProgramVersion::Unreadable => None,
    }
}

/// Starts the program. One that somebody else may have changed is never started without a sandbox, and without one a skill has no
/// say in the arguments.
fn ask(query: &Query, services: &ExternalServices, untrusted: &UntrustedDirs) -> Option<Version> {
    if !HAS_SANDBOX && (untrusted.may_control(&query.program) || !query.arguments.is_empty()) {
        return None;
    }
    let deadline = Instant::now() + TIMEOUT;
    let asked = |arguments: &[String]| {
        let left = deadline.checked_duration_since(Instant::now())?;
        let sandbox =
            HAS_SANDBOX.then(|| (&*services.launcher, policy::version_policy(&query.program, untrusted)));
        query_output(&query.program, arguments, left, sandbox)
    };
    let arguments = |argument: &&str| vec![(*argument).to_owned()];
    let ways = match query.arguments.as_slice() {
        [] => DEFAULT_ARGUMENTS.iter().map(arguments).collect(),
        own => vec![own.to_vec()],
    };
    let mut of_failure = None;
    for arguments in ways {
        let Some(VersionOutput { streams: [stdout, stderr], is_success }) = asked(&arguments) else {
            continue;
        };
        if is_success && let Some(version) = first_version(&stdout).or_else(|| first_version(&stderr)) {
            return Some(version);
        }
        // It may say its version and then fail over something else. What it says on standard error is why it failed.
        of_failure = of_failure.or_else(|| dotted_version_in(&stdout).filter(|_| !is_success));
    }
    of_failure
}
