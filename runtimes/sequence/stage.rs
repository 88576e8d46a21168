//! Where steps run here: functions of the host API, tools of the embedder and other skills, all through the run's context.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{Access, SkillContext, function, guarded};
use crate::plan::{Call, Callee, Stage};
use crate::policy::Isolation;

/// This process.
pub(super) struct Local {
    callees: HashMap<String, Callee>,
}

impl Local {
    pub(super) fn new(callees: HashMap<String, Callee>) -> Self {
        Self { callees }
    }
}

impl Stage for Local {
    fn is_quiet(&self, ctx: &SkillContext, call: &Call) -> bool {
        match call {
            Call::Function(name) => function(name).is_some_and(|function| {
                matches!(function.access, Access::Free | Access::Read(_) | Access::ReadRoot)
            }),
            Call::Tool(_) => false,
            Call::Skill(name) => self.callees.get(name).is_some_and(|callee| {
                let handed_on = ctx.permissions().handed_on(ctx.skill(), name, callee.asked.clone());
                // Without a cage a process can do anything, and a plan may come to one.
                let is_held =
                    ctx.isolation() == Isolation::Required || !callee.is_process && callee.calls.is_empty();
                is_held && handed_on.only_reads()
            }),
        }
    }

    /// Reading a secret again reads the same.
    fn is_repeatable(&self, ctx: &SkillContext, call: &Call) -> bool {
        let is_secret =
            |name: &&str| function(name).is_some_and(|known| matches!(known.access, Access::Secret(_)));
        matches!(call, Call::Function(name) if is_secret(name)) || self.is_quiet(ctx, call)
    }

    /// A function is called as a script calls it, permission check and all. A skill is run without `skill:NAME`: the plan names
    /// it in so many words, it was looked at when the plan was loaded, and it may do no more than this run.
    fn call(&self, ctx: &SkillContext, call: &Call, mut arguments: Map<String, Value>) -> Result<Value> {
        match call {
            Call::Function(name) => {
                let unknown =
                    || SkillError::new(ErrorKind::InvalidArgument, format!("ctx has no function `{name}`"));
                let function = function(name).ok_or_else(unknown)?;
                let positional = function
                    .params
                    .iter()
                    .map(|param| arguments.remove(param.name).unwrap_or_default())
                    .collect();
                if let Some(extra) = arguments.keys().next() {
                    let sentence = format!("{}: there is no parameter {extra}", function.signature());
                    return Err(SkillError::new(ErrorKind::InvalidArgument, sentence));
                }
                function.call(ctx, positional)
            }
            Call::Tool(name) => ctx.call("tool", vec![name.as_str().into(), Value::Object(arguments)]),
            Call::Skill(name) => {
                let missing =
                    || SkillError::new(ErrorKind::Unavailable, "this host offers skills no other skills");
                let skills = ctx.providers().skills.as_ref().ok_or_else(missing)?;
                guarded("the provider of skills", ErrorKind::Unavailable, || {
                    skills.run(ctx, name, Value::Object(arguments))
                })
            }
        }
    }
}
