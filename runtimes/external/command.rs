//! What is started: arguments as an array, the project as working directory, an environment built from nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::super::sandbox::{Cage, Order};
use super::interpreter::{Found, search_path};
use super::reach::{self, Places};
use crate::policy::Limits;

/// The variables a script inherits. Whatever is not here stays outside: secrets, and everything that changes how an
/// interpreter or a tool behaves (`LD_*`, `PYTHON*`, `NODE_OPTIONS`, `BASH_ENV`, `GIT_*`). `PATH` is rebuilt.
const INHERITED: [&str; 7] = [
    "HOME",     // Tools keep their settings and caches there.
    "USER",     // Who runs this.
    "LOGNAME",  // The same, under the name POSIX gives it.
    "LANG",     // Language and encoding, with every LC_ variable.
    "LANGUAGE", // Further languages, in order.
    "TZ",       // What time it is here.
    "TMPDIR",   // Where temporary files belong, where that is not /tmp.
];
const INHERITED_PREFIX: &str = "LC_";

/// The command that runs `script`, absolute, for a skill in `folder` on `project`.
pub(super) fn of(
    interpreter: &Found,
    script: &Path,
    args: &[String],
    folder: &Path,
    project: &Path,
) -> Command {
    let mut command = Command::new(&interpreter.program);
    command.args(&interpreter.args).arg(script).args(args);
    command.current_dir(project);
    command.env_clear().envs(inherited()).envs(told(folder, project));
    command
}

/// The variables that a run has of its own, wherever it runs.
fn told(folder: &Path, project: &Path) -> [(OsString, OsString); 3] {
    [
        ("METIER_SKILL_DIR".into(), folder.into()),
        ("METIER_PROJECT_DIR".into(), project.into()),
        // Running a skill must not change its folder.
        ("PYTHONDONTWRITEBYTECODE".into(), "1".into()),
    ]
}

/// The order for the same script in a cage. Home and temporary files are a folder of the run's own, and `PATH` holds what the
/// cage lets it reach. `InvalidInput` for an argument that no process can have.
pub(super) fn order(
    interpreter: &Found,
    script: &Path,
    args: &[String],
    places: &Places<'_>,
    cage: Cage,
    limits: &Limits,
) -> io::Result<Order> {
    if args.iter().any(|arg| arg.contains('\0')) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let path =
        std::env::join_paths(reach::with_programs(&cage, places.installed)).map_err(io::Error::other)?;
    let mut environment: BTreeMap<OsString, OsString> = inherited_but_path().collect();
    environment.extend(told(places.skill, places.project));
    environment.extend(OWN.iter().map(|name| ((*name).into(), places.scratch.into())));
    environment.insert("PATH".into(), path);
    let before = interpreter.args.iter().map(OsString::from).chain([script.into()]);
    Ok(Order {
        program: interpreter.program.as_os_str().to_owned(),
        args: before.chain(args.iter().map(OsString::from)).collect(),
        environment: environment.into_iter().collect(),
        folder: places.project.into(),
        cage,
        leftovers: vec![places.scratch.into()],
        deadline_ms: u64::try_from(limits.deadline.saturating_add(BACKSTOP).as_millis()).unwrap_or(u64::MAX),
    })
}

/// The host stops a run at its deadline; should it be too busy, the stub does so this much later.
const BACKSTOP: Duration = Duration::from_secs(1);

/// Variables that name a folder to write to: in a cage the run's own.
const OWN: [&str; 2] = ["HOME", "TMPDIR"];

/// The variables that come from the host, `PATH` included.
pub(super) fn inherited() -> impl Iterator<Item = (OsString, OsString)> {
    // Folders that came from a PATH need no further check to be joined to one.
    let path = std::env::join_paths(search_path()).ok().map(|path| ("PATH".into(), path));
    inherited_but_path().chain(path)
}

fn inherited_but_path() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| is_inherited(name))
}

pub(super) fn is_inherited(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| INHERITED.contains(&name) || name.starts_with(INHERITED_PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_an_interpreter_is_inherited() {
        for name in [
            "LD_PRELOAD",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "NODE_OPTIONS",
            "BASH_ENV",
            "ENV",
            "GIT_DIR",
            "PERL5OPT",
            "RUBYOPT",
            "AWS_SECRET_ACCESS_KEY",
            "SSH_AUTH_SOCK",
            "BASH_FUNC_ls%%",
            "",
        ] {
            assert!(!is_inherited(OsStr::new(name)), "{name}");
        }
        for name in ["HOME", "LANG", "LC_ALL", "TZ"] {
            assert!(is_inherited(OsStr::new(name)), "{name}");
        }
    }
}
