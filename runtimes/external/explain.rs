//! Explains what a script could access, from the same command and sandbox that would start it, and what this machine supports.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::executor::{Script, SkillInput};
use crate::host::untrusted::UntrustedDirs;
use crate::host::{
    AccessReason, InterpreterReport, LaunchPreview, SandboxPath, SandboxReport, SandboxSupport, SkillContext,
    TreeKill,
};
use crate::runtimes::external::egress::EgressRules;
use crate::runtimes::external::executor::ExternalExecutor;
use crate::runtimes::external::interpreter::detect;
use crate::runtimes::external::interpreter::path::{find_on_path, is_executable_file, search_path};
use crate::runtimes::external::interpreter::version_manager::precede_shims;
use crate::runtimes::external::outcome::refusal_hint;
use crate::runtimes::external::outcome::{self, ProtectionGaps};
use crate::runtimes::external::policy;
use crate::runtimes::external::process::setup_error::{SandboxSetupError, probe};
use crate::runtimes::external::script_command::{PreparedLaunch, ProcessVariables, query_version};
use crate::runtimes::external::services::ExternalServices;
use metier_sandbox::{NetworkAccess, PinnedPath, Refusal, Restrictions, SupervisorReport};

/// What the script could access; fails as the run would before its process starts.
pub(crate) fn process_plan(
    script: &Script,
    services: &ExternalServices,
    input: &SkillInput,
    ctx: &SkillContext,
) -> Result<LaunchPreview> {
    ExternalExecutor::new(script, services)?.process_plan(input, ctx)
}

impl ExternalExecutor {
    fn process_plan(&self, input: &SkillInput, ctx: &SkillContext) -> Result<LaunchPreview> {
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
        let everything = || vec![SandboxPath { path: "/".into(), why: AccessReason::User }];
        Ok(LaunchPreview {
            command: command_line(command.get_program(), command.get_args()),
            interpreter_version: self.interpreter_version(Path::new(command.get_program()), ctx),
            working_dir: command.get_current_dir().map(PathBuf::from).unwrap_or_default(),
            environment: sorted_names(names),
            temp_dir: None,
            reads: everything(),
            writes: everything(),
            protected: Vec::new(),
            missing: Vec::new(),
            network: true,
            hosts: Vec::new(),
            has_api: false,
            worker: None,
            sandbox: SandboxReport::NONE,
        })
    }
}

/// The names of the variables that a run would be given: no value is read to explain it.
fn named_variables(ctx: &SkillContext) -> ProcessVariables {
    ctx.process_variable_names().into_iter().map(|name| (name.into(), OsString::new())).collect()
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
        let own = own
            .map(PathBuf::from)
            .map(|path| SandboxPath { why: policy::access_reason(&path, &run_paths), path });
        let clients = clients.iter().map(|path| SandboxPath { path: path.into(), why: AccessReason::Client });
        let mut paths: Vec<SandboxPath> = own.chain(clients).filter(|listed| listed.path.exists()).collect();
        paths.sort_by(|a, b| a.path.cmp(&b.path));
        paths.dedup_by(|a, b| a.path == b.path);
        paths
    };
    let (read, clients) = rules.read.split_at(sandboxed.script_read_count);
    LaunchPreview {
        command: command_line(&request.program, request.args.iter().map(AsRef::as_ref)),
        interpreter_version: version,
        working_dir: request.folder.clone().into(),
        environment: sorted_names(request.environment.iter().map(|(name, _)| name.as_os_str())),
        temp_dir: Some(run_paths.temp_dir.path().into()),
        reads: listed(&mut read.iter().chain(paths(&rules.own)), clients),
        writes: listed(&mut paths(&rules.write), &[]),
        protected: rules
            .protected_paths
            .read_only
            .iter()
            .chain(&rules.protected_paths.hidden)
            .map(PathBuf::from)
            .collect(),
        missing: ctx
            .permissions()
            .writable_paths()
            .into_iter()
            .filter(|path| !sandboxed.project.join(path).exists())
            .collect(),
        network: request.sandbox.network == NetworkAccess::Open,
        hosts: sandboxed.egress.as_deref().map(EgressRules::host_names).unwrap_or_default(),
        has_api: true,
        worker: ctx.worker(),
        sandbox,
    }
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
pub(crate) fn sandbox_support(services: &ExternalServices) -> SandboxSupport {
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
            let none = SandboxSupport {
                landlock_abi: None,
                strongest: SandboxReport::NONE,
                tree_kill: None,
                reason: Some(reason),
                help: None,
                hint: None,
                helper,
            };
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
    let support = SandboxSupport {
        landlock_abi: Some(held.landlock_abi).filter(|abi| *abi > 0),
        strongest: outcome::sandbox_report(report),
        tree_kill: Some(if held.has(Restrictions::SCOPED_KILL) { TreeKill::Scoped } else { TreeKill::Walk }),
        reason: (!lacks.is_empty()).then(|| format!("the kernel does not restrict {}", lacks.join(", "))),
        help: None,
        hint: None,
        helper,
    };
    with_refusal(support, refusal)
}

/// With the reason and the help of a refusal, if there is one.
fn with_refusal(support: SandboxSupport, refusal: Option<Refusal>) -> SandboxSupport {
    match refusal {
        Some(refusal) => {
            let hint = refusal_hint(&refusal);
            let Refusal { reason, help, .. } = refusal;
            SandboxSupport { reason: Some(reason), help: Some(help), hint, ..support }
        }
        None => support,
    }
}

/// The commands that run scripts, installed or not, with the version that they report.
pub(crate) fn interpreters(services: &ExternalServices, project: &Path) -> Vec<InterpreterReport> {
    let untrusted = UntrustedDirs::new(services.folders().iter().map(PathBuf::as_path).chain([project]));
    let folders = precede_shims(search_path(), project, &untrusted);
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
            InterpreterReport { command: name.to_owned(), extensions: endings, path, version }
        })
        .collect()
}
