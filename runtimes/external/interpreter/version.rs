//! Queries the version of an interpreter: with a timeout, an output limit, and outside of any project.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::host::{ProcessOutput, SkillContext};
use crate::policy::{Limits, Watchdog};
use crate::runtimes::external::environment::inherited_variables;
use crate::runtimes::external::host_api::RequestHandler;
use crate::runtimes::external::interpreter::path::search_path;
use crate::runtimes::external::process::launch::Launch;
use crate::runtimes::external::process::run::{self, ProcessInput, ProcessOptions};
use crate::runtimes::sandbox::{LaunchRequest, Launcher, SandboxPolicy};

/// How most programs are asked for their version, the most common way first.
pub(crate) const DEFAULT_ARGUMENTS: [&str; 2] = ["--version", "version"];

/// Long enough for a version manager on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of characters of a version.
const MAX_LINE_CHARS: usize = 120;

/// Maximum number of bytes of output. A program that writes more is stopped.
const MAX_OUTPUT_BYTES: u64 = 64 << 10;

/// Not the project, because some programs take files there for settings, or even run them.
const WORKING_DIR: &str = "/";

/// The first line of `program --version`, run in this sandbox if one is given; `None` if the program fails, writes nothing or
/// takes too long.
pub(crate) fn query_version(program: &Path, sandbox: Option<(&Launcher, SandboxPolicy)>) -> Option<String> {
    let arguments = [DEFAULT_ARGUMENTS[0].to_owned()];
    // Some programs write their version to standard error.
    query_output(program, &arguments, TIMEOUT, sandbox)?.iter().find_map(|output| first_line(output))
}

/// What a program prints with these arguments, on standard output and on standard error; `None` if it fails, prints too much or takes
/// too long.
pub(crate) fn query_output(
    program: &Path,
    arguments: &[String],
    timeout: Duration,
    sandbox: Option<(&Launcher, SandboxPolicy)>,
) -> Option<[String; 2]> {
    let launch = match sandbox {
        Some((launcher, policy)) => {
            let request = sandboxed_request(program, arguments, timeout, policy);
            Launch::Sandboxed(launcher, Box::new(request), None)
        }
        None => Launch::Unsandboxed(Box::new(unsandboxed_command(program, arguments))),
    };
    run_query(launch, timeout)
}

fn unsandboxed_command(program: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(WORKING_DIR);
    command.env_clear().envs(inherited_variables(&search_path()));
    command
}

fn sandboxed_request(
    program: &Path,
    arguments: &[String],
    timeout: Duration,
    sandbox: SandboxPolicy,
) -> LaunchRequest {
    LaunchRequest {
        program: program.into(),
        args: arguments.iter().map(Into::into).collect(),
        environment: inherited_variables(&search_path()).collect(),
        folder: WORKING_DIR.into(),
        sandbox,
        cleanup_dirs: Vec::new(),
        timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
    }
}

fn run_query(launch: Launch<'_>, timeout: Duration) -> Option<[String; 2]> {
    let limits = Limits::default().timeout(timeout).output(MAX_OUTPUT_BYTES);
    let (watchdog, ctx) = (Watchdog::new(), SkillContext::builder("version").build());
    let _armed = watchdog.arm(Instant::now() + timeout, ctx.cancel());
    let options = ProcessOptions {
        launch,
        stdin: ProcessInput::Empty,
        sinks: None,
        limits: &limits,
        cancel: ctx.cancel(),
        observed: ProcessOutput::default(),
        handler: &RequestHandler::new(&ctx, "--version", None),
    };
    let exit = run::run(options).ok().filter(|exit| exit.status.success())?;
    Some([exit.stdout.bytes, exit.stderr.bytes].map(|output| String::from_utf8_lossy(&output).into_owned()))
}

fn first_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(MAX_LINE_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_version_is_the_first_line_that_says_something_and_never_more() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
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
            assert_eq!(query_version(&program, None), version, "{script}");
        }
        assert_eq!(query_version(&folder.path().join("nothing"), None), None);
    }
}
