//! Functions of Rhai's standard library, replaced so that each respects the memory limit of the run and ends soon after the run
//! must stop. They have the same names and results as the library's own, which has no encodings.

mod allocation;
mod display;
mod json;
mod sorting;
mod strings;

use rhai::{Dynamic, EvalAltResult, Module, Position};

use crate::run_slot::RhaiError;

/// Registers the functions.
pub(super) fn install(module: &mut Module) {
    allocation::install(module);
    strings::install_encodings(module);
    json::install(module);
    strings::install(module);
    sorting::install(module);
    display::install(module);
    remove(module);
}

/// Replaces the functions by ones that are not found.
fn remove(module: &mut Module) {
    fn not_found<T>(argument: &'static str) -> impl Fn(T) -> Result<Dynamic, RhaiError> {
        move |_| {
            let name = format!("sleep ({argument})");
            Err(EvalAltResult::ErrorFunctionNotFound(name, Position::NONE).into())
        }
    }
    module.set_native_fn("sleep", not_found::<i64>("i64"));
    module.set_native_fn("sleep", not_found::<f64>("f64"));
}
