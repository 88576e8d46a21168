//! The policy of a run: permissions, limits, sandbox requirements and the token that stops the run.

mod approvals;
mod argument_pattern;
mod autorun;
mod budgets;
mod cancel;
mod config_field;
mod execution_mode;
mod grant;
#[cfg_attr(not(unix), allow(dead_code, reason = "only processes change files of the home"))]
mod home_protection;
mod limits;
mod output_policy;
mod path_protection;
mod permission;
mod permission_words;
mod permissions;
mod requester;
mod sandbox_mode;
mod script_header;
mod skill_digest;
mod timestamp;
mod tool;
mod tool_filter;
pub mod units;
mod variable_name;
mod watchdog;
mod worker_options;

pub use self::approvals::{Answer, Approval, Approvals, RunArguments};
pub use self::argument_pattern::{ArgumentPattern, plain_json};
pub use self::budgets::{MemoryBudget, ProviderPermit, ThreadBudget, ThreadPermit};
pub use self::cancel::{CancelToken, Cancelled, StopCause, StopGuard, on_stop_last};
pub use self::config_field::{ConfigField, ConfigRequirement};
pub use self::execution_mode::ExecutionMode;
pub use self::grant::{GrantOrigin, GrantReport};
#[cfg_attr(not(unix), allow(unused_imports))]
pub use self::home_protection::{is_protected_in_home, protected_home_path, protected_home_paths};
pub use self::output_policy::OutputPolicy;
pub use self::path_protection::{PathProtection, is_within};
#[cfg_attr(not(unix), allow(unused_imports))]
pub use self::path_protection::{QUARANTINE_SUFFIX, is_quarantined_name, secret_paths_in_folders};
pub use self::sandbox_mode::SandboxMode;
pub use self::script_header::is_script_header;
pub use self::skill_digest::SkillDigest;
pub use self::timestamp::Timestamp;
pub use self::tool::{CalledTool, called_tool, split_tool_name};
pub use self::tool_filter::ToolFilter;
pub use self::variable_name::{
    check_allowed_name, check_variable_name, is_secret_setting, is_secret_variable,
};
pub use self::worker_options::{WorkerOptions, requests_worker, single_run_worker};
pub use autorun::{run_on_open_paths, runs_on_build};
pub use limits::{Limits, RuntimeLimit, in_process_limits, is_limit_set, process_limits, remove_limit};
pub use metier_sandbox::SandboxLevel;
pub use permission::{Access, Permission, client_tool_permission, parse_denied, secret_scope};
#[cfg_attr(not(unix), allow(unused_imports))]
pub use permission::{DEFAULT_PORTS, HostScope, is_host_name, normalize_secret_host};
pub use permissions::{Permissions, RunPermissions, filtered_tool_error};
pub use requester::RequestedPermissions;
pub use watchdog::{DeadlineGuard, Watchdog};
