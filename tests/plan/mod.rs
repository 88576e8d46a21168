//! What plans promise: checked before the first step, run in order, narrowed, stopped, taken up again.

mod failing;
mod functions;
mod hostile;
mod journals;
mod loading;
mod narrowing;
mod project;
mod resumed_access;
mod resuming;
mod side_by_side;
mod threads;
mod values;
