//! A Rhai engine: created once from shared modules, with the limits and the scope of each run.

use std::sync::{Arc, LazyLock};

use rhai::packages::{Package, StandardPackage};
use rhai::{AST, Dynamic, Engine, EvalAltResult, OptimizationLevel, Position, Scope, Shared};
use serde_json::Value as Json;

use super::parse::ParsedScript;
use super::stack::{self, Stack};
use crate::error::{Result, SkillError};
use crate::host::SkillContext;
use crate::policy::Limits;
use crate::runtimes::json_boundary::out_of_memory;
use crate::runtimes::rhai::host_api;
use crate::runtimes::rhai::host_api::RunSlot;
use crate::runtimes::rhai::memory_estimator::MemoryEstimator;
use crate::runtimes::rhai::{closure_leaks, failure, from_rhai, to_rhai};

/// An engine and the run that occupies it.
pub(super) struct RhaiEngine {
    engine: Engine,
    slot: Arc<RunSlot>,
    /// The memory estimator, in programs whose allocator does not count.
    estimator: Option<Arc<MemoryEstimator>>,
}

/// The standard library of the language, the same for every engine.
static STANDARD: LazyLock<Shared<rhai::Module>> = LazyLock::new(|| StandardPackage::new().as_shared_module());

/// Keywords that are removed: they run code from text or from other files.
const REMOVED_KEYWORDS: [&str; 3] = ["eval", "import", "export"];

/// The maximum depth of calls (the stack itself is checked as well), and of expressions in the script and in its functions.
const MAX_CALL_LEVELS: usize = 128;
const MAX_EXPR_DEPTHS: (usize, usize) = (64, 32);
/// The maximum number of functions of a script, and of variables in scope at once.
pub(super) const MAX_NAMES: usize = 1024;

/// An engine with the language and nothing else.
pub(super) fn new_engine() -> Engine {
    let mut engine = Engine::new_raw();
    engine.register_global_module(STANDARD.clone());
    for symbol in REMOVED_KEYWORDS {
        engine.disable_symbol(symbol);
    }
    // The optimiser compares each case of a `switch` with all others, without a noticeable gain for a run.
    engine.set_optimization_level(OptimizationLevel::None);
    engine
        .set_max_modules(0)
        .set_max_call_levels(MAX_CALL_LEVELS)
        .set_max_expr_depths(MAX_EXPR_DEPTHS.0, MAX_EXPR_DEPTHS.1)
        .set_max_functions(MAX_NAMES)
        .set_max_variables(MAX_NAMES);
    engine
}

impl RhaiEngine {
    pub(super) fn new() -> Self {
        let slot = Arc::new(RunSlot::default());
        let mut engine = new_engine();
        host_api::install(&mut engine, &slot);
        let told = slot.clone();
        engine.on_progress(move |_| told.must_stop().then_some(Dynamic::UNIT));
        let meter = MemoryEstimator::install(&mut engine);
        Self { engine, slot, estimator: meter }
    }

    /// Runs the script once. A cancelled or timed-out run fails, whatever the script returned.
    pub(super) fn run(
        &mut self,
        program: &ParsedScript,
        input: &Json,
        context: &SkillContext,
    ) -> Result<Json> {
        context.cancel().check()?;
        let limits = context.limits();
        self.engine.set_max_operations(limits.operations.unwrap_or(Limits::OPERATIONS));
        let _occupied = self.slot.occupy(context);
        let slot = self.slot.clone();
        let _guard = context.cancel().on_stop(move |_| slot.stop());
        let memory = limits.memory.unwrap_or(Limits::DEFAULT_MEMORY_IN_PROCESS);
        if let Some(meter) = &self.estimator {
            meter.begin(&mut self.engine, memory);
        }
        let (mut stack, memory) = Stack::for_memory(memory)?;
        let result = stack.run(|| self.run_on_stack(program, input, memory, limits.output));
        if !self.slot.was_deep() {
            stack.checkin();
        }
        context.cancel().check()?;
        result
    }

    /// Values may be nested deeply, so none of them leaves this function.
    fn run_on_stack(&self, program: &ParsedScript, input: &Json, memory: u64, output: u64) -> Result<Json> {
        program.leaks.check(memory)?;
        self.slot.begin(stack::MAX_CALL_BYTES, memory);
        let result = self.evaluate_with_input(&program.ast, input, output).map_err(|ended| match ended {
            RunError::Host(error) => error,
            RunError::Script(thrown) => {
                self.slot.take_error().unwrap_or_else(|| failure::from_rhai(*thrown, &program.file, memory))
            }
        });
        program.leaks.add(self.slot.retained_memory(), result.as_ref().err());
        result
    }

    fn evaluate_with_input(&self, ast: &AST, input: &Json, output: u64) -> Result<Json, RunError> {
        if to_rhai::value_bytes(input) > self.slot.memory_limit() {
            return Err(RunError::Host(out_of_memory(self.slot.memory_limit())));
        }
        let input = to_rhai::value(input).map_err(|fault| RunError::Host(fault.into_error("input")))?;
        let mut scope = Scope::new();
        scope.push_dynamic("input", input);
        let result = self.evaluate(ast, &mut scope, output);
        closure_leaks::release_closures(&scope);
        result
    }

    fn evaluate(&self, ast: &AST, scope: &mut Scope, output: u64) -> Result<Json, RunError> {
        let value: Dynamic = self.engine.eval_ast_with_scope(scope, ast).map_err(RunError::Script)?;
        // The last operation has not been checked yet.
        if self.slot.must_stop() {
            return Err(RunError::Script(EvalAltResult::ErrorTerminated(value, Position::NONE).into()));
        }
        self.slot
            .uncharged(|| from_rhai::value_within(&value, output, &mut self.slot.memory_limit()))
            .map_err(|fault| RunError::Host(fault.into_error("the script's value")))
    }
}

/// Why a run ended without a value.
enum RunError {
    /// In the conversion of its input or output.
    Host(SkillError),
    /// In the script.
    Script(Box<EvalAltResult>),
}
