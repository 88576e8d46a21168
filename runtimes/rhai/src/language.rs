//! The language, without anything of the host: what the parser and the engines share.

use std::sync::LazyLock;

use rhai::packages::{Package, StandardPackage};
use rhai::{Engine, OptimizationLevel, Shared};

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
