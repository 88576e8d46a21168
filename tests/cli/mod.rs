//! What the command line promises, from outside: arguments in; standard output, standard error and an exit code out.

mod address_space;
mod api;
mod availability;
mod builtin_plans;
mod changes;
mod config_args;
mod diff;
mod doctor;
mod drop_ins;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod environment;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod explain;
mod export;
mod failures;
mod input;
mod listing;
mod locking;
mod options;
mod outcome;
mod path;
mod pending;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod plan_reviews;
mod plans;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod previews;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod python_packages;
mod questions;
mod running;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod sandbox;
mod sanitizer;
mod stopping;
mod streams;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod streams_through;
mod terminal;
mod testing;
mod tools;
mod trust;
mod untrusted;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod watched;
