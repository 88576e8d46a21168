//! Processes: how one is started, fed, read, stopped and reaped.

mod exit_fd;
pub(super) mod host_api_thread;
pub(super) mod launch;
pub(super) mod pipes;
mod process_group;
pub(super) mod process_tree;
pub(super) mod run;
mod sandboxed;
pub(super) mod setup_error;
pub(super) mod stdio_loop;
pub(super) mod streamed;
pub(super) mod supervisor_lost;
