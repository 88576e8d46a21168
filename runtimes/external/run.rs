//! One run of a script: as a plain process, or in a cage.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;

use super::super::Shared;
use super::super::sandbox::{self, Order, Scratch};
use super::api::{Service, imports};
use super::file::ScriptFile;
use super::guarded::Marks;
use super::interpreter::{Found, Interpreter, search_path};
use super::known::{Installed, Question};
use super::life::{Life, Own};
use super::made::Before;
use super::process::{self, Session, Start};
use super::reach::{self, Places};
use super::verdict::Obstacles;
use super::worker::{Key, Workers};
use super::{command, verdict};
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
use crate::host::strangers::Strangers;
use crate::host::temp_places;
use crate::host::{Files, LogLevel, SandboxReport, SkillContext};
use crate::policy::{Isolation, Need, Permissions, Worker};

pub(super) use super::process::is_executable;

/// A script and the interpreter that runs it.
pub(super) struct External {
    pub(super) file: ScriptFile,
    interpreter: Interpreter,
    pub(super) shared: Shared,
    workers: Workers,
}

/// What a run in a cage starts with.
pub(super) struct Caged<'a> {
    pub(super) order: Order,
    /// Removed with everything in it when this is dropped.
    scratch: Scratch,
    installed: Arc<Installed>,
    pub(super) project: &'a Path,
    skill: &'a Path,
    /// How many of the order's places to read are the script's own; those after them are the clients'.
    pub(super) own_reads: usize,
}

impl SkillExecutor for External {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        let name = self.file.name();
        let ctx = context.ok_or_else(|| {
            let sentence = format!("{name} runs as a process, which takes a project");
            SkillError::new(ErrorKind::Unavailable, sentence)
        })?;
        ctx.cancel().check()?;
        let _counted = self.shared.count_process();
        if Self::is_plain(ctx) {
            return self.run_plainly(&input, ctx);
        }
        match self.run_caged(&input, ctx) {
            Err(error) if Self::may_do_without(ctx, &error) => self.run_plainly(&input, ctx),
            outcome => outcome,
        }
    }
}

impl External {
    pub(super) fn new(script: &Script, shared: &Shared) -> Result<Self> {
        let interpreter = Interpreter::of(&script.path, &script.source)?;
        let (file, shared) = (ScriptFile::of(script)?, shared.clone());
        Ok(Self { file, interpreter, shared, workers: Workers::default() })
    }

    /// Whether the caller wants no cage.
    pub(super) fn is_plain(ctx: &SkillContext) -> bool {
        let is_free = |permissions: &Permissions| match ctx.depth() {
            0 => permissions.grants(&Need::unsandboxed()),
            _ => permissions.allows(&Need::unsandboxed()),
        };
        ctx.isolation() == Isolation::Off || is_free(ctx.permissions())
    }

    /// Whether a run whose cage cannot be put up may go on without.
    pub(super) fn may_do_without(ctx: &SkillContext, error: &SkillError) -> bool {
        error.kind() == ErrorKind::SandboxUnavailable && ctx.isolation() == Isolation::BestEffort
    }

    /// What stands after the script: nothing for a process that is told the arguments of each run when it is asked.
    pub(super) fn arguments<'a>(input: &'a SkillInput, ctx: &SkillContext) -> &'a [String] {
        if ctx.worker().is_some() { &[] } else { &input.args }
    }

    /// Who may have put anything on the way to a program.
    pub(super) fn strangers(&self, ctx: &SkillContext) -> Strangers {
        let (project, skill) = (ctx.project().ok().map(Files::root), self.file.folder());
        // Where the run has opened it, its path has no links.
        let skill = match ctx.skill_files() {
            Ok(files) if files.root() == skill => Some(skill.to_owned()),
            _ => std::fs::canonicalize(skill).ok(),
        };
        Strangers::at(project.map(Path::to_owned).into_iter().chain(skill))
    }

    /// The script, absolute, once it is known to be what was loaded.
    fn script(&self, ctx: &SkillContext) -> Result<PathBuf> {
        match self.opened(ctx) {
            // One look says so, where the folder lies where it was opened.
            Some(files) if self.file.is_in(files) => Ok(self.file.path().to_owned()),
            _ => self.file.unchanged(),
        }
    }

    /// The skill's folder as the run has opened it, where that is what lies at its path now.
    fn opened<'a>(&self, ctx: &'a SkillContext) -> Option<&'a Files> {
        let folder = self.file.folder();
        let files = ctx.skill_files().ok().filter(|files| files.root() == folder)?;
        let about = folder.symlink_metadata().ok()?;
        (files.identity(Path::new("")).ok()? == (about.dev(), about.ino())).then_some(files)
    }

    /// The program, and what it is told before the script.
    fn told(&self, mut found: Found, avoided: &[&Path]) -> Result<Found> {
        if imports(&found.program, self.file.source()) {
            let import = self.shared.clients().import(|| self.shared.launcher().program(), avoided);
            let import = import.map_err(unwritten)?;
            found.args.insert(0, import.to_string_lossy().into_owned());
        }
        Ok(found)
    }

    /// The command of a plain process.
    pub(super) fn plain(&self, args: &[String], ctx: &SkillContext) -> Result<Command> {
        let script = self.script(ctx)?;
        let (project, strangers) = (ctx.project()?.root(), self.strangers(ctx));
        // In a cage it would do no harm; here it would have all the rights of the user.
        let is_shunned = |program: &Path| strangers.lead_to(program);
        let (name, reason) =
            (self.file.name(), "comes from the project or the skill and runs in a cage only");
        let interpreter = self.interpreter.found_but(name, &search_path(), is_shunned, reason)?;
        let interpreter = self.told(interpreter, &[])?;
        let mut command = command::of(&interpreter, &script, args, self.file.folder(), project);
        self.shared.clients().excuse(&mut command, || self.shared.launcher().program());
        Ok(command)
    }

    /// The order for a process in a cage.
    pub(super) fn caged<'a>(&'a self, args: &[String], ctx: &'a SkillContext) -> Result<Caged<'a>> {
        let (name, project, skill) = (self.file.name(), ctx.project()?.root(), self.file.folder());
        let script = self.script(ctx)?;
        let question = Question::of(&self.interpreter, self.strangers(ctx));
        let installed = self.shared.known().installed(question, name)?;
        // What is made for one run, no other may see.
        let mut avoided = vec![project, skill];
        avoided.extend(installed.homes.iter().map(AsRef::<Path>::as_ref));
        let interpreter = self.told(installed.interpreter.clone(), &avoided)?;
        let scratch = Scratch::new(self.shared.sweeper(), &avoided)
            .map_err(|error| SkillError::io("failed to make a folder for the run", error))?;
        let places = Places { project, skill, scratch: scratch.path(), installed: &installed };
        let cage = reach::cage(ctx, &places);
        let own_reads = cage.files.as_ref().map_or(0, |rules| rules.read.len());
        let mut order =
            command::order(&interpreter, &script, args, &places, cage, ctx.limits(), ctx.redaction())
                .map_err(|error| verdict::not_started(name, project, error))?;
        if ctx.worker().is_some_and(|worker| !worker.is_single()) {
            // Both count from the start of the process, which says nothing of a run; its host holds the deadline of each.
            order.cage.ceilings.cpu_seconds = None;
            order.deadline_ms = u64::MAX;
        }
        let offered = self.shared.clients().offer(&mut order, || self.shared.launcher().program(), &avoided);
        offered.map_err(unwritten)?;
        order.leftovers.extend(temp_places::places().into_iter().map(Into::into));
        drop(avoided);
        Ok(Caged { order, scratch, installed, project, skill, own_reads })
    }

    /// With all the rights of the user, which the report and the log say.
    fn run_plainly(&self, input: &SkillInput, ctx: &SkillContext) -> Result<SkillOutput> {
        let command = self.plain(Self::arguments(input, ctx), ctx)?;
        ctx.report_sandbox(SandboxReport::NONE);
        warn(ctx, format!("{} runs without a sandbox, with all the rights of the user", self.file.name()));
        if let Some(worker) = ctx.worker() {
            let started = Session::start(Start::Plain(Box::new(command)), ctx.limits());
            let life = self.life(started, worker, SandboxReport::NONE, Own::default(), ctx)?;
            return life.last_run(input, ctx).map(SkillOutput::from);
        }
        self.run(Start::Plain(Box::new(command)), input.value.as_ref(), ctx)
    }

    fn run_caged(&self, input: &SkillInput, ctx: &SkillContext) -> Result<SkillOutput> {
        if let Some(worker) = ctx.worker() {
            self.script(ctx)?;
            let start = || self.kept(worker, input, ctx);
            let value = if worker.is_single() {
                start()?.last_run(input, ctx)
            } else {
                self.workers.run(Key::of(ctx)?, input, ctx, start)
            };
            return value.map(SkillOutput::from);
        }
        let Caged { order, scratch, project, .. } = self.caged(Self::arguments(input, ctx), ctx)?;
        let found = order.cage.files.as_ref().map(|rules| &rules.guarded);
        let before = Before::of(ctx, project, found);
        let obstacles = warned_of(ctx, &order, project);
        let outcome =
            self.run(Start::Caged(self.shared.launcher(), Box::new(order)), input.value.as_ref(), ctx);
        let outcome = outcome.map_err(|error| verdict::with_obstacles(error, obstacles));
        drop(scratch);
        match before {
            Some(mut before) => before.settled(ctx, self.file.name(), outcome),
            None => outcome,
        }
    }

    /// A process in a cage that is kept between runs. What holds of its cage is what a program that does nothing finds in the
    /// same one: the process itself says so when it ends, which is too late for its runs.
    fn kept(&self, worker: Worker, input: &SkillInput, ctx: &SkillContext) -> Result<Life> {
        let Caged { order, scratch, project, .. } = self.caged(Self::arguments(input, ctx), ctx)?;
        let obstacles = warned_of(ctx, &order, project);
        let found = order.cage.files.as_ref().map(|rules| &rules.guarded);
        let (marks, before) = (found.map(Marks::of).unwrap_or_default(), Before::of(ctx, project, found));
        let launcher = self.shared.launcher();
        let probed = sandbox::probe(launcher, order.cage.clone()).and_then(process::checked);
        let report =
            probed.map_err(|error| verdict::with_obstacles(self.not_started(ctx, error), obstacles))?;
        let started = Session::start(Start::Caged(launcher, Box::new(order)), ctx.limits());
        self.life(started, worker, verdict::held(&report), Own { before, marks, scratch: Some(scratch) }, ctx)
    }

    fn life(
        &self,
        started: io::Result<Session>,
        worker: Worker,
        sandbox: SandboxReport,
        own: Own,
        ctx: &SkillContext,
    ) -> Result<Life> {
        let session = started.map_err(|error| self.not_started(ctx, error))?;
        Ok(Life::new(session, self.file.name(), ctx.project()?.root().to_owned(), worker, sandbox, own))
    }

    /// What was stopped on its way in did not fail to start.
    fn not_started(&self, ctx: &SkillContext, error: io::Error) -> SkillError {
        let failed = || match ctx.project() {
            Ok(project) => verdict::not_started(self.file.name(), project.root(), error),
            Err(error) => error,
        };
        ctx.cancel().check().err().unwrap_or_else(failed)
    }

    fn run(&self, start: Start<'_>, input: Option<&Value>, ctx: &SkillContext) -> Result<SkillOutput> {
        let name = self.file.name();
        let service = Service::new(ctx, name, input);
        let request = process::Request {
            start,
            stdin: input.map(|value| value.to_string().into_bytes()),
            limits: ctx.limits(),
            cancel: ctx.cancel(),
            service: &service,
        };
        let ended = process::run(request).map_err(|error| self.not_started(ctx, error))?;
        let code = ended.status.code();
        verdict::of(ctx, name, ended).map_err(|error| service.explained(error, code))
    }
}

impl Caged<'_> {
    pub(super) fn places(&self) -> Places<'_> {
        Places {
            project: self.project,
            skill: self.skill,
            scratch: self.scratch.path(),
            installed: &self.installed,
        }
    }
}

fn unwritten(error: io::Error) -> SkillError {
    SkillError::io("failed to write the clients of the host API", error)
}

/// Says where some of what is guarded may not have been found, with all that can stand in the way, which is the answer.
fn warned_of(ctx: &SkillContext, order: &Order, project: &Path) -> Obstacles {
    let obstacles = Obstacles::of(order, project);
    if let Some(more) = obstacles.more() {
        warn(ctx, format!("not all secrets and histories of the project are guarded: {more}"));
    }
    obstacles
}

/// Logs a warning of ours. A log too small for it is no reason to fail a run: the reports say the same.
pub(super) fn warn(ctx: &SkillContext, line: String) {
    ctx.log(LogLevel::Warn, line).ok();
}
