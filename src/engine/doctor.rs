//! Reports what this machine, this build and these skills support, and what is wrong.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{
    Availability, Engine, EngineFuture, EngineInner, Requirement, RequirementKind, RequirementState,
    SettingsReport,
};
use crate::engine::activation::{ambiguous_aliases, tool_aliases};
use crate::engine::script_selection::ScriptChoice;
use crate::registry::{Problem, Registry, Scope, Skill};
use crate::runtimes::{self, Runtime};
use crate::trust::TrustStore;
use metier_core::error::Hint;
use metier_core::executor::RuntimeId;
use metier_core::host::outcome::RunWarning;
use metier_core::host::{EnforcedLevel, InterpreterReport, SandboxSupport, TreeKill};
use metier_core::policy::CancelToken;
use metier_skill::Severity;
use metier_skill::contract::ProvidedTool;

/// What is available to run skills with, detected at the time of the call.
///
/// In JSON every key is always present: `{ok, version, system, features, runtimes, sandbox, sandbox_levels, previews, interpreters, project,
/// roots, shadowed, problems, cache, packages, settings, findings}`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Diagnosis {
    /// Whether no finding is an error.
    pub ok: bool,
    /// The version of metier.
    pub version: &'static str,
    /// The operating system.
    pub system: System,
    /// Cargo features, and whether this build has them.
    pub features: Vec<Feature>,
    /// The runtimes that skills can choose.
    pub runtimes: Vec<RuntimeReport>,
    /// Which restrictions were in effect in a sandbox around a program that did nothing.
    pub sandbox: SandboxSupport,
    /// The sandbox levels, strongest last.
    pub sandbox_levels: Vec<SandboxLevelReport>,
    /// Where runs [in a copy](crate::engine::Invocation::preview) of their project are possible.
    pub previews: Vec<PreviewReport>,
    /// The commands that run external scripts.
    pub interpreters: Vec<InterpreterReport>,
    /// The project.
    pub project: PathBuf,
    /// Where skills are looked for, nearest first.
    pub roots: Vec<RootReport>,
    /// Skills that are shadowed by another one of the same name.
    pub shadowed: Vec<ShadowedSkill>,
    /// The problems that discovery found.
    pub problems: Vec<Problem>,
    /// Compiled modules on disk; `null` in builds without this cache.
    pub cache: Option<CacheReport>,
    /// Which skills that declare settings have them.
    pub settings: SettingsReport,
    /// Packages that were prepared for scripts; `null` in an engine without a store of them.
    pub packages: Option<PackagesReport>,
    /// What is wrong, and how to fix it.
    pub findings: Vec<Finding>,
}

/// The operating system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct System {
    /// `linux`, `macos`, ...
    pub os: &'static str,
    /// `x86_64`, `aarch64`, ...
    pub arch: &'static str,
    /// The release of the kernel, where the system reports it.
    pub kernel: Option<String>,
}

/// A Cargo feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// Whether this build has it.
    pub built_in: bool,
}

/// A runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RuntimeReport {
    /// Its name, as in `runtime:`.
    pub name: RuntimeId,
    /// The extensions of its scripts; `[]` for plans, and for external scripts, which may have any.
    pub extensions: Vec<&'static str>,
    /// Whether this build, or the program around it, has it.
    pub available: bool,
}

/// Whether scripts can run in a copy of the project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PreviewReport {
    /// The runtimes of these scripts.
    pub runtimes: Vec<RuntimeId>,
    /// Whether this machine and this build have what such runs need; of a file system that is known when one begins.
    pub available: bool,
    /// What they need.
    pub needs: &'static str,
}

/// A sandbox level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SandboxLevelReport {
    /// Its name in the outcome's `sandbox.level`.
    pub name: EnforcedLevel,
    /// Whether scripts can run in it on this machine.
    pub available: bool,
    /// What it requires.
    pub needs: &'static str,
}

/// A folder of skills.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RootReport {
    /// Its scope, which decides its precedence.
    pub scope: Scope,
    /// Its label in qualified names.
    pub label: String,
    /// The folder; `null` for skills inside the program.
    pub path: Option<PathBuf>,
    /// Whether the folder exists.
    pub exists: bool,
    /// Number of skills in it that load, including shadowed ones.
    pub skills: usize,
    /// Number of folders and files in it that were left out or have a problem.
    pub problems: usize,
}

/// A skill that is shadowed by another one of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShadowedSkill {
    /// Its qualified name, by which it can be run.
    pub skill: String,
    /// The qualified name of the skill that shadows it.
    pub by: String,
}

/// Compiled modules on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheReport {
    /// The folder of the cache.
    pub path: PathBuf,
    /// Number of files; no more than 100,000 are counted.
    pub files: usize,
    /// Total bytes of these files.
    pub bytes: u64,
}

/// Packages that were prepared for scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PackagesReport {
    /// The folder of the store.
    pub path: PathBuf,
    /// How many sets of packages are in it.
    pub sets: usize,
    /// Bytes of their files.
    pub bytes: u64,
    /// The package manager of Python that would be used; `null` if none is on `PATH` outside of the project.
    pub uv: Option<PathBuf>,
    /// The package manager of Node that would be used.
    pub npm: Option<PathBuf>,
    /// Why the store is not used; `null` if it is.
    pub reason: Option<String>,
}

/// Something wrong on this machine, in this build or in a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// An error prevents skills from running, a warning may do so, the rest is worth knowing.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub help: String,
    /// What fixes it and lies with the host program, which can say where; the help says it in a sentence.
    #[serde(skip)]
    pub hint: Option<Hint>,
}

impl Finding {
    /// Something that the host program has found.
    pub fn new(severity: Severity, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { severity, message: message.into(), help: help.into(), hint: None }
    }

    fn with_hint(self, hint: impl Into<Option<Hint>>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

/// The help where a skill has a problem that says nothing more.
const VALIDATE_HELP: &str = "validate it to see what is wrong with it";

/// Interpreters that most scripts are written for.
const COMMON_INTERPRETERS: [&str; 3] = ["python3", "node", "bash"];

impl Engine {
    /// What this machine, this build and these skills support. Starts a sandbox around a program that does nothing, and every
    /// interpreter to query its version; no skill runs.
    pub fn diagnosis(&self) -> Diagnosis {
        self.0.diagnosis()
    }

    /// The same as [`Engine::diagnosis`], on a thread of its own; `unavailable` when no thread can be started.
    pub fn diagnosis_async(&self) -> EngineFuture<Diagnosis> {
        let engine = self.clone();
        EngineFuture::new(CancelToken::new(), move || Ok(engine.diagnosis()))
    }
}

impl EngineInner {
    pub(super) fn diagnosis(&self) -> Diagnosis {
        let sandbox = runtimes::sandbox_support(self.script_cache.services());
        let interpreters = runtimes::interpreters(self.script_cache.services(), &self.folders.first().path);
        let set = self.skills.set();
        let registry = set.registry.clone();
        let mut findings = sandbox_findings(&sandbox);
        findings.extend(interpreters.iter().filter_map(missing_interpreter_finding));
        findings.extend(registry.problems().iter().filter_map(registry_finding));
        let skills: Vec<&Skill> = registry.visible().collect();
        let availabilities = self.availabilities(&skills);
        findings.extend(Self::unavailable_skill_findings(&skills, &availabilities));
        findings.extend(self.unavailable_tool_findings(&skills, &availabilities));
        findings.extend(ambiguous_alias_findings(&registry));
        findings.extend(self.trust_store_findings());
        findings
            .extend(runtimes::starts_from_copy(self.script_cache.services()).then(missing_helper_finding));
        Diagnosis {
            ok: findings.iter().all(|finding| finding.severity != Severity::Error),
            version: env!("CARGO_PKG_VERSION"),
            system: System {
                os: std::env::consts::OS,
                arch: std::env::consts::ARCH,
                kernel: kernel_release(),
            },
            features: runtimes::FEATURES.iter().map(|&(name, built_in)| Feature { name, built_in }).collect(),
            runtimes: self.runtimes.iter().map(runtime_report).collect(),
            sandbox_levels: sandbox_level_reports(&sandbox),
            previews: preview_reports(&sandbox, self.runtimes.iter().map(Runtime::id)),
            sandbox,
            interpreters,
            project: self.folders.first().path.clone(),
            roots: self.root_reports(&registry),
            shadowed: shadowed_skills(&registry),
            problems: registry.problems().to_vec(),
            cache: runtimes::cache_folder().map(cache_report),
            settings: self.settings_report(&set),
            packages: self.packages_report(),
            findings,
        }
    }

    /// The skills that load and cannot run, with the reason. One without a script holds instructions only, and one whose
    /// contract does not load is already among the problems of discovery.
    fn unavailable_skill_findings(skills: &[&Skill], availabilities: &[Availability]) -> Vec<Finding> {
        let finding = |(skill, availability): (&&Skill, &Availability)| {
            let reason = availability.cannot_run()?.clone();
            let is_reported = skill.contract_diagnostics().iter().any(|diagnostic| diagnostic.blocks);
            (!is_reported).then(|| {
                let message = format!("{} cannot run: {reason}", skill.qualified_name());
                let help = reason.help().map(str::to_owned);
                Finding::new(Severity::Warning, message, help.unwrap_or_else(|| VALIDATE_HELP.into()))
                    .with_hint(reason.help().map_or(Some(Hint::Validate), |_| reason.hint().cloned()))
            })
        };
        let of_packages = Self::package_findings(skills, availabilities);
        skills.iter().zip(availabilities).filter_map(finding).chain(of_packages).collect()
    }

    /// The skills whose packages are not prepared, or cannot be. They may find them elsewhere, so nothing is wrong yet.
    fn package_findings(skills: &[&Skill], answers: &[Availability]) -> Vec<Finding> {
        let is_worth_knowing = |found: &&Requirement| {
            found.kind == RequirementKind::Packages
                && matches!(found.state, RequirementState::Preparable | RequirementState::Missing)
        };
        let findings = |(skill, answer): (&&Skill, &Availability)| {
            let name = skill.qualified_name();
            let finding = |found: &Requirement| {
                let message = format!("{name}: {}", found.reason.as_deref().unwrap_or_default());
                let help = found.help.clone().unwrap_or_default();
                let is_preparable = found.state == RequirementState::Preparable;
                Finding::new(Severity::Info, message, help)
                    .with_hint(is_preparable.then(|| Hint::Prepare(name.clone())))
            };
            answer.requirements.iter().filter(is_worth_knowing).map(finding).collect::<Vec<_>>()
        };
        skills.iter().zip(answers).flat_map(findings).collect()
    }

    /// The tools that cannot be called though their skills could run, with the reason. One that is only declared has none to be mended.
    fn unavailable_tool_findings(&self, skills: &[&Skill], availabilities: &[Availability]) -> Vec<Finding> {
        let finding = |skill: &Skill, tool: &ProvidedTool| {
            let reason = self.availability(skill, ScriptChoice::Tool(&tool.name)).reason?;
            let message =
                format!("the tool {} of {} cannot be called: {reason}", tool.name, skill.qualified_name());
            let help = reason.help().map(str::to_owned);
            Some(
                Finding::new(Severity::Warning, message, help.unwrap_or_else(|| VALIDATE_HELP.into()))
                    .with_hint(reason.help().map_or(Some(Hint::Validate), |_| reason.hint().cloned())),
            )
        };
        let mut findings = Vec::new();
        for (skill, availability) in skills.iter().zip(availabilities) {
            let tools = skill.contract().map_or(&[][..], |contract| &contract.tools);
            let callable = tools.iter().filter(|tool| tool.handler.is_some());
            // What keeps the whole skill from running is reported once.
            if tools.is_empty() || availability.cannot_run().is_some() {
                continue;
            }
            findings.extend(callable.filter_map(|tool| finding(skill, tool)));
        }
        findings
    }

    /// A store that is not used, or that was damaged.
    fn trust_store_findings(&self) -> Vec<Finding> {
        let finding = |severity, message: &str, help: Option<&str>| {
            Finding::new(severity, message, help.unwrap_or("look at what is trusted, and trust it again"))
        };
        match self.trust.as_ref().map(TrustStore::records) {
            None => Vec::new(),
            Some(Err(error)) => vec![finding(Severity::Error, error.message(), error.help())],
            Some(Ok(records)) => {
                let warning = |warning: &String| finding(Severity::Warning, warning, None);
                records.warnings.iter().map(warning).collect()
            }
        }
    }

    fn root_reports(&self, registry: &Registry) -> Vec<RootReport> {
        let skills = |scope, label: &str| {
            let in_root = |skill: &&Skill| skill.scope() == scope && skill.root_label() == label;
            registry.skills().iter().filter(in_root).count()
        };
        let problems = |place: &Path| {
            let amiss =
                |problem: &&Problem| problem.severity > Severity::Info && problem.path.starts_with(place);
            registry.problems().iter().filter(amiss).count()
        };
        let on_disk = self.skills.roots().iter().map(|root| RootReport {
            scope: root.scope,
            label: root.label.clone(),
            path: Some(root.path.clone()),
            exists: root.path.is_dir(),
            skills: skills(root.scope, &root.label),
            problems: problems(&root.path),
        });
        let embedded = self.skills.roots().embedded().iter().map(|root| RootReport {
            scope: root.scope,
            label: root.label.clone(),
            path: None,
            exists: true,
            skills: skills(root.scope, &root.label),
            problems: 0,
        });
        on_disk.chain(embedded).collect()
    }
}

/// Names that several skills declare for tools of theirs.
fn ambiguous_alias_findings(registry: &Registry) -> impl Iterator<Item = Finding> {
    let sentences = ambiguous_aliases(&tool_aliases(registry.visible()));
    let help = "remove the name from mcpAliases of all but one of them, or activate them apart";
    sentences.into_iter().map(move |sentence| Finding::new(Severity::Warning, sentence, help))
}

fn shadowed_skills(registry: &Registry) -> Vec<ShadowedSkill> {
    let shadowed = |skill: &Skill| {
        let by = skill.shadowed_by()?.to_owned();
        Some(ShadowedSkill { skill: skill.qualified_name(), by })
    };
    registry.skills().iter().filter_map(shadowed).collect()
}

fn runtime_report(runtime: &Runtime) -> RuntimeReport {
    RuntimeReport {
        name: runtime.id(),
        extensions: runtime.file_extensions().to_vec(),
        available: runtime.check_available().is_ok(),
    }
}

fn sandbox_level_reports(sandbox: &SandboxSupport) -> Vec<SandboxLevelReport> {
    let is_sandboxed = sandbox.reason.is_none();
    vec![
        SandboxLevelReport {
            name: EnforcedLevel::None,
            available: cfg!(unix),
            needs: "the grant exec:unsandboxed, or no sandbox by the caller's choice",
        },
        SandboxLevelReport {
            name: EnforcedLevel::Landlock,
            available: is_sandboxed && sandbox.landlock_abi.is_some(),
            needs: "Linux 5.13 or later with Landlock, and the feature `sandboxed`",
        },
        SandboxLevelReport {
            name: EnforcedLevel::Namespaces,
            available: is_sandboxed && sandbox.strongest.level == EnforcedLevel::Namespaces,
            needs: "Linux 5.10 or later, user namespaces the system lets everybody make (or root with all its powers), and the feature \
                    `sandboxed`",
        },
    ]
}

/// Those of processes, and those of the languages inside the program.
fn preview_reports(
    sandbox: &SandboxSupport,
    runtimes: impl Iterator<Item = RuntimeId>,
) -> Vec<PreviewReport> {
    let has_namespaces = sandbox.reason.is_none() && sandbox.strongest.level == EnforcedLevel::Namespaces;
    let (processes, others): (Vec<RuntimeId>, Vec<RuntimeId>) =
        runtimes.partition(|id| *id == RuntimeId::EXTERNAL);
    vec![
        PreviewReport {
            runtimes: processes,
            available: has_namespaces,
            needs: "the sandbox level namespaces, Linux 5.11 or later with overlayfs, and a data folder on a file system with user \
                    attributes",
        },
        PreviewReport {
            runtimes: others,
            available: cfg!(unix),
            needs: "no namespaces, unless they call a script that is a process",
        },
    ]
}

fn sandbox_findings(sandbox: &SandboxSupport) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(reason) = &sandbox.reason {
        let message = format!("external scripts do not run in a sandbox here: {reason}");
        let machine = sandbox.help.as_deref().unwrap_or(
            "use Linux 5.13 or later with Landlock, or with namespaces, and a build with the feature `sandboxed`",
        );
        let help = format!("{machine}; or, for single scripts that you trust, grant exec:unsandboxed");
        let hint = sandbox.hint.clone().unwrap_or_else(|| Hint::Grant("exec:unsandboxed".into()));
        findings.push(Finding::new(Severity::Error, message, help).with_hint(hint));
    }
    if sandbox.landlock_abi.is_some() && sandbox.tree_kill == Some(TreeKill::Walk) {
        let message = "the kernel does not keep signals inside a sandbox, so what a script leaves behind is killed one generation \
                       after the other";
        findings.push(Finding::new(Severity::Info, message, "Linux 6.12 and later kill it at once"));
    }
    findings
}

/// The command has the line; an embedder may have forgotten it.
fn missing_helper_finding() -> Finding {
    Finding::new(
        Severity::Warning,
        RunWarning::NoHelperProgram.to_string(),
        RunWarning::NoHelperProgram.help(),
    )
}

fn missing_interpreter_finding(interpreter: &InterpreterReport) -> Option<Finding> {
    let is_usual = COMMON_INTERPRETERS.contains(&interpreter.command.as_str());
    let severity = Severity::Info;
    match (&interpreter.path, &interpreter.version) {
        (None, _) if is_usual => {
            let message = format!("{} is not on PATH", interpreter.command);
            let help = format!("install it to run scripts that end in {}", interpreter.extensions.join(", "));
            Some(Finding::new(severity, message, help))
        }
        _ => None,
    }
}

/// What discovery found wrong. Shadowed skills have a list of their own.
fn registry_finding(problem: &Problem) -> Option<Finding> {
    (problem.severity > Severity::Info).then(|| match &problem.help {
        Some(help) => Finding::new(problem.severity, problem.to_string(), help),
        None => Finding::new(problem.severity, problem.to_string(), VALIDATE_HELP).with_hint(Hint::Validate),
    })
}

/// The release of a Linux kernel.
fn kernel_release() -> Option<String> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(release.trim().to_owned())
}

fn cache_report(path: PathBuf) -> CacheReport {
    const MAX_COUNTED_FILES: usize = 100_000;
    let (mut files, mut bytes, mut folders) = (0, 0, vec![path.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            if found.is_dir() {
                folders.push(entry.path());
            } else {
                files += 1;
                bytes += found.len();
            }
            if files + folders.len() > MAX_COUNTED_FILES {
                return CacheReport { path, files, bytes };
            }
        }
    }
    CacheReport { path, files, bytes }
}
