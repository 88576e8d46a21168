//! What a run would reach, told by the code that would run it.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;

use super::applied::limits_of;
use super::asked::skills_in;
use super::callable::plan_of;
use super::contract::narrowed;
use super::run::latest;
use super::select::{Selected, select};
use super::{Invocation, LimitsReport, Parts, worker};
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::{SkillInput, SkillRuntime};
use crate::host::{Access, HostFunction, ProcessPlan, SandboxReport, SkillContext, functions};
use crate::plan::Plan;
use crate::policy::{CancelToken, Limits, Need, Permission};
use crate::registry::Skill;
use crate::runtimes;

/// How many callees are looked at, a cage put up for each that is a process.
const MOST: usize = 100;

/// What a run would reach, before it runs.
///
/// In JSON every key is always present: `{skill, script, runtime, project, isolation, limits, permissions, functions, sandbox,
/// process, callees, reason}`.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The skill's qualified name.
    pub skill: String,
    /// The script, by its path in the skill's folder.
    pub script: String,
    /// The language it is in.
    pub runtime: SkillRuntime,
    /// The project whose files it sees.
    pub project: PathBuf,
    /// How firmly a process must be held: `required`, `best-effort` or `off`.
    pub isolation: &'static str,
    /// The limits that would hold.
    pub limits: LimitsReport,
    /// What it may do: what it asks for and the caller grants.
    pub permissions: Vec<String>,
    /// The functions of the host API, in the order of the documentation.
    pub functions: Vec<FunctionReach>,
    /// Which isolation would hold of the skill and all that it calls, the weakest of them; `null` where one of them would not
    /// start, and where an embedder's own executor runs one.
    pub sandbox: Option<SandboxReport>,
    /// The process, for external scripts that would start.
    pub process: Option<ProcessPlan>,
    /// The skills that its plan calls, and those it may call by a grant that names them, and the skills that those call.
    pub callees: Vec<CalleeReach>,
    /// Why the run would not start.
    pub reason: Option<SkillError>,
}

/// Whether a function of the host API would answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionReach {
    /// Its name.
    pub name: &'static str,
    /// The permissions that open it, `[]` where it needs none or has none; each opens what its scope says.
    pub by: Vec<String>,
    /// Whether it is open at all.
    pub allowed: bool,
    /// What would open it, or more of it, in the words of a refusal; a name or host is still to be filled in.
    pub way_out: Option<String>,
}

/// A skill that the run would or could call, by that caller and those before it.
#[derive(Clone, Debug, Serialize)]
pub struct CalleeReach {
    /// The skill's qualified name, or what it is called by where there is none.
    pub skill: String,
    /// The qualified name of the skill that calls it.
    pub caller: String,
    /// The script, by its path in the skill's folder, where one is told.
    pub script: Option<String>,
    /// The language it is in.
    pub runtime: Option<SkillRuntime>,
    /// What it may do: what it and every caller ask for and the caller grants; nothing where it could not be looked at.
    pub permissions: Vec<String>,
    /// Which isolation would hold, as in [`Explanation`].
    pub sandbox: Option<SandboxReport>,
    /// The process, for external scripts that would start.
    pub process: Option<ProcessPlan>,
    /// Why it would not start.
    pub reason: Option<SkillError>,
}

/// One skill under the grants of one run.
struct Reached {
    skill: String,
    script: String,
    runtime: SkillRuntime,
    limits: Limits,
    not_applied: Vec<&'static str>,
    ctx: SkillContext,
    /// The skills it calls, as its plan names them, or by the grants that it holds.
    calls: Vec<String>,
    sandbox: Option<SandboxReport>,
    process: Option<ProcessPlan>,
    reason: Option<SkillError>,
}

impl Parts {
    pub(super) fn explain(&self, invocation: &Invocation) -> Result<Explanation> {
        let skill = self.registry.find(&invocation.skill)?;
        // Whatever has to be compiled to know this has the time of the run that is explained.
        let limits = narrowed(skill, invocation.limits.clone().unwrap_or_else(|| self.limits.clone()));
        let token = invocation.cancel.child();
        let _armed = self.watchdog.arm(latest(Instant::now(), &limits), &token);
        let of = self.reached(skill, invocation, &token)?;
        let mut callees = Vec::new();
        self.below(&of, &token, &mut HashSet::new(), &mut callees)?;
        let held = callees.iter().map(|callee: &CalleeReach| callee.sandbox);
        Ok(Explanation {
            isolation: of.ctx.isolation().name(),
            project: self.project.clone(),
            limits: LimitsReport { not_applied: of.not_applied, ..LimitsReport::new(&of.limits, None) },
            permissions: names(&of.ctx.permissions().held()),
            functions: reach(&of.ctx),
            sandbox: held.fold(of.sandbox, |weakest, held| Some(weakest?.weaker(held?))),
            skill: of.skill,
            script: of.script,
            runtime: of.runtime,
            process: of.process,
            callees,
            reason: of.reason,
        })
    }

    /// Looks at the skills that one calls, and at those they call: once for all that may do the same.
    fn below(
        &self,
        of: &Reached,
        token: &CancelToken,
        seen: &mut HashSet<String>,
        callees: &mut Vec<CalleeReach>,
    ) -> Result<()> {
        if of.ctx.depth() >= Plan::DEEPEST_CALLS {
            return Ok(());
        }
        for name in &of.calls {
            let skill = self.meant(self.called(of.ctx.qualified()), name);
            let looked_at =
                skill.and_then(|skill| self.reached(skill, &Invocation::by(&of.ctx, name), token));
            let key = looked_at.as_ref().map_or_else(|reason| format!("{name}: {reason}"), Reached::key);
            if !seen.insert(key) {
                continue;
            }
            if callees.len() == MOST {
                let sentence =
                    format!("failed to explain {}: it leads to more than {MOST} skills", of.ctx.skill());
                return Err(SkillError::new(ErrorKind::Unavailable, sentence));
            }
            match looked_at {
                Ok(callee) => {
                    callees.push(callee.told(of));
                    self.below(&callee, token, seen, callees)?;
                }
                Err(reason) => callees.push(self.not_looked_at(of, name, reason)),
            }
        }
        Ok(())
    }

    /// A callee of which there is little more to tell than why it would not start.
    fn not_looked_at(&self, caller: &Reached, name: &str, reason: SkillError) -> CalleeReach {
        let skill = self.meant(self.called(caller.ctx.qualified()), name).ok();
        let selected = skill.and_then(|skill| select(skill, None).ok());
        CalleeReach {
            skill: skill.map_or_else(|| name.to_owned(), Skill::qualified),
            caller: caller.skill.clone(),
            runtime: selected.as_ref().map(|selected| selected.runtime),
            script: selected.map(|selected| selected.path),
            permissions: Vec::new(),
            sandbox: None,
            process: None,
            reason: Some(reason),
        }
    }

    fn reached(&self, skill: &Skill, invocation: &Invocation, token: &CancelToken) -> Result<Reached> {
        let selected = select(skill, invocation.script.as_deref())?;
        let given = invocation.limits.clone().unwrap_or_else(|| self.limits.clone());
        let named = narrowed(skill, given);
        let (limits, not_applied) = limits_of(skill, &selected, named.clone());
        let (_, context) = self.prepared(skill, &selected, invocation, &limits, token.clone())?;
        let worker = worker::asked_for(skill.manifest(), selected.runtime, &named)?;
        let ctx = context.worker(worker).limits_handed_on(named).build();
        let mut of = Reached {
            skill: skill.qualified(),
            script: selected.path.clone(),
            runtime: selected.runtime,
            limits: worker::held_by(ctx.worker(), &limits),
            not_applied,
            calls: calls(skill, &selected, &ctx)?,
            ctx,
            sandbox: None,
            process: None,
            reason: None,
        };
        if self.loaded.is_own(selected.runtime) {
            return Ok(of);
        }
        if selected.runtime != SkillRuntime::External {
            of.sandbox = Some(SandboxReport::IN_PROCESS);
            return Ok(of);
        }
        let script = self.script(skill, &selected)?;
        let input = SkillInput { value: invocation.input.clone(), args: invocation.args.clone() };
        match runtimes::plan(&script, self.loaded.shared(), &input, &of.ctx) {
            Ok(process) => {
                of.sandbox = Some(process.sandbox);
                of.process = Some(process);
            }
            Err(reason) => of.reason = Some(reason),
        }
        Ok(of)
    }
}

impl Reached {
    /// What is the same for all calls of a skill that may do the same.
    fn key(&self) -> String {
        let permissions = self.ctx.permissions();
        let free = permissions.allows(&Need::unsandboxed());
        format!("{} {free} {:?}", self.skill, names(&permissions.held()))
    }

    fn told(&self, caller: &Self) -> CalleeReach {
        CalleeReach {
            skill: self.skill.clone(),
            caller: caller.skill.clone(),
            script: Some(self.script.clone()),
            runtime: Some(self.runtime),
            permissions: names(&self.ctx.permissions().held()),
            sandbox: self.sandbox,
            process: self.process.clone(),
            reason: self.reason.clone(),
        }
    }
}

/// The skills that its plan names, and those that it may call by name.
fn calls(skill: &Skill, selected: &Selected, ctx: &SkillContext) -> Result<Vec<String>> {
    let plan = plan_of(skill, selected)?;
    let planned = plan.iter().flat_map(Plan::skills).map(str::to_owned);
    let mut calls: Vec<String> = planned.chain(skills_in(&ctx.permissions().held())).collect();
    let mut known = HashSet::new();
    calls.retain(|name| known.insert(name.clone()));
    Ok(calls)
}

fn reach(ctx: &SkillContext) -> Vec<FunctionReach> {
    let held = ctx.permissions().held();
    let row = |function: &&HostFunction| {
        let permission = function.access.permission();
        let word = permission.map(|name| name.split(':').next().unwrap_or(name));
        let by: Vec<Permission> =
            held.iter().filter(|held| word.is_some_and(|word| held.is_called(word))).cloned().collect();
        // A permission without a scope opens all there is to open.
        let is_whole = by.iter().any(|permission| !permission.is_scoped());
        let refusal = need(function.access).filter(|_| !is_whole);
        let refusal = refusal.and_then(|need| ctx.permissions().require(&need, function.name).err());
        FunctionReach {
            name: function.name,
            allowed: permission.is_none() || !by.is_empty(),
            by: names(&by),
            way_out: refusal.and_then(|refusal| refusal.help().map(str::to_owned)),
        }
    };
    functions().iter().map(row).collect()
}

/// What a call of this kind needs, for whatever name or host.
fn need(access: Access) -> Option<Need> {
    Some(match access {
        Access::Free => return None,
        Access::Read(_) | Access::ReadRoot => Need::read(""),
        Access::Write(_) => Need::write(""),
        Access::Tool(_) => Need::tool("NAME"),
        Access::Skill(_) => Need::skill("NAME"),
        Access::Secret(_) => Need::secret("NAME"),
        Access::Sample => Need::sample(),
        Access::Net(_) => Need::net("HOST"),
    })
}

fn names(permissions: &[Permission]) -> Vec<String> {
    permissions.iter().map(ToString::to_string).collect()
}
