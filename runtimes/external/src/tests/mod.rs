//! What running a script as a process promises.

mod host_api;
#[path = "../../../../tests/support/not_run.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod not_run;
mod resources;
mod startup;
mod streams;
mod termination;
mod watch;
mod workers;

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::ExternalServices;
use super::load;
use metier_core::error::{ErrorKind, Hint, LimitKind, Result, SkillError};
use metier_core::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
use metier_core::host::{
    ContextBuilder, Files, LogLine, ProcessReport, Providers, RunContextBuilder, RunMessages, RunReporting,
    SandboxReport, SkillContext,
};
use metier_core::policy::{
    CancelToken, Limits, OutputPolicy, PathProtection, Permissions, RequestedPermissions, SkillDigest,
    Watchdog, WorkerOptions,
};
use not_run::not_run;

/// One helper for all tests.
static SHARED: LazyLock<ExternalServices> = LazyLock::new(ExternalServices::default);

/// A project and a skill with one script, on disk.
struct Fixture {
    project: TempDir,
    skill: TempDir,
    script: Script,
    input: SkillInput,
    limits: Limits,
    cancel: CancelToken,
    grants: Vec<&'static str>,
    providers: Providers,
    worker: Option<WorkerOptions>,
}

/// What came of a run.
struct TestRun {
    value: Result<Value>,
    process: Option<ProcessReport>,
    sandbox: Option<SandboxReport>,
    log: Vec<LogLine>,
    duration: Duration,
}

impl Fixture {
    fn new(path: &str, source: impl AsRef<[u8]>) -> Self {
        let (project, skill) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let file = skill.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, source.as_ref()).unwrap();
        let mut script = Script::new("stage", path, source.as_ref());
        script.folder = Some(skill.path().into());
        let input = SkillInput::default();
        let limits = Limits::default().timeout(Duration::from_secs(20));
        Self {
            project,
            skill,
            script,
            input,
            limits,
            cancel: CancelToken::new(),
            grants: vec!["write"],
            providers: Providers::default(),
            worker: None,
        }
    }

    fn bash(source: &str) -> Self {
        Self::new("scripts/run.bash", source)
    }

    fn input(mut self, value: impl Into<Value>) -> Self {
        self.input.value = Some(value.into());
        self
    }

    fn args(mut self, args: &[&str]) -> Self {
        self.input.args = args.iter().map(|arg| (*arg).to_owned()).collect();
        self
    }

    fn output(mut self, cap: u64) -> Self {
        self.limits = self.limits.output(cap);
        self
    }

    fn deadline(mut self, milliseconds: u64) -> Self {
        self.limits = self.limits.timeout(Duration::from_millis(milliseconds));
        self
    }

    fn file(&self, name: &str) -> PathBuf {
        self.project.path().join(name)
    }

    fn load(&self) -> Result<Box<dyn SkillExecutor>> {
        load(&self.script, &SHARED)
    }

    fn context(&self, cancel: &CancelToken) -> SkillContext {
        self.builder(cancel).build()
    }

    fn builder(&self, cancel: &CancelToken) -> ContextBuilder {
        let granted = self.grants.iter().map(|permission| permission.parse().unwrap());
        SkillContext::builder("stage")
            .project(Files::open(self.project.path()).unwrap())
            .permissions(Permissions::new(RequestedPermissions::All, granted, PathProtection::default()))
            .limits(self.limits.clone())
            .cancel(cancel.clone())
            .providers(self.providers.clone())
            .worker(self.worker)
            .worker_files(Some(SkillDigest::new([0; 32])))
    }

    fn run(&self) -> TestRun {
        self.run_with(&self.cancel, |context| {
            self.load()?.execute_with_context(self.input.clone(), Some(context))
        })
    }

    /// A run of what was loaded before, with this input.
    fn run_again(&self, executor: &dyn SkillExecutor, input: impl Into<Value>) -> TestRun {
        let input = SkillInput::new(Some(input.into()), self.input.args.clone());
        self.run_with(&CancelToken::new(), |context| executor.execute_with_context(input, Some(context)))
    }

    fn run_with(
        &self,
        cancel: &CancelToken,
        run: impl FnOnce(&SkillContext) -> Result<SkillOutput>,
    ) -> TestRun {
        let (context, watchdog, begun) = (self.context(cancel), Watchdog::new(), Instant::now());
        let _armed = watchdog.arm(begun + self.limits.timeout, cancel);
        let outcome = run(&context);
        let took = begun.elapsed();
        let (process, sandbox) = context.take_reports();
        TestRun {
            value: outcome.map(|output| output.value),
            process,
            sandbox,
            log: context.take_log(),
            duration: took,
        }
    }
}

impl TestRun {
    fn text(self) -> String {
        self.value.unwrap().as_str().unwrap().to_owned()
    }

    fn error(&self) -> &SkillError {
        self.value.as_ref().unwrap_err()
    }

    fn failure(&self) -> (ErrorKind, &str) {
        (self.error().kind(), self.error().message())
    }

    fn process(&self) -> &ProcessReport {
        self.process.as_ref().unwrap()
    }
}

/// Whether a command is installed; says so where it is not.
fn has_command(command: &str) -> bool {
    let found = crate::interpreter::path::search_path().iter().any(|folder| folder.join(command).is_file());
    if !found {
        not_run("an external script", &format!("{command} is not installed"));
    }
    found
}
