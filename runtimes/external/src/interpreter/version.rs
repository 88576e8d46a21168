//! Queries the version of an interpreter: with a timeout, an output limit, and outside of any project.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::environment::inherited_variables;
use crate::host_api::RequestHandler;
use crate::interpreter::path::search_path;
use crate::interpreter::version_text::dotted_version_in;
use crate::process::launch::Launch;
use crate::process::run::{self, ProcessInput, ProcessOptions};
use metier_core::host::{ProcessOutput, SkillContext};
use metier_core::policy::{Limits, Watchdog};
use metier_sandbox::{LaunchRequest, Launcher, SandboxPolicy};

/// How most programs are asked for their version, the most common way first.
pub(crate) const DEFAULT_ARGUMENTS: [&str; 2] = ["--version", "version"];

/// Long enough for a version manager on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of characters of a version.
const MAX_LINE_CHARS: usize = 120;

/// Maximum number of bytes of output. A program that writes more is stopped.
const MAX_OUTPUT_BYTES: u64 = 64 << 10;

/// What a shell exits with where it cannot start a program or does not find it, as a shim of a version manager does.
const SHELL_FAILURES: [i32; 2] = [126, 127];

/// Not the project, because some programs take files there for settings, or even run them.
const WORKING_DIR: &str = "/";

/// What a program printed when it was asked for its version.
pub(crate) struct VersionOutput {
    /// Its standard output, and its standard error.
    pub(crate) streams: [String; 2],
    /// Whether it ended well. Some say their version and fail over something else.
    pub(crate) is_success: bool,
}

/// The first line of `program --version`, run in this sandbox if one is given; of a program that fails the first line with a version.
/// `None` if it writes nothing, is killed or takes too long.
pub(crate) fn query_version(program: &Path, sandbox: Option<(&Launcher, SandboxPolicy)>) -> Option<String> {
    let arguments = [DEFAULT_ARGUMENTS[0].to_owned()];
    let VersionOutput { streams, is_success } = query_output(program, &arguments, TIMEOUT, sandbox)?;
    let says_version = |line: &&str| is_success || dotted_version_in(line).is_some();
    // Some programs write their version to standard error.
    streams.iter().find_map(|output| first_line(output.lines().filter(says_version)))
}

/// What a program prints with these arguments; `None` if it is killed, prints too much or takes too long, and if a shell could not find
/// or start what it stands for.
pub(crate) fn query_output(
    program: &Path,
    arguments: &[String],
    timeout: Duration,
    sandbox: Option<(&Launcher, SandboxPolicy)>,
) -> Option<VersionOutput> {
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

fn run_query(launch: Launch<'_>, timeout: Duration) -> Option<VersionOutput> {
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
    let exit =
        run::run(options).ok().filter(|exit| !ctx.cancel().is_cancelled() && exit.signal().is_none())?;
    let code = exit.status.code().filter(|code| !SHELL_FAILURES.contains(code))?;
    let streams = [exit.stdout.bytes, exit.stderr.bytes];
    let streams = streams.map(|output| String::from_utf8_lossy(&output).into_owned());
    Some(VersionOutput { streams, is_success: code == 0 })
}

fn first_line<'a>(lines: impl Iterator<Item = &'a str>) -> Option<String> {
    let line = lines.map(str::trim).find(|line| !line.is_empty())?;
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
            ("echo wrong 1; echo Thing 1.2; exit 1", Some("Thing 1.2".into())),
            ("echo Thing 1.2; exit 127", None),
            ("echo Thing 1.2; kill -9 $$", None),
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
