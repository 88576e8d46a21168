//! The host's side of an engine: `ctx` with every row of the host table, and the log.

use std::sync::{Arc, LazyLock};

use rhai::{Dynamic, Engine, FuncRegistration, Module, Shared};
use serde_json::Value as Json;

use super::failure::HostFailure;
use super::run_slot::{Ctx, RhaiError, RunSlot};
use super::{bounded_std, from_rhai, to_rhai};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{HostFunction, LogLevel, functions};

/// The `vfs` of scripts: `vfs.read` is `ctx.vfs_read`, as the Synwire context API spells it.
#[derive(Clone)]
struct Vfs(Ctx);

/// An object with functions of the host.
trait HostObject: Clone + Send + Sync + 'static {
    fn ctx(&self) -> &Ctx;
}

impl HostObject for Ctx {
    fn ctx(&self) -> &Ctx {
        self
    }
}

impl HostObject for Vfs {
    fn ctx(&self) -> &Ctx {
        &self.0
    }
}

/// The host's functions, the same for every engine.
static HOST_MODULE: LazyLock<Shared<Module>> = LazyLock::new(|| {
    let mut module = Module::new();
    module.set_custom_type::<Ctx>("ctx");
    module.set_custom_type::<Vfs>("vfs");
    for function in functions() {
        for name in std::iter::once(&function.name).chain(function.aliases) {
            register_overloads::<Ctx>(&mut module, name, function);
            if let Some(short) = name.strip_prefix("vfs_") {
                register_overloads::<Vfs>(&mut module, short, function);
            }
        }
    }
    HostFailure::install(&mut module);
    bounded_std::install(&mut module);
    module.into()
});

/// Adds `ctx` to an engine, and a log for its `print` and `debug`.
pub(super) fn install(engine: &mut Engine, slot: &Arc<RunSlot>) {
    let mut own = Module::new();
    own.set_var("ctx", Ctx(slot.clone()));
    own.set_var("vfs", Vfs(Ctx(slot.clone())));
    // Shared, so that a run increments a counter instead of copying it.
    engine.set_default_tag(Dynamic::from(Ctx(slot.clone())).into_shared());
    engine.register_global_module(HOST_MODULE.clone());
    engine.register_global_module(own.into());
    let print_slot = slot.clone();
    engine.on_print(move |text| print_slot.log(LogLevel::Info, text));
    let debug_slot = slot.clone();
    engine.on_debug(move |text, _, _| debug_slot.log(LogLevel::Debug, text));
}

/// Rhai picks by the number of arguments, so each optional parameter is one more overload. There is also an overload with one
/// argument too many, so that the host's own error message explains the mistake.
fn register_overloads<T: HostObject>(
    module: &mut Module,
    name: &'static str,
    function: &'static HostFunction,
) {
    type D = Dynamic;
    let f = function;
    let named = || FuncRegistration::new(name).in_global_namespace().with_purity(true).with_volatility(true);
    named().set_into_module(module, |object: &mut T| object.ctx().call(f, &[]));
    for count in 1..=function.params.len() + 1 {
        match count {
            1 => named().set_into_module(module, |object: &mut T, a: D| object.ctx().call(f, &[a])),
            2 => named().set_into_module(module, |object: &mut T, a: D, b: D| object.ctx().call(f, &[a, b])),
            3 => named()
                .set_into_module(module, |object: &mut T, a: D, b: D, c: D| object.ctx().call(f, &[a, b, c])),
            4 => named().set_into_module(module, |object: &mut T, a: D, b: D, c: D, d: D| {
                object.ctx().call(f, &[a, b, c, d])
            }),
            _ => named().set_into_module(module, |object: &mut T, a: D, b: D, c: D, d: D, e: D| {
                object.ctx().call(f, &[a, b, c, d, e])
            }),
        };
    }
}

impl Ctx {
    fn call(&self, function: &HostFunction, arguments: &[Dynamic]) -> Result<Dynamic, RhaiError> {
        self.call_charged(function, arguments)
            .map_err(|error| HostFailure::from(error).into_rhai_error().into())
    }

    fn call_charged(&self, function: &HostFunction, arguments: &[Dynamic]) -> Result<Dynamic> {
        let slot = &self.0;
        let result = slot.uncharged(|| self.call_host_function(function, arguments))?;
        let value = to_rhai::value(&result, &mut slot.remaining_memory()).map_err(|error| {
            let error = error.into_error("the answer");
            if error.kind() == ErrorKind::Memory { slot.stop_out_of_memory() } else { error }
        });
        slot.uncharged(|| drop(result));
        value
    }

    fn call_host_function(&self, function: &HostFunction, arguments: &[Dynamic]) -> Result<Json> {
        let context = self.0.context()?;
        let mut left = self.0.remaining_memory();
        let mut converted = Vec::with_capacity(arguments.len());
        for (position, value) in arguments.iter().enumerate() {
            converted.push(from_rhai::value_within(value, context.limits().output, &mut left).map_err(
                |error| {
                    let name = function.params.get(position).map_or("an argument", |param| param.name);
                    let error = error.into_error(name);
                    SkillError::new(ErrorKind::InvalidArgument, format!("{}: {error}", function.signature()))
                },
            )?);
        }
        function.call(&context, converted)
    }
}
