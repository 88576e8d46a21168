//! One Rhai engine: made once from shared modules, given the limits and the scope of each run.

use std::sync::{Arc, LazyLock};

use rhai::packages::{Package, StandardPackage};
use rhai::{AST, Dynamic, Engine, EvalAltResult, OptimizationLevel, Position, Scope, Shared};
use serde_json::Value as Json;

use super::super::border::out_of_memory;
use super::host::{self, Slot};
use super::meter::Meter;
use super::parse::Parsed;
use super::stack::{self, Stack};
use super::{failure, from_rhai, leaks, to_rhai};
use crate::error::{Result, SkillError};
use crate::host::SkillContext;
use crate::policy::Limits;

/// An engine and the run that occupies it.
pub(super) struct Machine {
    engine: Engine,
    slot: Arc<Slot>,
    /// Where no allocator counts.
    meter: Option<Arc<Meter>>,
}

/// The standard library of the language, the same for every engine.
static STANDARD: LazyLock<Shared<rhai::Module>> = LazyLock::new(|| StandardPackage::new().as_shared_module());

/// What is no part of the language here: code from text or from elsewhere.
const REMOVED: [&str; 3] = ["eval", "import", "export"];

/// Calls within calls (the stack itself is watched as well), and nesting of expressions in the script and in its functions.
const CALLS: usize = 128;
const NESTING: (usize, usize) = (64, 32);
/// Functions of a script, and variables in sight at once.
pub(super) const NAMES: usize = 1024;

/// An engine with the language in it and nothing else.
pub(super) fn bare() -> Engine {
    let mut engine = Engine::new_raw();
    engine.register_global_module(STANDARD.clone());
    for symbol in REMOVED {
        engine.disable_symbol(symbol);
    }
    // The optimiser compares each case of a `switch` with all others, and gains nothing that a run would notice.
    engine.set_optimization_level(OptimizationLevel::None);
    engine
        .set_max_modules(0)
        .set_max_call_levels(CALLS)
        .set_max_expr_depths(NESTING.0, NESTING.1)
        .set_max_functions(NAMES)
        .set_max_variables(NAMES);
    engine
}

impl Machine {
    pub(super) fn new() -> Self {
        let slot = Arc::new(Slot::default());
        let mut engine = bare();
        host::install(&mut engine, &slot);
        let told = slot.clone();
        engine.on_progress(move |_| told.must_stop().then_some(Dynamic::UNIT));
        let meter = Meter::install(&mut engine);
        Self { engine, slot, meter }
    }

    /// Runs the script once. Whatever it answers, the token that stopped it has the last word.
    pub(super) fn run(&mut self, program: &Parsed, input: &Json, context: &SkillContext) -> Result<Json> {
        context.cancel().check()?;
        let limits = context.limits();
        self.engine.set_max_operations(limits.operations.unwrap_or(Limits::OPERATIONS));
        let _occupied = self.slot.occupy(context);
        let slot = self.slot.clone();
        let _guard = context.cancel().on_stop(move |_| slot.stop());
        let memory = limits.memory.unwrap_or(Limits::MEMORY_IN_PROCESS);
        if let Some(meter) = &self.meter {
            meter.begin(&mut self.engine, memory);
        }
        let (mut stack, memory) = Stack::for_memory(memory)?;
        let result = stack.run(|| self.called(program, input, memory, limits.output));
        if !self.slot.was_deep() {
            stack.keep();
        }
        context.cancel().check()?;
        result
    }

    /// Values may be nested deep, so none of them leaves this.
    fn called(&self, program: &Parsed, input: &Json, memory: u64, output: u64) -> Result<Json> {
        program.leaks.check(memory)?;
        self.slot.begin(stack::CALLS, memory);
        let result = self.call(&program.ast, input, output).map_err(|ended| match ended {
            Ended::Before(error) => error,
            Ended::Thrown(thrown) => {
                self.slot.take_ended().unwrap_or_else(|| failure::from_rhai(*thrown, &program.file, memory))
            }
        });
        program.leaks.add(self.slot.kept(), result.as_ref().err());
        result
    }

    fn call(&self, ast: &AST, input: &Json, output: u64) -> Result<Json, Ended> {
        if to_rhai::weight(input) > self.slot.limit() {
            return Err(Ended::Before(out_of_memory(self.slot.limit())));
        }
        let input = to_rhai::value(input).map_err(|fault| Ended::Before(fault.into_error("input")))?;
        let mut scope = Scope::new();
        scope.push_dynamic("input", input);
        let result = self.evaluated(ast, &mut scope, output);
        leaks::release(&scope);
        result
    }

    fn evaluated(&self, ast: &AST, scope: &mut Scope, output: u64) -> Result<Json, Ended> {
        let value: Dynamic = self.engine.eval_ast_with_scope(scope, ast).map_err(Ended::Thrown)?;
        // Nobody has looked yet at what the last operation did.
        if self.slot.must_stop() {
            return Err(Ended::Thrown(EvalAltResult::ErrorTerminated(value, Position::NONE).into()));
        }
        self.slot
            .aside(|| from_rhai::within(&value, output, &mut self.slot.limit()))
            .map_err(|fault| Ended::Before(fault.into_error("the script's value")))
    }
}

/// How a run ended without a value.
enum Ended {
    /// On its way in or out.
    Before(SkillError),
    /// In the script.
    Thrown(Box<EvalAltResult>),
}
