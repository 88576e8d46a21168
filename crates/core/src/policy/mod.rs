//! The policy of a run: permissions, limits, sandbox requirements and the token that stops the run.

mod approval;
mod approvals;
mod argument_pattern;
mod autorun;
mod called_tool;
mod cancel;
mod config_field;
mod execution_mode;
mod grant;
#[cfg_attr(not(unix), allow(dead_code, reason = "only processes change files of the home"))]
mod home_protection;
mod limits;
mod memory_budget;
mod output_policy;
mod path_protection;
mod permission;
mod permission_words;
mod permissions;
mod requester;
mod runtime_limit;
mod sandbox_mode;
mod script_header;
mod skill_digest;
mod thread_budget;
mod timestamp;
mod tool_filter;
mod tool_name;
pub mod units;
mod variable_name;
mod watchdog;
mod worker_options;

pub use self::approval::Approval;
pub use self::approvals::{Answer, Approvals, RunArguments};
pub use self::argument_pattern::ArgumentPattern;
pub use self::called_tool::CalledTool;
pub use self::cancel::{CancelToken, Cancelled, StopCause, StopGuard};
pub use self::config_field::{ConfigField, ConfigRequirement};
pub use self::execution_mode::ExecutionMode;
pub use self::grant::{GrantOrigin, GrantReport};
#[cfg_attr(not(unix), allow(unused_imports))]
pub use self::home_protection::{is_protected_in_home, protected_home_path, protected_home_paths};
pub use self::memory_budget::MemoryBudget;
pub use self::output_policy::OutputPolicy;
pub use self::path_protection::{PathProtection, is_within};
#[cfg_attr(not(unix), allow(unused_imports))]
pub use self::path_protection::{QUARANTINE_SUFFIX, is_quarantined_name, secret_paths_in_folders};
pub use self::sandbox_mode::SandboxMode;
pub use self::script_header::is_script_header;
pub use self::skill_digest::SkillDigest;
pub use self::thread_budget::{ProviderPermit, ThreadBudget, ThreadPermit};
pub use self::timestamp::Timestamp;
pub use self::tool_filter::ToolFilter;
pub use self::tool_name::split_tool_name;
pub use self::variable_name::{
    check_allowed_name, check_variable_name, is_secret_setting, is_secret_variable,
};
pub use self::worker_options::WorkerOptions;
pub use autorun::{run_on_open_paths, runs_on_build};
pub use limits::Limits;
pub use metier_sandbox::SandboxLevel;
pub use permission::{Access, Permission};
#[cfg_attr(not(unix), allow(unused_imports))]
pub use permission::{DEFAULT_PORTS, HostScope, is_host_name, normalize_secret_host};
pub use permissions::{Permissions, filtered_tool_error};
pub use requester::RequestedPermissions;
pub use runtime_limit::RuntimeLimit;
pub use watchdog::{DeadlineGuard, Watchdog};
