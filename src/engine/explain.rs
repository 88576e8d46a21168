//! Explains what a run could access, using the code that would run it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use super::{Engine, EngineFuture, EngineInner, Invocation, LimitsReport, Requirement, worker};
use crate::engine::callee_resolver::load_plan;
use crate::engine::gates::GateReport;
use crate::engine::limits::run_deadline;
use crate::engine::run::SettledRun;
use crate::engine::run_target::RunTarget;
use crate::engine::run_terms::{FoundScript, FoundSkill};
use crate::engine::script_selection::ScriptChoice;
use crate::engine::skill_set::SkillSet;
use crate::engine::trust::{RunTrust, TrustState};
use crate::registry::{Skill, command_skill};
use crate::runtimes;
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::executor::{RuntimeId, SkillInput};
use metier_core::host::outcome::limits_report;
use metier_core::host::{
    AccessRule, HostFunction, LaunchPreview, RunContext, SandboxReport, SkillContext, functions,
    weaker_report,
};
use metier_core::policy::{
    Access, CancelToken, GrantOrigin, GrantReport, Limits, Permission, RunPermissions, RuntimeLimit,
    SandboxMode, SkillDigest, split_tool_name,
};
use metier_plan::Plan;

/// Maximum number of callees that are examined; a sandbox is set up for each that is a process.
const MAX_CALLEES: usize = 100;

/// What a run could access, before it runs.
///
/// In JSON every key is always present: `{skill, tool, script, runtime, project, sandbox_mode, limits, permissions, functions,
/// sandbox, process, callees, requirements, gates, reviews, reason, grants, digest, trust}`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The skill's qualified name.
    pub skill: String,
    /// The tool of the skill that would be called; `null` for a run of the skill itself.
    pub tool: Option<String>,
    /// The script, by its path in the skill's folder.
    pub script: String,
    /// The runtime of the script.
    pub runtime: RuntimeId,
    /// The project whose files the script sees.
    pub project: PathBuf,
    /// How strictly the sandbox of a process is required.
    pub sandbox_mode: SandboxMode,
    /// The limits that would apply.
    pub limits: LimitsReport,
    /// The effective permissions: those that the skill requests and the caller grants.
    pub permissions: Vec<Permission>,
    /// The functions of the host API, in the order of the documentation.
    pub functions: Vec<FunctionAvailability>,
    /// The weakest sandbox that would apply to the skill and all that it calls; `null` where one of them would not start, and
    /// where an embedder's own executor runs one.
    pub sandbox: Option<SandboxReport>,
    /// The process, for external scripts that would start.
    pub process: Option<LaunchPreview>,
    /// The skills that its plan calls, those it may call with a grant that names them, and the callees of all these.
    pub callees: Vec<CalleeExplanation>,
    /// What the contract of the skill requires, and whether it is there.
    pub requirements: Vec<Requirement>,
    /// Who has to agree before the run starts, whatever is granted.
    pub gates: GateReport,
    /// The steps of its plan at which a person must agree to what the steps before have changed.
    pub reviews: Vec<String>,
    /// Why the run would not start.
    pub reason: Option<SkillError>,
    /// What is granted, and by whom; what the skill does not request has no effect.
    pub grants: Vec<GrantReport>,
    /// The digest of the skill, in engines with a trust store and for invocations with a digest.
    pub digest: Option<SkillDigest>,
    /// Whether the skill is trusted, in engines with a trust store.
    pub trust: Option<TrustState>,
}

/// Whether a call of this host API function would be allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FunctionAvailability {
    /// Its name.
    pub name: &'static str,
    /// The permissions that allow it, each within its scope; `[]` where it needs none or has none.
    pub granted_by: Vec<Permission>,
    /// Whether at least some calls are allowed.
    pub allowed: bool,
    /// What would allow it, or more of it, in the words of the error; a name or host is still to be filled in.
    pub help: Option<String>,
    /// What of that lies with the host program.
    #[serde(skip)]
    pub hint: Option<Hint>,
}

/// A skill that the run would or could call, through this caller and the callers before it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CalleeExplanation {
    /// The skill's qualified name, or the name in the call where no skill is found.
    pub skill: String,
    /// The tool of the skill that would be called; `null` for a run of the skill itself.
    pub tool: Option<String>,
    /// The qualified name of the skill that calls it.
    pub caller: String,
    /// The script, by its path in the skill's folder, where one could be selected.
    pub script: Option<String>,
    /// The runtime of the script.
    pub runtime: Option<RuntimeId>,
    /// The effective permissions: those that it and every caller request and the caller grants; empty where it could not be
    /// examined.
    pub permissions: Vec<Permission>,
    /// The sandbox that would apply, as in [`Explanation`].
    pub sandbox: Option<SandboxReport>,
    /// The process, for external scripts that would start.
    pub process: Option<LaunchPreview>,
    /// Why it would not start.
    pub reason: Option<SkillError>,
}

/// One skill under the grants of one run.
struct ExplainedSkill {
    skill: String,
    tool: Option<String>,
    script: String,
    runtime: RuntimeId,
    limits: Limits,
    not_applied: Vec<RuntimeLimit>,
    grants: Vec<(Permission, GrantOrigin)>,
    digest: Option<SkillDigest>,
    ctx: SkillContext,
    /// The skills that it calls, each with the tool of it that it calls: those its plan names, and those its grants name.
    callees: Vec<(String, Option<String>)>,
    sandbox: Option<SandboxReport>,
    process: Option<LaunchPreview>,
    requirements: Vec<Requirement>,
    gates: GateReport,
    reviews: Vec<String>,
    reason: Option<SkillError>,
}

impl Engine {
    /// What a run could access, without running it: its sandbox is set up around a program that does nothing, and its
    /// interpreter is started to query its version. Fails with the same errors as a run that does not start.
    pub fn explain(&self, invocation: &Invocation) -> Result<Explanation> {
        self.0.explain(invocation)
    }

    /// The same as [`Engine::explain`], on a thread of its own.
    pub fn explain_async(&self, mut invocation: Invocation) -> EngineFuture<Explanation> {
        let cancel = invocation.cancel.child();
        invocation.cancel = cancel.clone();
        let engine = self.clone();
        EngineFuture::new(cancel, move || engine.explain(&invocation))
    }
}

impl EngineInner {
    pub(super) fn explain(&self, invocation: &Invocation) -> Result<Explanation> {
        let (set, skill) = if invocation.is_command {
            (self.skills.set(), command_skill()?)
        } else {
            self.find_skill(None, self.folders.before_lookup(invocation), &invocation.skill)?
        };
        // Whatever must be compiled to explain the run gets the time limit of that run.
        let target = RunTarget::new(&skill, invocation);
        let limits = self.settle_limits(target, invocation.limits.as_ref(), None).given;
        let token = invocation.cancel.child();
        let _armed = self.watchdog.arm(run_deadline(Instant::now(), &limits), &token);
        let trust = self.run_trust(&set, &skill, invocation, &token)?;
        let state = trust.as_ref().and_then(|trust| trust.state.clone());
        let of = self.explain_skill((&set, &skill), trust, invocation, &token)?;
        let mut callees = Vec::new();
        self.explain_callees(&of, &token, &mut HashSet::new(), &mut callees)?;
        let held = callees.iter().map(|callee: &CalleeExplanation| callee.sandbox);
        let mut limits = limits_report(&of.limits, None);
        limits.not_applied = of.not_applied;
        Ok(Explanation {
            sandbox_mode: of.ctx.sandbox_mode(),
            project: of.ctx.project_root().map(Path::to_owned).unwrap_or_default(),
            limits,
            permissions: of.ctx.permissions().effective(),
            functions: function_availability(&of.ctx),
            sandbox: held.fold(of.sandbox, |weakest, held| Some(weaker_report(weakest?, held?))),
            skill: of.skill,
            tool: of.tool,
            script: of.script,
            runtime: of.runtime,
            process: of.process,
            callees,
            requirements: of.requirements,
            gates: of.gates,
            reviews: of.reviews,
            reason: of.reason,
            grants: of.grants.into_iter().map(|(permission, by)| GrantReport::new(permission, by)).collect(),
            digest: of.digest,
            trust: state,
        })
    }

    /// Examines the callees of one skill, and their callees: once for all calls with the same permissions.
    fn explain_callees(
        &self,
        of: &ExplainedSkill,
        token: &CancelToken,
        seen: &mut HashSet<String>,
        callees: &mut Vec<CalleeExplanation>,
    ) -> Result<()> {
        if of.ctx.depth() >= Plan::MAX_CALL_DEPTH {
            return Ok(());
        }
        for (name, tool) in &of.callees {
            let found = self.find_skill(of.ctx.qualified_name(), self.folders.of_caller(&of.ctx), name);
            let looked_at = found.and_then(|(set, skill)| {
                let called = Invocation::for_callee(&of.ctx, name);
                let called = Invocation { tool: tool.clone(), ..called };
                self.explain_skill((&set, &skill), None, &called, token)
            });
            let key = looked_at
                .as_ref()
                .map_or_else(|reason| format!("{name} {tool:?}: {reason}"), ExplainedSkill::dedup_key);
            if !seen.insert(key) {
                continue;
            }
            if callees.len() == MAX_CALLEES {
                let sentence = format!(
                    "failed to explain {}: it leads to more than {MAX_CALLEES} skills",
                    of.ctx.skill()
                );
                return Err(SkillError::new(ErrorKind::Unavailable, sentence));
            }
            match looked_at {
                Ok(callee) => {
                    callees.push(callee.to_callee(of));
                    self.explain_callees(&callee, token, seen, callees)?;
                }
                Err(reason) => callees.push(self.unresolved_callee(of, (name, tool.as_deref()), reason)),
            }
        }
        Ok(())
    }

    /// A callee of which little more is known than why it would not start.
    fn unresolved_callee(
        &self,
        caller: &ExplainedSkill,
        (name, tool): (&str, Option<&str>),
        reason: SkillError,
    ) -> CalleeExplanation {
        let found = self.find_skill(caller.ctx.qualified_name(), self.folders.of_caller(&caller.ctx), name);
        let skill = found.ok().map(|(_, skill)| skill);
        let choice = tool.map_or(ScriptChoice::Main, ScriptChoice::Tool);
        let selected = skill.as_ref().and_then(|skill| self.selected_script(skill, choice).ok());
        CalleeExplanation {
            skill: skill.as_ref().map_or_else(|| name.to_owned(), Skill::qualified_name),
            tool: tool.map(str::to_owned),
            caller: caller.skill.clone(),
            runtime: selected.as_ref().map(|selected| selected.runtime),
            script: selected.map(|selected| selected.path),
            permissions: Vec::new(),
            sandbox: None,
            process: None,
            reason: Some(reason),
        }
    }

    fn explain_skill(
        &self,
        (set, skill): (&Arc<SkillSet>, &Skill),
        trust: Option<RunTrust>,
        invocation: &Invocation,
        token: &CancelToken,
    ) -> Result<ExplainedSkill> {
        self.check_enabled(skill)?;
        let script = match self.selected_script(skill, invocation.script_choice()?) {
            Ok(selected) => {
                let opened = self.open_script(skill, &selected, token);
                FoundScript::Selected(selected, opened)
            }
            Err(error) => FoundScript::Unselected(error),
        };
        let found = FoundSkill { set: set.clone(), skill: skill.clone(), trust: Ok(trust), script };
        let SettledRun { terms, call, .. } = self.settle(found, invocation.clone(), token.clone())?;
        let selected = &terms.selected;
        let locate = |error| skill.with_location_path(error, Some(&selected.path));
        let opened = call.source.map_err(locate)?;
        let script = opened.0.clone();
        let ctx = self.load(&terms, call.providers.clone(), opened).map_err(locate)?.context.build();
        let target = terms.target();
        let gates = self.gate_report(target, &ctx);
        let plan = load_plan(skill, selected)?;
        let mut of = ExplainedSkill {
            skill: skill.qualified_name(),
            tool: invocation.tool.clone(),
            script: selected.path.clone(),
            runtime: selected.runtime,
            limits: worker::without_cpu_limit_of_worker(ctx.worker(), &terms.limits.enforced),
            not_applied: terms.limits.not_applied.clone(),
            grants: terms.grants.clone(),
            digest: terms.digest,
            callees: called_skills(plan.as_ref(), &ctx),
            reviews: plan.iter().flat_map(Plan::reviews).map(str::to_owned).collect(),
            ctx,
            sandbox: None,
            process: None,
            requirements: Vec::new(),
            gates,
            reason: None,
        };
        let settings = (&call.providers, &terms.extensions, &terms.facts);
        (of.requirements, of.reason) = self.run_requirements((set, skill), settings, token)?;
        let refused = || gates.autonomy.and_then(|autonomy| autonomy.check(target).err());
        of.reason = of.reason.or_else(refused);
        if of.reason.is_some() {
            return Ok(of);
        }
        if self.runtimes.get(selected.runtime)?.custom_loader().is_some() {
            return Ok(of);
        }
        if terms.is_in_process() {
            let services = self.script_cache.services();
            match runtimes::embedded_sandbox(
                selected.runtime,
                terms.execution_mode,
                &selected.path,
                services,
                &of.ctx,
            ) {
                Ok(sandbox) => of.sandbox = Some(sandbox),
                Err(reason) => of.reason = Some(reason),
            }
            return Ok(of);
        }
        if !terms.is_command {
            let refused = &terms.facts.untrusted_projects;
            let packages = self.package_requirement(skill, &selected.path, &script.source, refused);
            of.requirements.splice(0..0, packages);
        }
        let input = SkillInput::new(call.input, call.args);
        match runtimes::plan(&script, self.script_cache.services(), &input, &of.ctx) {
            Ok(process) => {
                of.sandbox = Some(process.sandbox);
                of.process = Some(process);
            }
            Err(reason) => of.reason = Some(reason),
        }
        Ok(of)
    }
}

impl ExplainedSkill {
    /// The key shared by all calls of one skill with the same permissions.
    fn dedup_key(&self) -> String {
        let permissions = self.ctx.permissions();
        let free = permissions.allows(&Access::exec_unsandboxed());
        format!("{} {:?} {free} {:?}", self.skill, self.tool, permissions.effective())
    }

    fn to_callee(&self, caller: &Self) -> CalleeExplanation {
        CalleeExplanation {
            skill: self.skill.clone(),
            tool: self.tool.clone(),
            caller: caller.skill.clone(),
            script: Some(self.script.clone()),
            runtime: Some(self.runtime),
            permissions: self.ctx.permissions().effective(),
            sandbox: self.sandbox,
            process: self.process.clone(),
            reason: self.reason.clone(),
        }
    }
}

/// The skills that its plan names, and the skills and tools of skills that its permissions name; not the tools of the host.
fn called_skills(plan: Option<&Plan>, ctx: &SkillContext) -> Vec<(String, Option<String>)> {
    let planned = plan.into_iter().flat_map(Plan::skills).map(|name| (name.to_owned(), None));
    let permitted = ctx.permissions().effective();
    let permitted =
        permitted.iter().filter_map(|permission| match (permission.name(), permission.scope()?) {
            ("skill", name) => Some((name.to_owned(), None)),
            ("tool", name) => {
                let is_of_host = ctx.providers().tools.as_ref().is_some_and(|tools| tools.has(name));
                let (skill, tool) = split_tool_name(name).filter(|_| !is_of_host)?;
                Some((skill.to_owned(), Some(tool.to_owned())))
            }
            _ => None,
        });
    let mut calls: Vec<(String, Option<String>)> = planned.chain(permitted).collect();
    let mut known = HashSet::new();
    calls.retain(|call| known.insert(call.clone()));
    calls
}

fn function_availability(ctx: &SkillContext) -> Vec<FunctionAvailability> {
    let held = ctx.permissions().effective();
    let row = |function: &&HostFunction| {
        let permission = function.access.permission();
        let word = permission.map(|name| name.split(':').next().unwrap_or(name));
        let is_shared =
            |held: &Permission| matches!(function.access, AccessRule::Store(_)) && held.name() == "store";
        let is_for_it = |held: &&Permission| word.is_some_and(|word| held.name() == word) || is_shared(held);
        let by: Vec<Permission> = held.iter().filter(is_for_it).cloned().collect();
        // A permission without a scope allows every call.
        let is_whole = by.iter().any(|permission| permission.scope().is_none());
        let refusal = required_access(function.access).filter(|_| !is_whole);
        let refusal = refusal.and_then(|need| ctx.permissions().require(&need, function.name).err());
        FunctionAvailability {
            name: function.name,
            allowed: permission.is_none() || !by.is_empty(),
            granted_by: by,
            help: refusal.as_ref().and_then(|refusal| refusal.help().map(str::to_owned)),
            hint: refusal.as_ref().and_then(|refusal| refusal.hint().cloned()),
        }
    };
    functions().iter().map(row).collect()
}

/// The access that a call of this kind needs, for any name or host.
fn required_access(access: AccessRule) -> Option<Access> {
    Some(match access {
        AccessRule::Unrestricted => return None,
        AccessRule::Read(_) | AccessRule::ReadRoot => Access::read(""),
        AccessRule::Write(_) => Access::write(""),
        AccessRule::Tool(_) => Access::tool("NAME"),
        AccessRule::Skill(_) => Access::skill("NAME"),
        AccessRule::Secret(_) => Access::secret("NAME"),
        AccessRule::Store(_) => Access::state(),
        AccessRule::Sample => Access::sample(),
        AccessRule::Net(_) => Access::net("HOST"),
    })
}
