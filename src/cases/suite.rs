//! Runs cases, each in a fresh project.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::Value;

use super::case::Case;
use crate::cases::file_fixture::{FileContent, write_files};
use crate::cases::git_fixture::write_git_history;
use crate::cases::request_recorder::RecordedRequests;
use crate::cases::result::{CaseResult, CaseStatus};
use crate::cases::tool_recorder::RecordedCalls;
use crate::config::Configuration;
use crate::engine::{Engine, Invocation, Outcome, Runtimes, requested_permissions};
use crate::registry::{Registry, Roots, Scope, Skill, SkillFolder, project_root};
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::executor::RuntimeId;
use metier_core::host::temp_dirs::PrivateTempDir;
use metier_core::host::untrusted::UntrustedDirs;
use metier_core::host::{Files, Fixtures, Observer, Providers};
use metier_core::policy::{CancelToken, ExecutionMode, Permission, RequestedPermissions};
use metier_skill::contract::{Entrypoint, ProvidedTool};
use metier_state::StateStore;

/// Permissions that a case may need and only the caller may grant, since they reach outside the case's project.
const CALLER_GRANTED_PERMISSIONS: [&str; 3] = ["exec:unsandboxed", "net", "shm"];

/// The maximum size in bytes of all files in `cases/project`.
const MAX_PROJECT_BYTES: u64 = 16 << 20;

/// Runs cases of skills in these roots.
pub struct Suite {
    roots: Roots,
    /// The skills in the roots, for the engines of all cases; discovered for the first one.
    registry: OnceLock<Arc<Registry>>,
    granted_permissions: Vec<Permission>,
    helper: Option<PathBuf>,
    execution: ExecutionMode,
    configuration: Option<Configuration>,
    cancel: CancelToken,
    observer: Option<Arc<dyn Observer>>,
    /// The case that is running.
    running_case: Mutex<Option<RunningCase>>,
}

/// A running case.
struct RunningCase {
    name: String,
    project: PathBuf,
    engine: Engine,
}

impl Suite {
    /// A suite that grants only what cases may grant themselves.
    pub fn new(roots: Roots) -> Self {
        Self {
            roots,
            registry: OnceLock::new(),
            granted_permissions: Vec::new(),
            helper: None,
            execution: ExecutionMode::default(),
            configuration: None,
            cancel: CancelToken::new(),
            observer: None,
            running_case: Mutex::default(),
        }
    }

    /// Grants a permission to every case that needs it: `net`, `shm` and `exec:unsandboxed` reach outside its project, so
    /// that the case alone cannot. Others are granted by the cases that name them.
    pub fn grant(mut self, permission: Permission) -> Self {
        self.granted_permissions.push(permission);
        self
    }

    /// The program that starts external scripts; see [`EngineBuilder::helper`](crate::engine::EngineBuilder::helper).
    pub fn helper(mut self, program: impl Into<PathBuf>) -> Self {
        self.helper = Some(program.into());
        self
    }

    /// The execution mode of scripts in embedded languages, for every case.
    pub fn execution_mode(mut self, mode: ExecutionMode) -> Self {
        self.execution = mode;
        self
    }

    /// The configuration of the engine of every case, without the settings, secrets and grants of skills: cases bring their own.
    pub fn configuration(mut self, configuration: &Configuration) -> Self {
        self.configuration = Some(configuration.restrictions());
        self
    }

    /// Stops the running case when this token is cancelled.
    pub fn cancel(mut self, token: CancelToken) -> Self {
        self.cancel = token;
        self
    }

    /// The observer that is notified of each case while it runs.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Whether external scripts of a case run, or are still being cleaned up; see [`Engine::runs_processes`].
    pub fn runs_processes(&self) -> bool {
        self.lock_running_case().as_ref().is_some_and(|running| running.engine.runs_processes())
    }

    /// Removes the project of the running case, for a host that exits before the case ends: `the case NAME: `.
    pub fn remove_running_project(&self) -> Option<String> {
        let running = self.lock_running_case().take()?;
        std::fs::remove_dir_all(&running.project).ok();
        Some(format!("the case {}: ", running.name))
    }

    fn lock_running_case(&self) -> MutexGuard<'_, Option<RunningCase>> {
        self.running_case.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a case of that skill in a project of its own, which is removed afterwards.
    pub fn run(&self, skill: &Skill, case: &Case) -> CaseResult {
        let granted = case_permissions(skill, case);
        let mut hint = None;
        let (status, outcome) = match self.not_run_reason(skill, case, &granted) {
            Some((reason, what)) => {
                hint = what;
                (CaseStatus::NotRun(reason), None)
            }
            None => match self.run_in_project(skill, case, granted) {
                Ok((status, outcome)) => (status, Some(outcome)),
                Err(error) => (CaseStatus::NotRun(error.to_string()), None),
            },
        };
        CaseResult {
            skill: skill.name().to_owned(),
            case: case.name().to_owned(),
            status,
            duration: outcome.as_ref().map(|outcome| outcome.duration).unwrap_or_default(),
            hint,
            outcome,
        }
    }

    /// Why the case would prove nothing here, if that is so.
    fn not_run_reason(
        &self,
        skill: &Skill,
        case: &Case,
        granted: &[Permission],
    ) -> Option<(String, Option<Hint>)> {
        if let Some(command) = case.needs().find(|command| !is_on_path(command)) {
            return Some((format!("{command} is not on PATH"), None));
        }
        let leads_out =
            |permission: &&Permission| CALLER_GRANTED_PERMISSIONS.contains(&permission.to_string().as_str());
        if uses_only_recorded_web(skill, case) {
            return None;
        }
        let missing =
            granted.iter().filter(leads_out).find(|need| !self.granted_permissions.contains(need))?;
        let reason = format!("it needs {missing}, which leads out of its project; grant {missing}");
        Some((reason, Some(Hint::Grant(missing.to_string()))))
    }

    fn run_in_project(
        &self,
        skill: &Skill,
        case: &Case,
        granted: Vec<Permission>,
    ) -> Result<(CaseStatus, Outcome)> {
        let folder = PrivateTempDir::outside(&[]);
        let folder =
            folder.map_err(|source| SkillError::io("failed to make a project for the case", source))?;
        let state = PrivateTempDir::outside(&[])
            .map_err(|source| SkillError::io("failed to make a folder for the state of the case", source))?;
        let project = Files::open(folder.path())?;
        if let Some(commits) = &case.definition.git {
            write_git_history(&project, commits, &untrusted_projects(skill))?;
        }
        write_files(&project, &project_files(skill)?)?;
        write_files(&project, &case.definition.files)?;
        let (calls, requests) = (RecordedCalls::default(), RecordedRequests::default());
        let engine = Engine::builder(folder.path()).state(StateStore::new(state.path()));
        let engine = match &self.configuration {
            Some(configuration) => engine.configuration(configuration.clone()),
            None => engine,
        };
        let registry = self.registry.get_or_init(|| Arc::new(Registry::discover(&self.roots)));
        let engine = engine.roots(self.roots.clone()).registry(registry.clone());
        let engine = engine.providers(fixture_providers(case, (&calls, &requests))?);
        let engine = match &self.helper {
            Some(program) => engine.helper(program),
            None => engine,
        };
        let invocation = invocation(skill, case).execution_mode(self.execution).cancel(self.cancel.clone());
        let invocation = match &self.observer {
            Some(observer) => invocation.observer(observer.clone()),
            None => invocation,
        };
        let engine = engine.build()?;
        let granted = match tool_of(skill, case) {
            Some(tool) if case.allow.is_none() => engine.tool_permissions(skill, tool).unwrap_or_default(),
            _ => granted,
        };
        let (name, place) = (case.name().to_owned(), folder.path().to_owned());
        *self.lock_running_case() = Some(RunningCase { name, project: place, engine: engine.clone() });
        let outcome = engine.run(granted.into_iter().fold(invocation, Invocation::grant));
        self.lock_running_case().take();
        let recorded = (calls.take(), requests.take());
        let differences = case.definition.expect.differences(&outcome, &project, recorded);
        let status = if differences.is_empty() {
            CaseStatus::Passed
        } else {
            match unavailable_reason(&engine, skill, case, &outcome) {
                Some(reason) => CaseStatus::NotRun(reason),
                None => CaseStatus::Failed(differences),
            }
        };
        drop(engine);
        Ok((status, outcome))
    }
}

/// Why the skill cannot run on this machine, where that is why the run failed.
fn unavailable_reason(engine: &Engine, skill: &Skill, case: &Case, outcome: &Outcome) -> Option<String> {
    let is_of_machine =
        |error: &&SkillError| matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::SandboxUnavailable);
    let error = outcome.result.as_ref().err().filter(is_of_machine)?;
    let availability = match (&case.definition.script, &case.definition.tool) {
        (Some(script), _) => engine.script_availability(skill, script),
        (None, Some(tool)) => engine.tool_availability(skill, tool),
        (None, None) => engine.availability(skill),
    };
    availability.reason.filter(|reason| reason.message() == error.message()).map(|reason| reason.to_string())
}

/// The projects that may have put a program on `PATH`: the current one, and the one of the skill.
fn untrusted_projects(skill: &Skill) -> UntrustedDirs {
    let here = std::env::current_dir().ok();
    let own = match skill.folder() {
        SkillFolder::Disk(path) if skill.scope() == Scope::Project => Some(path.clone()),
        _ => None,
    };
    let projects: Vec<PathBuf> =
        here.into_iter().chain(own).map(|place| project_root(&place, "metier")).collect();
    UntrustedDirs::new(projects.iter().map(PathBuf::as_path))
}

/// The permissions that the case grants, or else those that its skill requests.
fn case_permissions(skill: &Skill, case: &Case) -> Vec<Permission> {
    match &case.allow {
        Some(named) => named.clone(),
        None => {
            match requested_permissions(&Runtimes::built_in(), skill, case.definition.script.as_deref()) {
                RequestedPermissions::Listed(asked) => asked,
                // The skill lists no permissions that could be granted here.
                RequestedPermissions::All => Vec::new(),
            }
        }
    }
}

/// The files that are there in every case of the skill: those in its `cases/project`.
fn project_files(skill: &Skill) -> Result<BTreeMap<String, FileContent>> {
    let mut files = BTreeMap::new();
    let mut left = MAX_PROJECT_BYTES;
    for path in skill.folder().files()? {
        let Some(name) = path.strip_prefix("cases/project/") else { continue };
        let content = skill.folder().read(&path, left)?;
        left -= content.len() as u64;
        files.insert(name.to_owned(), FileContent::from_bytes(&content));
    }
    Ok(files)
}

fn invocation(skill: &Skill, case: &Case) -> Invocation {
    let mut invocation = Invocation::new(skill.qualified_name()).args(&case.definition.args);
    if let Some(input) = &case.definition.input {
        invocation = invocation.input(input.clone());
    }
    if case.definition.confirm {
        invocation = invocation.confirmed();
    }
    match (&case.definition.script, &case.definition.tool) {
        (Some(script), _) => invocation.script(script),
        (None, Some(tool)) => invocation.tool(tool),
        (None, None) => invocation,
    }
}

/// Whether the case calls a tool that runs in this process, so that its requests are answered by what the case gives.
fn uses_only_recorded_web(skill: &Skill, case: &Case) -> bool {
    let runs_in_process = |script: &Entrypoint| {
        let runtime = script.runtime.as_deref().and_then(|name| Runtimes::built_in().find(name).ok());
        let by_name = || Runtimes::built_in().for_script(&script.path, None, false);
        runtime.unwrap_or_else(by_name) != RuntimeId::EXTERNAL
    };
    tool_of(skill, case)
        .is_some_and(|tool| tool.http().is_some() || tool.script().is_some_and(runs_in_process))
}

/// The tool that the case calls, if the skill offers it.
fn tool_of<'s>(skill: &'s Skill, case: &Case) -> Option<&'s ProvidedTool> {
    let name = case.definition.tool.as_deref()?;
    skill.contract()?.tools.iter().find(|tool| tool.name == name)
}

/// The providers that answer with the fixtures of the case; the web above all is never the real one.
fn fixture_providers(
    case: &Case,
    (calls, requests): (&RecordedCalls, &RecordedRequests),
) -> Result<Providers> {
    let given = Value::Object(case.definition.given.clone()).to_string();
    let canned = Fixtures::new(&given).map_err(|error| {
        let sentence = format!("what the case gives cannot be read: {}", error.message());
        SkillError::new(ErrorKind::InvalidSkill, sentence)
    })?;
    let mut providers = canned.providers();
    providers.tools = providers.tools.map(|tools| calls.wrap(tools));
    providers.http = providers.http.map(|client| requests.wrap(client));
    Ok(providers)
}

fn is_on_path(command: &str) -> bool {
    let is_name = !command.is_empty() && !command.contains(['/', '\\', '\0']);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    is_name && std::env::split_paths(&folders).any(|folder| folder.join(command).is_file())
}
