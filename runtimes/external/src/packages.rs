//! The packages that a script finds besides those of its interpreter: what was prepared for it, or else a virtual environment.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::interpreter::cache::InterpreterQuery;
use crate::interpreter::detect::{Interpreter, InterpreterCommand};
use crate::interpreter::version_manager::ShimCache;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::untrusted::UntrustedDirs;
use metier_core::host::{RunContext, SkillContext};
use metier_packages::{ChildPackages, Ecosystem, PreparedFiles, Requirements, SkillPackages};
use metier_sandbox::LaunchRequest;

/// Where a virtual environment lies in a project or a skill.
const ENVIRONMENT: &str = ".venv";

/// What was prepared for the script and this interpreter; `None` if nothing was.
pub fn prepared_packages(ctx: &SkillContext, program: &Path) -> Result<Option<PreparedFiles>> {
    match skill_packages(ctx).and_then(SkillPackages::request) {
        Some(request) => request.prepared_for(program),
        None => Ok(None),
    }
}

/// What was prepared for the script, and for the processes that it starts: first its own.
pub(super) fn run_packages(ctx: &SkillContext, own: Option<PreparedFiles>) -> Result<Vec<PreparedFiles>> {
    let mut packages: Vec<PreparedFiles> = own.into_iter().collect();
    let children = ctx.extensions().get::<ChildPackages>().map(ChildPackages::prepared).transpose()?;
    for child in children.into_iter().flatten() {
        if !packages.iter().any(|known| known.folder == child.folder) {
            packages.push(child);
        }
    }
    Ok(packages)
}

/// What the skill says about the packages of the script.
pub(super) fn skill_packages(ctx: &SkillContext) -> Option<&SkillPackages> {
    ctx.extensions().get::<Option<SkillPackages>>()?.as_ref()
}

/// The interpreter that packages were prepared for, in place of a shim that leads to one or another.
pub(super) fn with_prepared_interpreter(
    interpreter: InterpreterCommand,
    prepared: Option<&PreparedFiles>,
) -> InterpreterCommand {
    match prepared {
        Some(prepared) => InterpreterCommand { program: prepared.executable.clone(), ..interpreter },
        None => interpreter,
    }
}

/// The folder of the skill, if its modules find no packages in some projects.
pub(super) fn node_boundary(ctx: &SkillContext, skill: &Path) -> Option<PathBuf> {
    let skill = skill.canonicalize().ok()?;
    ctx.facts().untrusted_projects.iter().any(|project| !project.starts_with(&skill)).then_some(skill)
}

/// What is looked for to run a script in this project, without the interpreters of the projects that are refused. With a skill, those of
/// virtual environments come first.
pub fn interpreter_query(
    interpreter: &Interpreter,
    skill: Option<&Path>,
    (project, refused): (&Path, &[PathBuf]),
    untrusted: UntrustedDirs,
    shims: &ShimCache,
) -> InterpreterQuery {
    let project_used = Some(project).filter(|project| !refused.iter().any(|refused| refused == project));
    let environments = skill.map(|skill| virtual_environments(interpreter, skill, project_used));
    InterpreterQuery::new(interpreter, project, untrusted, shims)
        .without_programs_of(refused)
        .with_dirs_before_path(environments.unwrap_or_default())
}

/// The folders with the programs of virtual environments of Python: of the skill, and of the project, if there is one.
fn virtual_environments(interpreter: &Interpreter, skill: &Path, project: Option<&Path>) -> Vec<PathBuf> {
    if Requirements::ecosystem_of_program(interpreter.best_program_name()) != Some(Ecosystem::Python) {
        return Vec::new();
    }
    let mut folders = vec![skill.join(ENVIRONMENT)];
    folders.extend(project.filter(|project| *project != skill).map(|project| project.join(ENVIRONMENT)));
    folders.retain(|folder| folder.join("pyvenv.cfg").is_file());
    folders.into_iter().map(|folder| folder.join("bin")).collect()
}

/// Fails if a script would see the packages within another folder, which is its own or the project's.
pub(super) fn require_outside(packages: &Path, folders: &[&Path]) -> Result<()> {
    let Some(folder) = folders.iter().find(|folder| packages.starts_with(folder)) else { return Ok(()) };
    let sentence = format!(
        "the prepared packages are not used: their folder lies in {}, which the script may read",
        folder.display()
    );
    Err(SkillError::new(ErrorKind::Unavailable, sentence)
        .with_help("set METIER_DATA_DIR to a folder of your own that is outside of it"))
}

pub fn is_node(program: &Path) -> bool {
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    Requirements::ecosystem_of_program(name) == Some(Ecosystem::Npm)
}

/// Lets a sandboxed script find the packages, after its own modules and the client.
pub(super) fn add_to_request(request: &mut LaunchRequest, prepared: &PreparedFiles) {
    for (name, value) in variables(prepared) {
        match request.environment.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => append_to_path(known, &value),
            None => request.environment.push((name.into(), value)),
        }
    }
}

/// The same for an unsandboxed script.
pub(super) fn add_to_command(command: &mut Command, prepared: &PreparedFiles) {
    for (name, value) in variables(prepared) {
        let known = command.get_envs().find(|(known, _)| *known == name).and_then(|(_, value)| value);
        let mut path = known.map(OsStr::to_owned).unwrap_or_default();
        append_to_path(&mut path, &value);
        command.env(name, path);
    }
}

/// Folders that are named by `PYTHONPATH` are searched, and no `.pth` file in them is read.
fn variables(prepared: &PreparedFiles) -> Vec<(&'static str, OsString)> {
    let folder = &prepared.folder;
    if is_node(&prepared.executable) {
        return vec![
            ("NODE_PATH", folder.join("node_modules").into()),
            ("METIER_NODE_PACKAGES", folder.into()),
        ];
    }
    vec![("PYTHONPATH", folder.into()), ("PATH", folder.join("bin").into())]
}

fn append_to_path(path: &mut OsString, folder: &OsStr) {
    if !path.is_empty() {
        path.push(":");
    }
    path.push(folder);
}
