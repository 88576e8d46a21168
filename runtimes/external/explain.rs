//! Explains what a script could access, from the same command and sandbox that would start it, and what this machine supports.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::super::RuntimeServices;
use super::super::sandbox::{self, PinnedPath, SandboxPolicy, SupervisorReport};
use crate::error::Result;
use crate::executor::{Script, SkillInput};
use crate::host::untrusted::UntrustedDirs;
use crate::host::{
    InterpreterReport, LaunchPreview, SandboxPath, SandboxReport, SandboxSupport, SkillContext,
};
use crate::runtimes::external::executor::{ExternalExecutor, PreparedLaunch};
use crate::runtimes::external::interpreter::{detect, version};
use crate::runtimes::external::outcome::ProtectionGaps;
use crate::runtimes::external::policy;
use crate::runtimes::external::{outcome, process};

/// What the script could access; fails as the run would before its process starts.
pub(in super::super) fn process_plan(
    script: &Script,
    shared: &RuntimeServices,
    input: &SkillInput,
    ctx: &SkillContext,
) -> Result<LaunchPreview> {
    ExternalExecutor::new(script, shared)?.process_plan(input, ctx)
}

impl ExternalExecutor {
    fn process_plan(&self, input: &SkillInput, ctx: &SkillContext) -> Result<LaunchPreview> {
        if Self::is_unsandboxed(ctx) {
            return self.unsandboxed_plan(input, ctx);
        }
        let sandboxed = self.prepare_launch(Self::arguments(input, ctx), ctx)?;
        match probe_sandbox(&self.shared, sandboxed.request.sandbox.clone()) {
            Ok(report) => {
                let version = self.interpreter_version(Path::new(&sandboxed.request.program), ctx);
                Ok(sandboxed_plan(&sandboxed, version, outcome::sandbox_report(&report), ctx))
            }
            Err(error) => {
                let error = outcome::start_error(self.file.name(), sandboxed.project, error);
                let error = outcome::with_protection_gaps(
                    error,
                    ProtectionGaps::in_request(&sandboxed.request, sandboxed.project),
                );
                if Self::may_fall_back_to_unsandboxed(ctx, &error) {
                    self.unsandboxed_plan(input, ctx)
                } else {
                    Err(error)
                }
            }
        }
    }

    fn interpreter_version(&self, program: &Path, ctx: &SkillContext) -> Option<String> {
        version::query_version(program, &self.untrusted_dirs(ctx), self.shared.launcher())
    }

    fn unsandboxed_plan(&self, input: &SkillInput, ctx: &SkillContext) -> Result<LaunchPreview> {
        let command = self.unsandboxed_command(Self::arguments(input, ctx), ctx)?;
        let names = command.get_envs().filter(|(_, value)| value.is_some()).map(|(name, _)| name);
        let everything = || vec![SandboxPath { path: "/".into(), why: "user" }];
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
            has_api: false,
            worker: None,
            sandbox: SandboxReport::NONE,
        })
    }
}

/// The enforcement of this sandbox, probed with a program that does nothing.
fn probe_sandbox(shared: &RuntimeServices, sandbox: SandboxPolicy) -> std::io::Result<SupervisorReport> {
    let report = sandbox::probe(shared.launcher(), sandbox)?;
    process::check_setup(report)
}

fn sandboxed_plan(
    sandboxed: &PreparedLaunch<'_>,
    version: Option<String>,
    sandbox: SandboxReport,
    ctx: &SkillContext,
) -> LaunchPreview {
    let (order, places) = (&sandboxed.request, sandboxed.run_paths());
    let rules = order.sandbox.files.clone().unwrap_or_default();
    // Paths that do not exist are skipped when the sandbox is set up.
    let listed = |own: &mut dyn Iterator<Item = &OsString>, clients: &[OsString]| {
        let own = own
            .map(PathBuf::from)
            .map(|path| SandboxPath { why: policy::access_reason(&path, &places), path });
        let clients = clients.iter().map(|path| SandboxPath { path: path.into(), why: "client" });
        let mut places: Vec<SandboxPath> = own.chain(clients).filter(|place| place.path.exists()).collect();
        places.sort_by(|a, b| a.path.cmp(&b.path));
        places.dedup_by(|a, b| a.path == b.path);
        places
    };
    let (read, clients) = rules.read.split_at(sandboxed.script_read_count);
    LaunchPreview {
        command: command_line(&order.program, order.args.iter().map(AsRef::as_ref)),
        interpreter_version: version,
        working_dir: order.folder.clone().into(),
        environment: sorted_names(order.environment.iter().map(|(name, _)| name.as_os_str())),
        temp_dir: Some(places.temp_dir.into()),
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
        network: !order.sandbox.block_network,
        has_api: true,
        worker: ctx.worker(),
        sandbox,
    }
}

fn paths(exact: &[PinnedPath]) -> impl Iterator<Item = &OsString> {
    exact.iter().map(|place| &place.path)
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
pub(in super::super) fn machine(shared: &RuntimeServices) -> SandboxSupport {
    let helper = shared.launcher().server_program();
    match probe_sandbox(shared, policy::strictest_policy()) {
        Ok(report) => machine_report(&report, helper),
        Err(error) => SandboxSupport {
            landlock_abi: None,
            sandbox: SandboxReport::NONE,
            tree_kill: None,
            reason: Some(match error.kind() {
                std::io::ErrorKind::Unsupported => {
                    "this build has no sandbox for processes on this system".into()
                }
                _ => error.to_string(),
            }),
            helper,
        },
    }
}

fn machine_report(report: &SupervisorReport, helper: Option<PathBuf>) -> SandboxSupport {
    let held = report.enforcement;
    let sandbox = outcome::sandbox_report(report);
    let strictest = policy::strictest_policy();
    let tree = (!held.tree_gone).then_some("the end of the whole tree");
    let lacks: Vec<&str> = held.missing(&strictest).chain(tree).collect();
    SandboxSupport {
        landlock_abi: Some(held.landlock_abi).filter(|abi| *abi > 0),
        sandbox,
        tree_kill: Some(if held.scoped_kill { "scoped" } else { "walk" }),
        reason: (!lacks.is_empty()).then(|| format!("the kernel does not hold {}", lacks.join(", "))),
        helper,
    }
}

/// The commands that run scripts, installed or not, with the version that they report.
pub(in super::super) fn interpreters(shared: &RuntimeServices, project: &Path) -> Vec<InterpreterReport> {
    let (folders, strangers) = (detect::search_path(), UntrustedDirs::new([project]));
    detect::commands()
        .into_iter()
        .map(|(name, endings)| {
            let path = detect::find_on_path(name, &folders);
            let version =
                path.as_deref().and_then(|path| version::query_version(path, &strangers, shared.launcher()));
            InterpreterReport { command: name.to_owned(), extensions: endings, path, version }
        })
        .collect()
}
