//! The host API: one table of functions a script may call on `ctx`, and what they reach.

mod args;
mod context;
pub mod files;
mod functions;
mod journal;
mod report;
mod table;

pub(crate) use args::Args;
pub use context::{ContextBuilder, SkillContext};
pub use files::Files;
pub use journal::{LogLevel, LogLine, Observer, Progress};
pub use report::{ProcessReport, SandboxReport};
pub use table::{Access, Example, HostFunction, Kind, Param, function, functions};
