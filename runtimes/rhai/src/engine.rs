//! A Rhai engine: created once from shared modules, with the limits and the scope of each run. A script is parsed once, and runs on
//! a few engines that are kept for reuse.

use std::sync::Arc;

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::json_boundary::out_of_memory;
use metier_core::executor::pool::{PooledExecutor, Program};
use metier_core::executor::{Script, SkillExecutor};
use metier_core::host::SkillContext;
use metier_core::policy::{CancelToken, Limits};
use rhai::{AST, CallFnOptions, Dynamic, Engine, EvalAltResult, Position, Scope};
use serde_json::Value as Json;

use super::memory_estimator::MemoryEstimator;
use super::parse::{ParsedScript, new_engine, parse};
use super::run_slot::RunSlot;
use super::stack::{self, Stack};
use super::{closure_leaks, failure, from_rhai, host_api, to_rhai};

/// An engine and the run that occupies it.
pub(super) struct RhaiEngine {
    engine: Engine,
    slot: Arc<RunSlot>,
    /// The memory estimator, in programs whose allocator does not count.
    estimator: Option<Arc<MemoryEstimator>>,
}

impl RhaiEngine {
    pub(super) fn new() -> Self {
        let slot = Arc::new(RunSlot::default());
        let mut engine = new_engine();
        host_api::install(&mut engine, &slot);
        let estimator = MemoryEstimator::install(&mut engine);
        Self { engine, slot, estimator }
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
        let memory = limits.memory.unwrap_or(Limits::DEFAULT_MEMORY_IN_PROCESS);
        let (mut stack, stack_memory) = Stack::for_memory(memory)?;
        let _occupied = self.slot.occupy(context);
        let (slot, token) = (self.slot.clone(), context.cancel().clone());
        let must_stop = move || slot.must_stop() || token.cause().is_some();
        self.engine.on_progress(move |_| must_stop().then_some(Dynamic::UNIT));
        if let Some(estimator) = &self.estimator {
            estimator.begin(&mut self.engine, memory);
        }
        let result = stack.run(|| self.run_on_stack(program, input, stack_memory, limits.output));
        if !self.slot.was_deep() {
            stack.checkin();
        }
        // An idle engine holds no token.
        self.engine.on_progress(|_| None);
        context.cancel().check().map_err(|stopped| {
            match result.as_ref().err().and_then(SkillError::location) {
                Some(place) => stopped.with_location(place.clone()),
                None => stopped,
            }
        })?;
        result
    }

    /// Values may be nested deeply, so none of them leaves this function.
    fn run_on_stack(&self, program: &ParsedScript, input: &Json, memory: u64, output: u64) -> Result<Json> {
        program.leaks.check(memory)?;
        self.slot.begin(stack::MAX_CALL_BYTES, memory);
        let result = self.evaluate_with_input(program, input, output).map_err(|error| match error {
            RunError::Host(error) => error,
            RunError::Script(thrown) => {
                self.slot.take_error().unwrap_or_else(|| failure::from_rhai(*thrown, &program.file, memory))
            }
        });
        program.leaks.add(self.slot.retained_memory(), result.as_ref().err());
        result
    }

    fn evaluate_with_input(
        &self,
        program: &ParsedScript,
        input: &Json,
        output: u64,
    ) -> Result<Json, RunError> {
        let limit = self.slot.memory_limit();
        let input = to_rhai::value(input, &mut limit.clone()).map_err(|error| {
            let error = error.into_error("input");
            RunError::Host(if error.kind() == ErrorKind::Memory { out_of_memory(limit) } else { error })
        })?;
        let mut scope = Scope::new();
        let argument = program.function.as_ref().map(|name| (name.as_str(), input.clone()));
        scope.push_dynamic("input", input);
        let result = self.evaluate(&program.ast, argument, &mut scope, output);
        closure_leaks::release_closures(&scope);
        result
    }

    /// Runs the script, and then the function of that name with this argument.
    fn evaluate(
        &self,
        ast: &AST,
        function: Option<(&str, Dynamic)>,
        scope: &mut Scope,
        output: u64,
    ) -> Result<Json, RunError> {
        let value: Dynamic = match function {
            None => self.engine.eval_ast_with_scope(scope, ast),
            Some((name, argument)) => self.engine.call_fn_with_options(
                CallFnOptions::new().rewind_scope(false),
                scope,
                ast,
                name,
                (argument,),
            ),
        }
        .map_err(RunError::Script)?;
        // The last operation has not been checked yet. Whether the run was cancelled is checked when it has left its stack.
        if self.slot.must_stop() {
            return Err(RunError::Script(EvalAltResult::ErrorTerminated(value, Position::NONE).into()));
        }
        self.slot
            .uncharged(|| from_rhai::value_within(&value, output, &mut self.slot.memory_limit()))
            .map_err(|error| RunError::Host(error.into_error("the script's value")))
    }
}

/// Why a run error without a value.
enum RunError {
    /// In the conversion of its input or output.
    Host(SkillError),
    /// In the script.
    Script(Box<EvalAltResult>),
}

/// Parses a Rhai script; a syntax error is `invalid-skill` with its file, line and column.
pub fn load(script: &Script, cancel: &CancelToken) -> Result<Box<dyn SkillExecutor>> {
    Ok(Box::new(PooledExecutor::new(&script.skill, parse(script, cancel)?)))
}

impl Program for ParsedScript {
    type State = RhaiEngine;

    fn new_state(&self, _: &SkillContext) -> Result<RhaiEngine> {
        Ok(RhaiEngine::new())
    }

    fn run(&self, engine: &mut RhaiEngine, input: &Json, context: &SkillContext) -> Result<Json> {
        engine.run(self, input, context)
    }
}
