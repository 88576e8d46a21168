//! The host API: the functions that a script may call on `ctx`, and the files, providers and network they use.

mod args;
mod catch_panic;
mod closure_tools;
mod context;
#[cfg(unix)]
mod dir_cleaner;
mod explain;
pub mod files;
mod fixtures;
mod function;
mod functions;
pub(crate) mod git;
mod http;
mod log;
mod memory;
pub(crate) mod metier_dirs;
mod providers;
mod redaction;
mod report;
mod steps;
#[cfg_attr(not(unix), path = "temp_dirs_unsupported.rs")]
pub(crate) mod temp_dirs;
#[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
pub(crate) mod untrusted;
#[cfg(unix)]
#[cfg_attr(not(target_os = "linux"), path = "visibility_lock_unsupported.rs")]
pub(crate) mod visibility_lock;

pub(crate) use self::catch_panic::catch_panic;
pub use self::closure_tools::ClosureTools;
#[cfg(unix)]
pub(crate) use self::dir_cleaner::{DirCleaner, OPEN_BY_NAME};
pub use self::explain::{InterpreterReport, LaunchPreview, SandboxPath, SandboxSupport};
pub use self::fixtures::Fixtures;
pub use self::function::{AccessRule, Example, HostFunction, Param, ValueType, function, functions};
pub use self::log::{LogLevel, LogLine, Observer, Progress};
pub(crate) use args::Args;
pub(crate) use context::HostApiClient;
pub use context::{ContextBuilder, SkillContext};
pub use files::Files;
pub use http::WebClient;
pub(crate) use memory::{AddressSpaceReservation, HostMemory, check_memory_reserve, memory_size};
#[cfg(unix)]
pub(crate) use memory::{check_value_memory, memory_size_of_json, to_json};
pub use providers::{
    ConfigProvider, HttpClient, HttpRequest, HttpResponse, Providers, SampleRequest, SamplingProvider,
    SecretProvider, SkillProvider, Tool, ToolProvider,
};
pub(crate) use redaction::{Redacted, Redaction};
pub use report::{ProcessReport, ProcessUsage, SandboxReport};
pub use steps::{StepEvent, StepReport, StepStatus};
