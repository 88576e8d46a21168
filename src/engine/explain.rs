//! What a run would reach, told by the code that would run it.

use std::path::PathBuf;

use serde::Serialize;

use super::select::select;
use super::{Invocation, LimitsReport, Parts, worker};
use crate::error::{Result, SkillError};
use crate::executor::{SkillInput, SkillRuntime};
use crate::host::{Access, HostFunction, ProcessPlan, SandboxReport, SkillContext, functions};
use crate::policy::{CancelToken, Need, Permission};
use crate::runtimes;

/// What a run would reach, before it runs.
///
/// In JSON every key is always present: `{skill, script, runtime, project, isolation, limits, permissions, functions, sandbox,
/// process, reason}`.
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
    /// Which isolation would hold; `null` where the run would not start, and where an embedder's own executor runs it.
    pub sandbox: Option<SandboxReport>,
    /// The process, for external scripts that would start.
    pub process: Option<ProcessPlan>,
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

impl Parts {
    pub(super) fn explain(&self, invocation: &Invocation) -> Result<Explanation> {
        let skill = self.registry.find(&invocation.skill)?;
        let selected = select(skill, invocation.script.as_deref())?;
        let named = invocation.limits.clone().unwrap_or_else(|| self.limits.clone());
        let limits = selected.settled(named.clone());
        let (_, context) = self.prepared(skill, &selected, invocation, &limits, CancelToken::new())?;
        let ctx = context.worker(worker::asked_for(skill.manifest(), selected.runtime, &named)?).build();
        let limits = worker::held_by(ctx.worker(), &limits);
        let mut explanation = Explanation {
            skill: skill.qualified(),
            script: selected.path.clone(),
            runtime: selected.runtime,
            project: self.project.clone(),
            isolation: ctx.isolation().name(),
            limits: LimitsReport::new(&limits, None),
            permissions: names(&ctx.permissions().held()),
            functions: reach(&ctx),
            sandbox: None,
            process: None,
            reason: None,
        };
        if self.loaded.is_own(selected.runtime) {
            return Ok(explanation);
        }
        if selected.runtime != SkillRuntime::External {
            explanation.sandbox = Some(SandboxReport::IN_PROCESS);
            return Ok(explanation);
        }
        let script = self.script(skill, &selected)?;
        let input = SkillInput { value: invocation.input.clone(), args: invocation.args.clone() };
        match runtimes::plan(&script, self.loaded.shared(), &input, &ctx) {
            Ok(process) => {
                explanation.sandbox = Some(process.sandbox);
                explanation.process = Some(process);
            }
            Err(reason) => explanation.reason = Some(reason),
        }
        Ok(explanation)
    }
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
