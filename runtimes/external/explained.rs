//! What a script would reach, of the very command and cage that would start it; and what this machine offers at all.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::super::Shared;
use super::super::sandbox::{self, Cage, Exactly, Report};
use super::reach;
use super::run::{Caged, External};
use super::verdict::Obstacles;
use super::{interpreter, process, verdict, version};
use crate::error::Result;
use crate::executor::{Script, SkillInput};
use crate::host::strangers::Strangers;
use crate::host::{InterpreterReport, Machine, Place, ProcessPlan, SandboxReport, SkillContext};

/// What the script would reach; fails as the run would before its process starts.
pub(in super::super) fn plan(
    script: &Script,
    shared: &Shared,
    input: &SkillInput,
    ctx: &SkillContext,
) -> Result<ProcessPlan> {
    External::new(script, shared)?.plan(input, ctx)
}

impl External {
    fn plan(&self, input: &SkillInput, ctx: &SkillContext) -> Result<ProcessPlan> {
        if Self::is_plain(ctx) {
            return self.planned_plainly(input, ctx);
        }
        let caged = self.caged(Self::arguments(input, ctx), ctx)?;
        match probed(&self.shared, caged.order.cage.clone()) {
            Ok(report) => {
                let version = self.version(Path::new(&caged.order.program), ctx);
                Ok(described(&caged, version, verdict::held(&report), ctx))
            }
            Err(error) => {
                let error = verdict::not_started(self.file.name(), caged.project, error);
                let error = verdict::with_obstacles(error, Obstacles::of(&caged.order, caged.project));
                if Self::may_do_without(ctx, &error) { self.planned_plainly(input, ctx) } else { Err(error) }
            }
        }
    }

    fn version(&self, program: &Path, ctx: &SkillContext) -> Option<String> {
        version::of(program, &self.strangers(ctx), self.shared.launcher())
    }

    fn planned_plainly(&self, input: &SkillInput, ctx: &SkillContext) -> Result<ProcessPlan> {
        let command = self.plain(Self::arguments(input, ctx), ctx)?;
        let names = command.get_envs().filter(|(_, value)| value.is_some()).map(|(name, _)| name);
        let everything = || vec![Place { path: "/".into(), why: "user" }];
        Ok(ProcessPlan {
            command: words(command.get_program(), command.get_args()),
            interpreter_version: self.version(Path::new(command.get_program()), ctx),
            folder: command.get_current_dir().map(PathBuf::from).unwrap_or_default(),
            environment: sorted(names),
            scratch: None,
            reads: everything(),
            writes: everything(),
            guarded: Vec::new(),
            missing: Vec::new(),
            network: true,
            has_api: false,
            worker: None,
            sandbox: SandboxReport::NONE,
        })
    }
}

/// What held of this cage around a program that does nothing.
fn probed(shared: &Shared, cage: Cage) -> std::io::Result<Report> {
    let report = sandbox::probe(shared.launcher(), cage)?;
    process::checked(report)
}

fn described(
    caged: &Caged<'_>,
    version: Option<String>,
    sandbox: SandboxReport,
    ctx: &SkillContext,
) -> ProcessPlan {
    let (order, places) = (&caged.order, caged.places());
    let rules = order.cage.files.clone().unwrap_or_default();
    // What does not exist is passed over when the cage is put up.
    let listed = |own: &mut dyn Iterator<Item = &OsString>, clients: &[OsString]| {
        let own = own.map(PathBuf::from).map(|path| Place { why: reach::why(&path, &places), path });
        let clients = clients.iter().map(|path| Place { path: path.into(), why: "client" });
        let mut places: Vec<Place> = own.chain(clients).filter(|place| place.path.exists()).collect();
        places.sort_by(|a, b| a.path.cmp(&b.path));
        places.dedup_by(|a, b| a.path == b.path);
        places
    };
    let (read, clients) = rules.read.split_at(caged.own_reads);
    ProcessPlan {
        command: words(&order.program, order.args.iter().map(AsRef::as_ref)),
        interpreter_version: version,
        folder: order.folder.clone().into(),
        environment: sorted(order.environment.iter().map(|(name, _)| name.as_os_str())),
        scratch: Some(places.scratch.into()),
        reads: listed(&mut read.iter().chain(paths(&rules.own)), clients),
        writes: listed(&mut paths(&rules.write), &[]),
        guarded: rules.guarded.kept.iter().chain(&rules.guarded.hidden).map(PathBuf::from).collect(),
        missing: ctx
            .permissions()
            .writable()
            .into_iter()
            .filter(|path| !caged.project.join(path).exists())
            .collect(),
        network: !order.cage.shut_network,
        has_api: true,
        worker: ctx.worker(),
        sandbox,
    }
}

fn paths(exact: &[Exactly]) -> impl Iterator<Item = &OsString> {
    exact.iter().map(|place| &place.path)
}

fn words<'a>(program: &'a OsStr, args: impl Iterator<Item = &'a OsStr>) -> Vec<String> {
    std::iter::once(program).chain(args).map(|word| word.to_string_lossy().into_owned()).collect()
}

fn sorted<'a>(names: impl Iterator<Item = &'a OsStr>) -> Vec<String> {
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

/// What this machine offers: found by putting up a cage around a program that does nothing.
pub(in super::super) fn machine(shared: &Shared) -> Machine {
    let helper = shared.launcher().program();
    match probed(shared, reach::strictest()) {
        Ok(report) => found(&report, helper),
        Err(error) => Machine {
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

fn found(report: &Report, helper: Option<PathBuf>) -> Machine {
    let held = report.enforced;
    let sandbox = verdict::held(report);
    let strictest = reach::strictest();
    let tree = (!held.tree_gone).then_some("the end of the whole tree");
    let lacks: Vec<&str> = held.missing(&strictest).chain(tree).collect();
    Machine {
        landlock_abi: Some(held.files_abi).filter(|abi| *abi > 0),
        sandbox,
        tree_kill: Some(if held.scoped_kill { "scoped" } else { "walk" }),
        reason: (!lacks.is_empty()).then(|| format!("the kernel does not hold {}", lacks.join(", "))),
        helper,
    }
}

/// The commands that run scripts, installed or not, with what they say of their version.
pub(in super::super) fn interpreters(shared: &Shared, project: &Path) -> Vec<InterpreterReport> {
    let (folders, strangers) = (interpreter::search_path(), Strangers::of([project]));
    interpreter::commands()
        .into_iter()
        .map(|(name, endings)| {
            let path = interpreter::on_path(name, &folders);
            let version = path.as_deref().and_then(|path| version::of(path, &strangers, shared.launcher()));
            InterpreterReport { command: name.to_owned(), endings, path, version }
        })
        .collect()
}
