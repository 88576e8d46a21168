//! Removes `sleep`, which would hold a run past its deadline: nothing can wake it.

use rhai::{Dynamic, EvalAltResult, Module, Position};

use crate::run_limits::RhaiError;

/// Replaces the functions by ones that are not found.
pub(super) fn remove(module: &mut Module) {
    fn not_found<T>(argument: &'static str) -> impl Fn(T) -> Result<Dynamic, RhaiError> {
        move |_| {
            let name = format!("sleep ({argument})");
            Err(EvalAltResult::ErrorFunctionNotFound(name, Position::NONE).into())
        }
    }
    module.set_native_fn("sleep", not_found::<i64>("i64"));
    module.set_native_fn("sleep", not_found::<f64>("f64"));
}
