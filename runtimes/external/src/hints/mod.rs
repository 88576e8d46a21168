//! Hints for scripts that failed: what the sandbox knows of the reason, and what the user can do about it. One file for each kind of reason.

pub(super) mod complaint;
pub(super) mod install_command;
pub(super) mod network;
pub(super) mod refused_path;
pub(super) mod repository;
pub(super) mod run_output;
pub(super) mod sandbox_limits;
pub(super) mod script_text;
pub(super) mod user_home;
pub(super) mod variable;
pub(super) mod variable_use;
pub(super) mod words;
