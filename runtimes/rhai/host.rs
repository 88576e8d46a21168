//! The host's side of an engine: `ctx` with every row of the host table, the log, and the run they are called for.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rhai::{Dynamic, Engine, EvalAltResult, FuncRegistration, Module, Position, Shared};

use super::failure::HostFailure;
use super::{from_rhai, growth, to_rhai};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{HostFunction, LogLevel, SkillContext, functions};

/// The run that occupies an engine.
#[derive(Default)]
pub(super) struct Slot {
    /// Set when the run must stop; the engine asks at every operation.
    stop: AtomicBool,
    /// Where the stack stood when the run began.
    stack: AtomicUsize,
    run: Mutex<Run>,
}

#[derive(Default)]
struct Run {
    context: Option<SkillContext>,
    ended: Option<SkillError>,
}

/// `ctx` as scripts hold it. It stands for whatever run occupies the engine, so a copy is worth nothing afterwards.
#[derive(Clone)]
struct Ctx(Arc<Slot>);

/// Bytes of stack a script's calls may take; a thread has 2 MiB as a rule. Rhai counts calls only, whatever each costs.
const STACK: usize = 1 << 20;

type Thrown = Box<EvalAltResult>;

/// The host's functions, the same for every engine.
static HOST: LazyLock<Shared<Module>> = LazyLock::new(|| {
    let mut module = Module::new();
    module.set_custom_type::<Ctx>("ctx");
    for function in functions() {
        for name in std::iter::once(&function.name).chain(function.aliases) {
            register(&mut module, name, function);
        }
    }
    HostFailure::install(&mut module);
    growth::install(&mut module);
    remove_sleep(&mut module);
    module.into()
});

/// Gives an engine `ctx`, and its `print` and `debug` a log to write to.
pub(super) fn install(engine: &mut Engine, slot: &Arc<Slot>) {
    let mut own = Module::new();
    own.set_var("ctx", Ctx(slot.clone()));
    engine.register_global_module(HOST.clone());
    engine.register_global_module(own.into());
    let said = slot.clone();
    engine.on_print(move |text| said.log(LogLevel::Info, text));
    let said = slot.clone();
    engine.on_debug(move |text, _, _| said.log(LogLevel::Debug, text));
}

/// Rhai picks by the number of arguments, so each optional parameter is one more overload. One more than a function takes
/// reaches it as well, so that the host's own sentence says what is wrong.
fn register(module: &mut Module, name: &'static str, function: &'static HostFunction) {
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
    fn gone<T>(kind: &'static str) -> impl Fn(T) -> Result<Dynamic, Thrown> {
        move |_| Err(EvalAltResult::ErrorFunctionNotFound(format!("sleep ({kind})"), Position::NONE).into())
    }
    module.set_native_fn("sleep", gone::<i64>("i64"));
    module.set_native_fn("sleep", gone::<f64>("f64"));
}

impl Ctx {
    fn call(&self, function: &HostFunction, arguments: &[Dynamic]) -> Result<Dynamic, Thrown> {
        self.called(function, arguments).map_err(|error| HostFailure::from(error).thrown().into())
    }

    fn called(&self, function: &HostFunction, given: &[Dynamic]) -> Result<Dynamic> {
        let context = self.0.context()?;
        let mut arguments = Vec::with_capacity(given.len());
        for (position, value) in given.iter().enumerate() {
            arguments.push(from_rhai::value(value, context.limits().output).map_err(|fault| {
                let name = function.params.get(position).map_or("an argument", |param| param.name);
                let error = fault.into_error(name);
                SkillError::new(ErrorKind::InvalidArgument, format!("{}: {error}", function.signature()))
            })?);
        }
        let answer = function.call(&context, arguments)?;
        to_rhai::value(&answer).map_err(|fault| fault.into_error("the answer"))
    }
}

impl Slot {
    /// The engine belongs to this run until the guard is dropped.
    pub(super) fn occupy(self: &Arc<Self>, context: &SkillContext) -> Occupied {
        self.stop.store(false, Ordering::Relaxed);
        self.stack.store(stack_address(), Ordering::Relaxed);
        *self.locked() = Run { context: Some(context.clone()), ended: None };
        Occupied(self.clone())
    }

    /// Whether the run must stop now. Asked at every operation, so it is two loads and a subtraction.
    pub(super) fn must_stop(&self) -> bool {
        if self.stack.load(Ordering::Relaxed).abs_diff(stack_address()) > STACK {
            self.end(SkillError::new(ErrorKind::Script, "the script's calls are nested too deep"));
        }
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Stops the run with this error.
    pub(super) fn end(&self, error: SkillError) {
        self.locked().ended.get_or_insert(error);
        self.stop();
    }

    pub(super) fn take_ended(&self) -> Option<SkillError> {
        self.locked().ended.take()
    }

    /// `print` cannot fail in Rhai; a full log ends the run instead.
    fn log(&self, level: LogLevel, text: &str) {
        if let Err(error) = self.context().and_then(|context| context.log(level, text)) {
            self.end(error);
        }
    }

    fn context(&self) -> Result<SkillContext> {
        self.locked()
            .context
            .clone()
            .ok_or_else(|| SkillError::new(ErrorKind::Unavailable, "no run is under way"))
    }

    fn locked(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Occupied(Arc<Slot>);

impl Drop for Occupied {
    fn drop(&mut self) {
        *self.0.locked() = Run::default();
    }
}

/// An address in the frame of whoever calls this.
#[inline]
fn stack_address() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}
