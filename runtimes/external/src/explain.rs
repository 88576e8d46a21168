//! Explains what a script could access, from the same command and sandbox that would start it, and what this machine supports.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::egress::EgressRules;
use crate::executor::ExternalExecutor;
use crate::interpreter::detect;
use crate::interpreter::path::{find_on_path, is_executable_file, search_path};
use crate::interpreter::version_manager::{ShimCache, precede_shims};
use crate::outcome::refusal_hint;
use crate::outcome::{self, ProtectionGaps};
use crate::policy;
use crate::process::setup_error::{SandboxSetupError, probe};
use crate::script_command::{PreparedLaunch, ProcessVariables, query_version};
use crate::script_guesses::guesses;
use crate::services::ExternalServices;
use metier_core::error::Result;
use metier_core::executor::{Script, SkillInput};
use metier_core::host::untrusted::UntrustedDirs;
use metier_core::host::{
    AccessReason, InterpreterReport, LaunchPreview, RunContext, SandboxPath, SandboxReport, SandboxSupport,
    SkillContext, TreeKill, interpreter_report, process_variable_names, sandbox_path,
};
use metier_core::policy::RunPermissions;
use metier_sandbox::{NetworkAccess, PinnedPath, Refusal, Restrictions, SupervisorReport};

/// What the script could access; fails as the run would before its process starts.
pub fn process_plan(
    script: &Script,
    services: &ExternalServices,
    input: &SkillInput,
    ctx: &SkillContext,
) -> Result<LaunchPreview> {
    ExternalExecutor::new(script, services)?.process_plan(input, ctx)
}

impl ExternalExecutor {
    fn process_plan(&self, input: &SkillInput, ctx: &SkillContext) -> Result<LaunchPreview> {
        let mut preview = self.process_preview(input, ctx)?;
        preview.guesses = guesses(self.script.file.name(), self.script.file.source());
        Ok(preview)
    }

    fn process_preview(&self, input: &SkillInput, ctx: &SkillContext) -> Result<LaunchPreview> {
        if Self::is_unsandboxed(ctx) {
            return self.unsandboxed_plan(input, ctx);
        }
        let script = &self.script;
        let arguments = Self::arguments(input, ctx);
        let sandboxed = script.prepare_launch(arguments, &named_variables(ctx), None, ctx)?;
        match probe(&script.services.launcher, sandboxed.request.sandbox.clone()) {
            Ok(report) => {
                let version = self.interpreter_version(Path::new(&sandboxed.request.program), ctx);
                Ok(sandboxed_plan(&sandboxed, version, outcome::sandbox_report(&report), ctx))
            }
            Err(error) => {
                let gaps = ProtectionGaps::in_request(&sandboxed.request, sandboxed.project);
                let error = outcome::start_error(script.file.name(), sandboxed.project, &gaps, error);
                if Self::may_fall_back_to_unsandboxed(ctx, &error) {
                    self.unsandboxed_plan(input, ctx)
                } else {
                    Err(error)
                }
            }
        }
    }

    fn interpreter_version(&self, program: &Path, ctx: &SkillContext) -> Option<String> {
        query_version(program, &self.script.untrusted_dirs(ctx), &self.script.services.launcher)
    }

    fn unsandboxed_plan(&self, input: &SkillInput, ctx: &SkillContext) -> Result<LaunchPreview> {
        let arguments = Self::arguments(input, ctx);
        let command = self.script.unsandboxed_command(arguments, &named_variables(ctx), ctx)?;
        let names = command.get_envs().filter(|(_, value)| value.is_some()).map(|(name, _)| name);
        let everything = || vec![sandbox_path("/", AccessReason::User)];
        let mut preview = LaunchPreview::default();
        preview.command = command_line(command.get_program(), command.get_args());
        preview.interpreter_version = self.interpreter_version(Path::new(command.get_program()), ctx);
        preview.working_dir = command.get_current_dir().map(PathBuf::from).unwrap_or_default();
        preview.environment = sorted_names(names);
        preview.reads = everything();
        preview.writes = everything();
        preview.network = true;
        Ok(preview)
    }
}

/// The names of the variables that a run would be given: no value is read to explain it.
fn named_variables(ctx: &SkillContext) -> ProcessVariables {
    process_variable_names(ctx).into_iter().map(|name| (name.into(), OsString::new())).collect()
}

fn sandboxed_plan(
    sandboxed: &PreparedLaunch<'_>,
    version: Option<String>,
    sandbox: SandboxReport,
    ctx: &SkillContext,
) -> LaunchPreview {
    let (request, run_paths) = (&sandboxed.request, sandboxed.run_paths());
    let rules = request.sandbox.files.clone();
    // Paths that do not exist are skipped when the sandbox is set up.
    let listed = |own: &mut dyn Iterator<Item = &OsString>, clients: &[OsString]| {
        let own = own.map(Path::new).map(|path| sandbox_path(path, policy::access_reason(path, &run_paths)));
        let clients = clients.iter().map(|path| sandbox_path(path, AccessReason::Client));
        let mut paths: Vec<SandboxPath> = own.chain(clients).filter(|listed| listed.path.exists()).collect();
        paths.sort_by(|a, b| a.path.cmp(&b.path));
        paths.dedup_by(|a, b| a.path == b.path);
        paths
    };
    let (read, clients) = rules.read.split_at(sandboxed.script_read_count);
    let protected = rules.protected_paths.read_only.iter().chain(&rules.protected_paths.hidden);
    let writable = ctx.permissions().writable_paths().into_iter();
    let mut preview = LaunchPreview::default();
    preview.command = command_line(&request.program, request.args.iter().map(AsRef::as_ref));
    preview.interpreter_version = version;
    preview.working_dir = request.folder.clone().into();
    preview.environment = sorted_names(request.environment.iter().map(|(name, _)| name.as_os_str()));
    preview.temp_dir = Some(run_paths.temp_dir.path().into());
    preview.reads = listed(&mut read.iter().chain(paths(&rules.own)), clients);
    preview.writes = listed(&mut paths(&rules.write), &[]);
    preview.protected = protected.map(PathBuf::from).collect();
    preview.missing = writable.filter(|path| !sandboxed.project.join(path).exists()).collect();
    preview.network = request.sandbox.network == NetworkAccess::Open;
    preview.hosts = sandboxed.egress.as_deref().map(EgressRules::host_names).unwrap_or_default();
    preview.has_api = true;
    preview.worker = ctx.worker();
    preview.sandbox = sandbox;
    preview
}

fn paths(pinned: &[PinnedPath]) -> impl Iterator<Item = &OsString> {
    pinned.iter().map(|pinned| &pinned.path)
}

fn command_line<'a>(program: &'a OsStr, args: impl Iterator<Item = &'a OsStr>) -> Vec<String> {
    std::iter::once(program).chain(args).map(|word| word.to_string_lossy().into_owned()).collect()
}

fn sorted_names<'a>(names: impl Iterator<Item = &'a OsStr>) -> Vec<String> {
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

/// What this machine supports, detected by setting up a sandbox around a program that does nothing.
pub fn sandbox_support(services: &ExternalServices) -> SandboxSupport {
    let helper = services.launcher.server_program();
    match probe(&services.launcher, policy::strictest_policy()) {
        Ok(report) => machine_report(&report, helper),
        Err(error) => {
            let reason = match error.kind() {
                std::io::ErrorKind::Unsupported => {
                    "this build has no sandbox for processes on this system".into()
                }
                _ => error.to_string(),
            };
            let failed = error.get_ref().and_then(|inner| inner.downcast_ref::<SandboxSetupError>());
            let mut none = SandboxSupport::default();
            none.reason = Some(reason);
            none.helper = helper;
            with_refusal(none, failed.and_then(SandboxSetupError::refusal))
        }
    }
}

fn machine_report(report: &SupervisorReport, helper: Option<PathBuf>) -> SandboxSupport {
    let held = report.enforcement;
    let strictest = policy::strictest_policy();
    let tree = (!held.has(Restrictions::TREE_GONE)).then_some("the end of the whole tree");
    let lacks: Vec<&str> = held.missing(&strictest).chain(tree).collect();
    let refusal = lacks.first().and_then(|lack| metier_sandbox::machine()?.refusal(lack));
    let is_scoped = held.has(Restrictions::SCOPED_KILL);
    let mut support = SandboxSupport::default();
    support.landlock_abi = Some(held.landlock_abi).filter(|abi| *abi > 0);
    support.strongest = outcome::sandbox_report(report);
    support.tree_kill = Some(if is_scoped { TreeKill::Scoped } else { TreeKill::Walk });
    support.reason =
        (!lacks.is_empty()).then(|| format!("the kernel does not restrict {}", lacks.join(", ")));
    support.helper = helper;
    with_refusal(support, refusal)
}

/// With the reason and the help of a refusal, if there is one.
fn with_refusal(mut support: SandboxSupport, refusal: Option<Refusal>) -> SandboxSupport {
    if let Some(refusal) = refusal {
        support.hint = refusal_hint(&refusal);
        support.reason = Some(refusal.reason);
        support.help = Some(refusal.help);
    }
    support
}

/// The commands that run scripts, installed or not, with the version that they report.
pub fn interpreters(services: &ExternalServices, project: &Path) -> Vec<InterpreterReport> {
    let untrusted = UntrustedDirs::new(services.folders().iter().map(PathBuf::as_path).chain([project]));
    let folders = precede_shims(search_path(), project, &untrusted, &ShimCache::default());
    detect::commands()
        .into_iter()
        .map(|(name, endings)| {
            let set = detect::overriding_program(name, services.interpreters());
            let path = match set {
                Some(set) => Some(set).filter(|set| is_executable_file(set)),
                None => find_on_path(name, &folders),
            };
            let version =
                path.as_deref().and_then(|path| query_version(path, &untrusted, &services.launcher));
            interpreter_report(name, endings, path, version)
        })
        .collect()
}
