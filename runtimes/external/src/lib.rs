//! Scripts run by their interpreter, as processes.
//!
//! A run detects the interpreter, builds the command and its sandbox policy, runs the process, and evaluates its exit.
//! Only detection works outside of Unix.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(unix)]
mod audience;
#[cfg(unix)]
mod certificates;
#[cfg(unix)]
mod cleanup_threads;
#[cfg(unix)]
mod command;
#[cfg(unix)]
mod compat;
#[cfg(unix)]
mod denial_hints;
#[cfg(unix)]
mod egress;
#[cfg(unix)]
mod embedded_worker;
#[cfg(unix)]
mod environment;
#[cfg(unix)]
mod error_line;
#[cfg(unix)]
mod executor;
#[cfg(unix)]
mod explain;
#[cfg(unix)]
mod git_settings;
#[cfg(unix)]
mod hints;
#[cfg(unix)]
mod home;
#[cfg(unix)]
mod home_files;
#[cfg(unix)]
mod home_guard;
#[cfg(unix)]
mod host_api;
mod interpreter;
mod interpreter_search;
#[cfg(unix)]
mod leftovers;
#[cfg(unix)]
mod limit_errors;
#[cfg(unix)]
mod local_module;
mod missing_package;
#[cfg(unix)]
mod observation;
#[cfg(unix)]
mod outcome;
mod outside_repository;
#[cfg(unix)]
mod packages;
#[cfg(unix)]
mod permission_hint;
#[cfg(unix)]
mod placeholder_variables;
#[cfg(unix)]
mod policy;
#[cfg(unix)]
mod private_home;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod program_settings;
#[cfg(unix)]
mod program_version;
#[cfg(unix)]
mod project_overlay;
mod protected;
#[cfg(unix)]
mod python_imports;
#[cfg(unix)]
mod python_package;
#[cfg(unix)]
mod run_temp_dir;
#[cfg(unix)]
mod script_command;
mod script_file;
#[cfg(unix)]
mod script_guesses;
mod services;
mod shell_text;
#[cfg(unix)]
mod shown_path;
#[cfg(unix)]
mod stdout;
#[cfg(unix)]
mod system_config;
#[cfg(unix)]
mod system_paths;
#[cfg(not(unix))]
mod unsupported;
#[cfg(unix)]
mod user_packages;
mod version;
#[cfg(unix)]
mod version_cache;
#[cfg(unix)]
mod worker;

#[cfg(unix)]
pub use self::embedded_worker::{
    EmbeddedWorkerPool, load as load_embedded_worker, worker_main, worker_sandbox,
};
#[cfg(unix)]
pub use self::executor::load;
#[cfg(unix)]
pub use self::explain::{interpreters, process_plan, sandbox_support};
#[cfg(unix)]
pub use self::host_api::client_main;
pub use self::interpreter::detect::{check_override, interpreter_name, looks_like_script};
pub use self::interpreter::path::{find_trusted, is_on_path};
pub use self::interpreter_search::{InterpreterSearch, LookupCache};
#[cfg(unix)]
pub use self::policy::new_files;
#[cfg(unix)]
pub use self::program_version::program_version;
#[cfg(unix)]
pub use self::project_overlay::ProjectOverlay;
#[cfg(unix)]
pub use self::run_temp_dir::remove_of_killed_host;
pub use self::services::ExternalServices;
pub use self::shell_text::{MisreadText, misread_shell_text};
#[cfg(not(unix))]
pub use self::unsupported::{interpreters, load, process_plan, sandbox_support};
pub use self::version::ProgramVersion;

// They need a sandbox.
#[cfg(test)]
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod tests;

/// Counts what scripts allocate, as in the command.
#[cfg(test)]
#[global_allocator]
static HEAP: metier_core::alloc_counter::CountingAllocator = metier_core::alloc_counter::CountingAllocator;
