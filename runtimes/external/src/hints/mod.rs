//! Hints for scripts that failed: what they may have met, and what the user can do about it. One file for each kind of failure.

pub(super) mod created_folder;
pub(super) mod database;
pub(super) mod denied_file;
pub(super) mod failed_write;
pub(super) mod file_change;
pub(super) mod git_change;
pub(super) mod hidden_file;
pub(super) mod home_path;
pub(super) mod install_command;
pub(super) mod missing_file;
pub(super) mod missing_variable;
pub(super) mod network;
pub(super) mod permission_hint;
pub(super) mod repository;
pub(super) mod run_output;
pub(super) mod script_text;
pub(super) mod shown_path;
pub(super) mod silent_program;
pub(super) mod user_home;
pub(super) mod variable;
pub(super) mod variable_use;
pub(super) mod words;
