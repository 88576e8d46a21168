//! Builds what is started: arguments as an array, the project as working directory, an environment built from nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::environment::{inherited_except_path, inherited_variables};
use crate::interpreter::detect::InterpreterCommand;
use crate::interpreter::path::search_path;
use crate::policy::{self, RunPaths};
use crate::system_config;
use metier_core::host::Redaction;
use metier_core::policy::Limits;
use metier_sandbox::{LaunchRequest, SandboxPolicy};

/// The command that runs `script`, absolute, for a skill in `folder` on `project`.
pub(super) fn build_command(
    interpreter: &InterpreterCommand,
    script: &Path,
    args: &[String],
    folder: &Path,
    project: &Path,
    variables: &BTreeMap<OsString, OsString>,
) -> Command {
    let mut command = Command::new(&interpreter.program);
    command.args(&interpreter.args).arg(script).args(args);
    command.current_dir(project);
    command.env_clear().envs(inherited_variables(&search_path())).envs(variables);
    command.envs(metier_variables(folder, project));
    command
}

/// The variables that metier sets for every run, sandboxed or not.
fn metier_variables(folder: &Path, project: &Path) -> [(OsString, OsString); 3] {
    [
        ("METIER_SKILL_DIR".into(), folder.into()),
        ("METIER_PROJECT_DIR".into(), project.into()),
        // Running a skill must not change its folder.
        ("PYTHONDONTWRITEBYTECODE".into(), "1".into()),
    ]
}

/// The launch request for the same script in a sandbox. Temporary files are in the run's own temp dir, as the home is unless the skill keeps one, and `PATH` holds
/// the folders that the sandbox lets it read. `InvalidInput` for an argument that no process can have.
pub(super) fn build_request(
    interpreter: &InterpreterCommand,
    script: &Path,
    args: &[String],
    paths: &RunPaths<'_>,
    variables: &BTreeMap<OsString, OsString>,
    sandbox: SandboxPolicy,
    (limits, secrets): (&Limits, &Redaction),
) -> io::Result<LaunchRequest> {
    if args.iter().any(|arg| arg.contains('\0')) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let path = std::env::join_paths(policy::dirs_with_programs(&sandbox, paths.installation))
        .map_err(io::Error::other)?;
    let mut environment: BTreeMap<OsString, OsString> = inherited_except_path().collect();
    environment.retain(|_, value| value.to_str().is_none_or(|text| !secrets.contains_secret(text)));
    environment.extend(variables.clone());
    environment.extend(metier_variables(paths.skill, paths.project));
    environment.insert("HOME".into(), paths.home.into());
    environment.insert("TMPDIR".into(), paths.temporary_files().into());
    environment.insert("PATH".into(), path);
    if !system_config::shows_gitconfig(&paths.installation.system_paths) {
        // Git ends with an error where it exists and cannot be read.
        environment.insert("GIT_CONFIG_NOSYSTEM".into(), "1".into());
    }
    let before = interpreter.args.iter().map(OsString::from).chain([script.into()]);
    Ok(LaunchRequest {
        program: interpreter.program.as_os_str().to_owned(),
        args: before.chain(args.iter().map(OsString::from)).collect(),
        environment: environment.into_iter().collect(),
        folder: paths.project.into(),
        sandbox,
        cleanup_dirs: vec![paths.temp_dir.path().into()],
        timeout_ms: u64::try_from(limits.timeout.saturating_add(DEADLINE_GRACE).as_millis())
            .unwrap_or(u64::MAX),
    })
}

/// The host stops a run at its deadline; if the host is too busy, the supervisor does so this much later.
const DEADLINE_GRACE: Duration = Duration::from_secs(1);
