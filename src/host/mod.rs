//! The host API: one table of functions a script may call on `ctx`, and what they reach.

mod args;
mod cage;
mod canned;
#[cfg(unix)]
mod clearing;
mod context;
pub mod files;
mod functions;
pub(crate) mod git;
mod guarded;
mod http;
#[cfg(unix)]
#[cfg_attr(not(target_os = "linux"), path = "in_sight_elsewhere.rs")]
pub(crate) mod in_sight;
mod journal;
mod memory;
pub(crate) mod own_folders;
mod providers;
mod redaction;
mod report;
mod steps;
#[cfg_attr(not(unix), allow(dead_code, reason = "no script is started there"))]
pub(crate) mod strangers;
mod table;
#[cfg_attr(not(unix), path = "temp_places_elsewhere.rs")]
pub(crate) mod temp_places;
mod tools;

pub(crate) use args::Args;
pub use cage::{InterpreterReport, LaunchPreview, SandboxPath, SandboxSupport};
pub use canned::Fixtures;
#[cfg(unix)]
pub(crate) use clearing::{DirCleaner, OPEN_BY_NAME};
pub(crate) use context::HostApiClient;
pub use context::{ContextBuilder, SkillContext};
pub use files::Files;
pub(crate) use guarded::catch_panic;
pub use http::WebClient;
pub use journal::{LogLevel, LogLine, Observer, Progress};
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
pub use table::{AccessRule, Example, HostFunction, Param, ValueType, function, functions};
pub use tools::ClosureTools;
