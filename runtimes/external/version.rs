//! What an interpreter says of its version: asked with a deadline, of a bounded answer, outside of any project. Where a stranger
//! may have put it, it is asked in a cage or not at all.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::sandbox::{Launcher, Order};
use super::api::Service;
use super::process::{self, Start};
use super::{command, reach};
use crate::host::SkillContext;
use crate::host::strangers::Strangers;
use crate::policy::{Limits, Watchdog};

/// Long enough for a version manager on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// More than a line that anybody wants to read.
const LONGEST: usize = 120;

/// Bytes a program may say; one that says more has other things in mind.
const MOST: u64 = 64 << 10;

/// The first line of `PROGRAM --version`; nothing where it fails, says nothing or takes too long.
pub(super) fn of(program: &Path, strangers: &Strangers, launcher: &Launcher) -> Option<String> {
    said(if strangers.lead_to(program) {
        Start::Caged(launcher, Box::new(caged(program, strangers)))
    } else {
        Start::Plain(Box::new(plain(program)))
    })
}

/// Not in the project: some take what lies around them for settings, or even for what they are to run.
const FOLDER: &str = "/";

fn plain(program: &Path) -> Command {
    let mut asks = Command::new(program);
    asks.arg("--version").current_dir(FOLDER).env_clear().envs(command::inherited());
    asks
}

fn caged(program: &Path, strangers: &Strangers) -> Order {
    Order {
        program: program.into(),
        args: vec!["--version".into()],
        environment: command::inherited().collect(),
        folder: FOLDER.into(),
        cage: reach::strictest_for(program, strangers),
        leftovers: Vec::new(),
        deadline_ms: u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX),
    }
}

fn said(start: Start<'_>) -> Option<String> {
    let limits = Limits::default().deadline(PATIENCE).output(MOST);
    let (watchdog, ctx) = (Watchdog::new(), SkillContext::builder("version").build());
    let _armed = watchdog.arm(Instant::now() + PATIENCE, ctx.cancel());
    let request = process::Request {
        start,
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
    use super::super::super::sandbox::Source;
    use super::*;
    use crate::policy::Tier;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_version_is_the_first_line_that_says_something_and_never_more() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let launcher = Launcher::new(Source::default(), Tier::default());
        let nobody = Strangers::of([]);
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
            assert_eq!(of(&program, &nobody, &launcher), version, "{script}");
        }
        assert_eq!(of(&folder.path().join("nothing"), &nobody, &launcher), None);
    }
}
