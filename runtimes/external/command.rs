//! What is started: arguments as an array, the project as working directory, an environment built from nothing.

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
    command.env_clear().envs(inherited());
    command.env("METIER_SKILL_DIR", folder).env("METIER_PROJECT_DIR", project);
    // Running a skill must not change its folder.
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
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
    let command = of(interpreter, script, args, places.skill, places.project);
    let inherited = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    let mut environment: Vec<(OsString, OsString)> =
        inherited.filter(|(name, _)| !OWN.iter().any(|own| name == own)).collect();
    environment.extend(OWN.iter().map(|name| ((*name).into(), places.scratch.into())));
    if let Some((_, path)) = environment.iter_mut().find(|(name, _)| name == "PATH") {
        *path =
            std::env::join_paths(reach::with_programs(&cage, places.installed)).map_err(io::Error::other)?;
    }
    Ok(Order {
        program: command.get_program().to_owned(),
        args: command.get_args().map(OsStr::to_owned).collect(),
        environment,
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
    std::env::vars_os().filter(|(name, _)| is_inherited(name)).chain(path)
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
