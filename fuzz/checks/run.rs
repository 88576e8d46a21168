//! Plans run for their references and conditions: every call answers with what it was given.

use std::sync::OnceLock;

use metier::error::Result;
use metier::host::SkillContext;
use metier::plan::Plan;
use metier::policy::Limits;
use metier_core::policy::Watchdog;
use metier_plan::{CallTarget, PlanRunner, StepBackend, plan_steps};
use serde_json::{Map, Value, json};

struct Echo;

impl StepBackend for Echo {
    fn is_read_only(&self, _ctx: &SkillContext, _call: &CallTarget) -> bool {
        false
    }

    fn call(&self, _ctx: &SkillContext, _call: &CallTarget, arguments: Map<String, Value>) -> Result<Value> {
        Ok(Value::Object(arguments))
    }
}

/// Whether a plan waits for nobody and is soon at its end.
pub fn is_brief(plan: &Plan) -> bool {
    plan_steps(plan).len() <= 64 && plan_steps(plan).iter().all(|step| step.timeout.is_none())
}

/// The value of a plan, or nothing where it failed, which it does in a sentence.
pub fn run(plan: &Plan) -> Option<Value> {
    static CLOCK: OnceLock<Watchdog> = OnceLock::new();
    let inputs =
        json!({"a": "x", "x": 1, "go": true, "l": [1, {"n": "é"}, null], "a b": {"c": [[2]]}, "chart": "c"});
    let limits = Limits::default().memory(1 << 20).output(1 << 16);
    let ctx = SkillContext::builder("x").limits(limits).build();
    let watchdog = CLOCK.get_or_init(Watchdog::default);
    let drive = PlanRunner { plan, input_schema: None, ctx: &ctx, backend: &Echo, journal: None, watchdog };
    match drive.run(&inputs) {
        Ok(value) => Some(value),
        Err(error) => {
            assert!(!error.message().is_empty() && !error.message().contains("panicked"), "{error}");
            None
        }
    }
}
