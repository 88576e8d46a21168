//! The host's side of an engine: `ctx` with every row of the host table, the log, and the run that they are called for.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rhai::{Dynamic, Engine, EvalAltResult, FuncRegistration, Module, NativeCallContext, Position, Shared};
use serde_json::Value as Json;

use super::failure::HostFailure;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{HostFunction, LogLevel, SkillContext, functions};
use crate::runtimes::json_boundary::out_of_memory;
use crate::runtimes::rhai::heap_budget::HeapBudget;
use crate::runtimes::rhai::{bounded_std, display, from_rhai, json, sorting, stack, strings, to_rhai};

/// The run that occupies an engine.
#[derive(Default)]
pub(super) struct RunSlot {
    /// Set when the run must stop; the engine checks it at every operation.
    is_stopped: AtomicBool,
    /// The stack address at which calls are checked, and the one beyond which they fail.
    stack_check_address: AtomicUsize,
    stack_end_address: AtomicUsize,
    /// Whether calls used more stack than those of a shallow run.
    is_deep: AtomicBool,
    budget: HeapBudget,
    run: Mutex<ActiveRun>,
}

#[derive(Default)]
struct ActiveRun {
    context: Option<SkillContext>,
    error: Option<SkillError>,
}

/// The `ctx` of scripts. It refers to the run that occupies the engine, so a copy is useless afterwards.
#[derive(Clone)]
pub(super) struct Ctx(Arc<RunSlot>);

type RhaiError = Box<EvalAltResult>;

/// The host's functions, the same for every engine.
static HOST_MODULE: LazyLock<Shared<Module>> = LazyLock::new(|| {
    let mut module = Module::new();
    module.set_custom_type::<Ctx>("ctx");
    for function in functions() {
        for name in std::iter::once(&function.name).chain(function.aliases) {
            register_overloads(&mut module, name, function);
        }
    }
    HostFailure::install(&mut module);
    bounded_std::install(&mut module);
    json::install(&mut module);
    strings::install(&mut module);
    sorting::install(&mut module);
    display::install(&mut module);
    remove_sleep(&mut module);
    module.into()
});

/// Adds `ctx` to an engine, and a log for its `print` and `debug`.
pub(super) fn install(engine: &mut Engine, slot: &Arc<RunSlot>) {
    let mut own = Module::new();
    own.set_var("ctx", Ctx(slot.clone()));
    // Shared, so that a run increments a counter instead of copying it.
    engine.set_default_tag(Dynamic::from(Ctx(slot.clone())).into_shared());
    engine.register_global_module(HOST_MODULE.clone());
    engine.register_global_module(own.into());
    let said = slot.clone();
    engine.on_print(move |text| said.log(LogLevel::Info, text));
    let said = slot.clone();
    engine.on_debug(move |text, _, _| said.log(LogLevel::Debug, text));
}

/// Rhai picks by the number of arguments, so each optional parameter is one more overload. There is also an overload with one
/// argument too many, so that the host's own error message explains the mistake.
fn register_overloads(module: &mut Module, name: &'static str, function: &'static HostFunction) {
    type D = Dynamic;
    let f = function;
    let named = || FuncRegistration::new(name).in_global_namespace().with_purity(true).with_volatility(true);
    named().set_into_module(module, |ctx: &mut Ctx| ctx.call(f, &[]));
    for count in 1..=function.params.len() + 1 {
        match count {
            1 => named().set_into_module(module, |ctx: &mut Ctx, a: D| ctx.call(f, &[a])),
            2 => named().set_into_module(module, |ctx: &mut Ctx, a: D, b: D| ctx.call(f, &[a, b])),
            3 => named().set_into_module(module, |ctx: &mut Ctx, a: D, b: D, c: D| ctx.call(f, &[a, b, c])),
            4 => named()
                .set_into_module(module, |ctx: &mut Ctx, a: D, b: D, c: D, d: D| ctx.call(f, &[a, b, c, d])),
            _ => named().set_into_module(module, |ctx: &mut Ctx, a: D, b: D, c: D, d: D, e: D| {
                ctx.call(f, &[a, b, c, d, e])
            }),
        };
    }
}

/// `sleep` would hold the run past its deadline: nothing can wake it.
fn remove_sleep(module: &mut Module) {
    fn gone<T>(kind: &'static str) -> impl Fn(T) -> Result<Dynamic, RhaiError> {
        move |_| Err(EvalAltResult::ErrorFunctionNotFound(format!("sleep ({kind})"), Position::NONE).into())
    }
    module.set_native_fn("sleep", gone::<i64>("i64"));
    module.set_native_fn("sleep", gone::<f64>("f64"));
}

/// Ends the run that called a library function because it exceeded its memory limit.
pub(super) fn end_out_of_memory(call: &NativeCallContext) {
    if let Some(ctx) = call.tag().and_then(Dynamic::read_lock::<Ctx>) {
        ctx.0.stop_with(out_of_memory(ctx.0.budget.limit()));
    }
}

impl Ctx {
    /// Whether the run must end.
    pub(super) fn must_stop(&self) -> bool {
        self.0.must_stop()
    }

    /// The bytes the run may still allocate.
    pub(super) fn remaining_memory(&self) -> u64 {
        self.0.budget.remaining()
    }

    fn call(&self, function: &HostFunction, arguments: &[Dynamic]) -> Result<Dynamic, RhaiError> {
        self.call_charged(function, arguments)
            .map_err(|error| HostFailure::from(error).into_rhai_error().into())
    }

    fn call_charged(&self, function: &HostFunction, given: &[Dynamic]) -> Result<Dynamic> {
        let budget = &self.0.budget;
        let answer = budget.uncharged(|| self.call_host_function(function, given))?;
        let value = if to_rhai::value_bytes(&answer) > budget.remaining() {
            let error = out_of_memory(budget.limit());
            self.0.stop_with(error.clone());
            Err(error)
        } else {
            to_rhai::value(&answer).map_err(|fault| fault.into_error("the answer"))
        };
        budget.uncharged(|| drop(answer));
        value
    }

    fn call_host_function(&self, function: &HostFunction, given: &[Dynamic]) -> Result<Json> {
        let context = self.0.context()?;
        let mut left = self.0.budget.remaining();
        let mut arguments = Vec::with_capacity(given.len());
        for (position, value) in given.iter().enumerate() {
            arguments.push(from_rhai::value_within(value, context.limits().output, &mut left).map_err(
                |fault| {
                    let name = function.params.get(position).map_or("an argument", |param| param.name);
                    let error = fault.into_error(name);
                    SkillError::new(ErrorKind::InvalidArgument, format!("{}: {error}", function.signature()))
                },
            )?);
        }
        function.call(&context, arguments)
    }
}

impl RunSlot {
    /// The engine belongs to this run until the guard is dropped.
    pub(super) fn occupy(self: &Arc<Self>, context: &SkillContext) -> SlotGuard {
        self.is_stopped.store(false, Ordering::Relaxed);
        *self.lock() = ActiveRun { context: Some(context.clone()), error: None };
        SlotGuard(self.clone())
    }

    /// Begins the run at this place of the stack, with limits in bytes for the stack of its calls and for the script's
    /// memory.
    pub(super) fn begin(&self, calls: usize, memory: u64) {
        let here = stack::stack_address();
        self.stack_end_address.store(here.saturating_sub(calls), Ordering::Relaxed);
        self.stack_check_address
            .store(here.saturating_sub(stack::SHALLOW_BYTES.min(calls)), Ordering::Relaxed);
        self.is_deep.store(false, Ordering::Relaxed);
        self.budget.begin(memory);
    }

    /// Whether the run may have used much of its stack.
    pub(super) fn was_deep(&self) -> bool {
        self.is_deep.load(Ordering::Relaxed) || self.budget.was_large()
    }

    /// Whether the run must stop now. Called at every operation, so it is only a few loads and subtractions.
    #[inline]
    pub(super) fn must_stop(&self) -> bool {
        if self.budget.needs_check() && self.budget.is_exceeded() {
            self.stop_with(out_of_memory(self.budget.limit()));
        }
        if stack::stack_address() < self.stack_check_address.load(Ordering::Relaxed) {
            self.check_stack();
        }
        self.is_stopped.load(Ordering::Relaxed)
    }

    #[cold]
    fn check_stack(&self) {
        let end = self.stack_end_address.load(Ordering::Relaxed);
        self.is_deep.store(true, Ordering::Relaxed);
        self.stack_check_address.store(end, Ordering::Relaxed);
        if stack::stack_address() < end {
            self.stop_with(SkillError::new(ErrorKind::Script, "the script's calls are nested too deep"));
        }
    }

    /// The bytes that the run has allocated and not freed.
    pub(super) fn retained_memory(&self) -> i64 {
        self.budget.retained()
    }

    /// The memory limit of the run in bytes.
    pub(super) fn memory_limit(&self) -> u64 {
        self.budget.limit()
    }

    /// Runs work of the host that is not charged to the script.
    pub(super) fn uncharged<T>(&self, work: impl FnOnce() -> T) -> T {
        self.budget.uncharged(work)
    }

    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Stops the run with this error.
    pub(super) fn stop_with(&self, error: SkillError) {
        self.lock().error.get_or_insert(error);
        self.stop();
    }

    pub(super) fn take_error(&self) -> Option<SkillError> {
        self.lock().error.take()
    }

    /// `print` cannot fail in Rhai; a full log ends the run instead.
    fn log(&self, level: LogLevel, text: &str) {
        if let Err(error) = self.budget.uncharged(|| self.context()?.log(level, text)) {
            self.stop_with(error);
        }
    }

    fn context(&self) -> Result<SkillContext> {
        self.lock()
            .context
            .clone()
            .ok_or_else(|| SkillError::new(ErrorKind::Unavailable, "no run is under way"))
    }

    fn lock(&self) -> MutexGuard<'_, ActiveRun> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct SlotGuard(Arc<RunSlot>);

impl Drop for SlotGuard {
    fn drop(&mut self) {
        *self.0.lock() = ActiveRun::default();
    }
}
