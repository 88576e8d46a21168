//! What plans promise: checked before the first step, run in order, narrowed, stopped, taken up again.
#![cfg(all(unix, feature = "lua-runtime"))]
#![allow(missing_docs)]

mod failing;
mod functions;
mod hostile;
mod journals;
mod loading;
#[path = "../support/many_names.rs"]
mod many_names;
mod narrowing;
mod project;
mod resumed_access;
mod resuming;
mod side_by_side;
mod threads;
mod values;
