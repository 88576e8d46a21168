//! What an interpreter says of its version: asked with a deadline, of a bounded answer, outside of any project.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::api::Service;
use super::command;
use super::process::{self, Start};
use crate::host::SkillContext;
use crate::policy::{Limits, Watchdog};

/// Long enough for a version manager on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// More than a line that anybody wants to read.
const LONGEST: usize = 120;

/// Bytes a program may say; one that says more has other things in mind.
const MOST: u64 = 64 << 10;

/// The first line of `PROGRAM --version`; nothing where it fails, says nothing or takes too long.
pub(super) fn of(program: &Path) -> Option<String> {
    let limits = Limits::default().deadline(PATIENCE).output(MOST);
    let (watchdog, ctx) = (Watchdog::new(), SkillContext::builder("version").build());
    let _armed = watchdog.arm(Instant::now() + PATIENCE, ctx.cancel());
    let mut asks = Command::new(program);
    // Not in the project: some take what lies around them for settings, or even for what they are to run.
    asks.arg("--version").current_dir("/").env_clear().envs(command::inherited());
    let request = process::Request {
        start: Start::Plain(Box::new(asks)),
        stdin: None,
        limits: &limits,
        cancel: ctx.cancel(),
        service: &Service::new(&ctx, "--version", None),
    };
    let ended = process::run(request).ok().filter(|ended| ended.status.success())?;
    // Some of them have always said it on standard error.
    [ended.stdout.bytes, ended.stderr.bytes].iter().find_map(|said| first_line(said))
}

fn first_line(said: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(said);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(LONGEST).collect())
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
            assert_eq!(of(&program), version, "{script}");
        }
        assert_eq!(of(&folder.path().join("nothing")), None);
    }
}
