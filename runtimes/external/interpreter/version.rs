//! Queries the version of an interpreter: with a timeout, a limit of output, and outside of any project. If an untrusted party
//! may have installed it, it is queried in a sandbox or not at all.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::host::SkillContext;
use crate::host::untrusted::UntrustedDirs;
use crate::policy::{Limits, Watchdog};
use crate::runtimes::external::host_api::RequestHandler;
use crate::runtimes::external::process;
use crate::runtimes::external::process::Launch;
use crate::runtimes::external::{command, policy};
use crate::runtimes::sandbox::{LaunchRequest, Launcher};

/// Long enough for a version manager on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(10);

/// More than a line that anybody wants to read.
const MAX_LINE_CHARS: usize = 120;

/// Bytes a program may say; one that says more has other things in mind.
const MAX_OUTPUT_BYTES: u64 = 64 << 10;

/// The first line of `PROGRAM_STEP --version`; nothing where it fails, says nothing or takes too long.
pub(in crate::runtimes::external) fn query_version(
    program: &Path,
    strangers: &UntrustedDirs,
    launcher: &Launcher,
) -> Option<String> {
    run_query(if strangers.may_control(program) {
        Launch::Sandboxed(launcher, Box::new(sandboxed_request(program, strangers)))
    } else {
        Launch::Unsandboxed(Box::new(unsandboxed_command(program)))
    })
}

/// Not in the project: some take what lies around them for settings, or even for what they are to run.
const WORKING_DIR: &str = "/";

fn unsandboxed_command(program: &Path) -> Command {
    let mut asks = Command::new(program);
    asks.arg("--version").current_dir(WORKING_DIR).env_clear().envs(command::inherited_variables());
    asks
}

fn sandboxed_request(program: &Path, strangers: &UntrustedDirs) -> LaunchRequest {
    LaunchRequest {
        program: program.into(),
        args: vec!["--version".into()],
        environment: command::inherited_variables().collect(),
        folder: WORKING_DIR.into(),
        sandbox: policy::strictest_policy_for(program, strangers),
        cleanup_dirs: Vec::new(),
        timeout_ms: u64::try_from(TIMEOUT.as_millis()).unwrap_or(u64::MAX),
    }
}

fn run_query(start: Launch<'_>) -> Option<String> {
    let limits = Limits::default().timeout(TIMEOUT).output(MAX_OUTPUT_BYTES);
    let (watchdog, ctx) = (Watchdog::new(), SkillContext::builder("version").build());
    let _armed = watchdog.arm(Instant::now() + TIMEOUT, ctx.cancel());
    let request = process::ProcessOptions {
        launch: start,
        stdin: None,
        limits: &limits,
        cancel: ctx.cancel(),
        handler: &RequestHandler::new(&ctx, "--version", None),
    };
    let ended = process::run(request).ok().filter(|ended| ended.status.success())?;
    // Some of them have always said it on standard error.
    [ended.stdout.bytes, ended.stderr.bytes].iter().find_map(|said| first_line(said))
}

fn first_line(said: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(said);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(MAX_LINE_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::SandboxLevel;
    use crate::runtimes::sandbox::ForkServerSource;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_version_is_the_first_line_that_says_something_and_never_more() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let launcher = Launcher::new(ForkServerSource::default(), SandboxLevel::default());
        let nobody = UntrustedDirs::new([]);
        for (script, version) in [
            ("echo; echo '  Thing 1.2  '; echo more", Some("Thing 1.2".to_owned())),
            ("echo Thing 1.2 >&2", Some("Thing 1.2".into())),
            ("printf '\\033[31mred\\033[0m'", Some("[31mred[0m".into())),
            ("yes x | tr -d '\\n' | head -c 10000", Some("x".repeat(120))),
            ("yes", None),
            ("echo wrong; exit 1", None),
            ("exit 0", None),
            ("pwd", Some("/".into())),
            ("echo \"$SECRET\"", None),
        ] {
            std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(query_version(&program, &nobody, &launcher), version, "{script}");
        }
        assert_eq!(query_version(&folder.path().join("nothing"), &nobody, &launcher), None);
    }
}
