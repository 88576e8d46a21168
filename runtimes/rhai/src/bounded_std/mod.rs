//! Functions of Rhai's standard library, replaced so that each respects the memory limit of the run and ends soon after the run
//! must stop. They have the same names and results as the library's own, which has no encodings.

mod allocation;
mod display;
mod encodings;
mod json;
mod sleep;
mod sorting;
mod strings;

use rhai::Module;

/// Registers the functions.
pub(super) fn install(module: &mut Module) {
    allocation::install(module);
    encodings::install(module);
    json::install(module);
    strings::install(module);
    sorting::install(module);
    display::install(module);
    sleep::remove(module);
}
